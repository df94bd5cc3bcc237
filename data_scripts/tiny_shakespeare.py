"""Download and verify Tiny Shakespeare: `python data_scripts/tiny_shakespeare.py [--mirror DIR]`.

The same as `pjrope data tiny_shakespeare`; needs the package installed (`pip install -e .`).
"""

from pjrope.data.command import main

if __name__ == "__main__":
    raise SystemExit(main("tiny_shakespeare"))
