"""Download and verify wikitext_2_raw: `python data_scripts/wikitext_2_raw.py [--mirror DIR]`.

The same as `pjrope data wikitext_2_raw`; needs the package installed (`pip install -e .`).
"""

from pjrope.data.command import main

if __name__ == "__main__":
    raise SystemExit(main("wikitext_2_raw"))
