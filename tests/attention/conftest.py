"""What `pytest tests` leaves out: checks of Triton kernels, which only the interpreter can run."""

from __future__ import annotations

import os

# tests/attention/test_triton.py starts them in a process of their own, with the variable set.
collect_ignore = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["interpreted"]
