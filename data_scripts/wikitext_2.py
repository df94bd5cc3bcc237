"""Download and verify wikitext_2: `python data_scripts/wikitext_2.py [--mirror DIR]`.

The same as `pjrope data wikitext_2`; needs the package installed (`pip install -e .`).
"""

from pjrope.data.command import main

if __name__ == "__main__":
    raise SystemExit(main("wikitext_2"))
