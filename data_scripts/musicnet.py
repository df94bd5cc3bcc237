"""Download and verify musicnet: `python data_scripts/musicnet.py [--mirror DIR]`.

The same as `pjrope data musicnet`; needs the package installed (`pip install -e .`).
"""

from pjrope.data.command import main

if __name__ == "__main__":
    raise SystemExit(main("musicnet"))
