"""Download and verify wikitext_103_raw: `python data_scripts/wikitext_103_raw.py [--mirror DIR]`.

The same as `pjrope data wikitext_103_raw`; needs the package installed (`pip install -e .`).
"""

from pjrope.data.command import main

if __name__ == "__main__":
    raise SystemExit(main("wikitext_103_raw"))
