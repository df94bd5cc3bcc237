"""`python -m pjrope.cli`, for where the script `pjrope` is not on the path."""

import sys

from . import main

sys.exit(main())
