"""Download and verify maestro: `python data_scripts/maestro.py [--mirror DIR]`.

The same as `pjrope data maestro`; needs the package installed (`pip install -e .`).
"""

from pjrope.data.command import main

if __name__ == "__main__":
    raise SystemExit(main("maestro"))
