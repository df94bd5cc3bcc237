"""Download and verify war_and_peace: `python data_scripts/war_and_peace.py [--mirror DIR]`.

The same as `pjrope data war_and_peace`; needs the package installed (`pip install -e .`).
"""

from pjrope.data.command import main

if __name__ == "__main__":
    raise SystemExit(main("war_and_peace"))
