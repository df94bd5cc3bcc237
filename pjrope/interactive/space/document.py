"""The explorer of the whole space as one HTML file, with no server and no kernel behind it."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .presets import presets
from .state import GROUPS, Space

__all__ = ["space_page"]

HERE = Path(__file__).parent
SCRIPTS = ("formulas.js", "draw.js", "app.js")


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf8").strip()


def _data() -> dict[str, Any]:
    """What the script needs to know: where it starts, the controls, the presets."""
    start = Space()
    whole = {name for name, value in asdict(start).items() if isinstance(value, int)}
    controls = [
        {**asdict(control), "group": group, "whole": control.name in whole}
        for group, listed in GROUPS.items()
        for control in listed
    ]
    points = [
        {
            "key": preset.key,
            "label": preset.label,
            "group": preset.group,
            "note": preset.note,
            "set": preset.space.changes(start),
        }
        for preset in presets()
    ]
    return {"start": asdict(start), "controls": controls, "presets": points}


def space_page(back: str | None = None) -> str:
    """The explorer as the text of one HTML file that loads nothing.

    Args:
        back: address of the page it links back to; None for none.

    Returns:
        a whole document; its state stands in the part of its address after the #.
    """
    data = json.dumps(_data(), ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    link = f'<p><a href="{html.escape(back, quote=True)}">← the book</a></p>' if back else ""
    page = _read("space.html").replace("@CSS@", _read("space.css")).replace("@BACK@", link)
    script = "\n".join(map(_read, SCRIPTS))
    # One replacement after the other: the script last, so that nothing in it is replaced.
    return page.replace("@DATA@", data).replace("@SCRIPT@", script) + "\n"
