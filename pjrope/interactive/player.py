"""Notes that can be seen and heard: piano rolls with a play button, sounded by the page itself.

A tune is a list of notes ``[start, length, pitch, velocity]``, a few kilobytes. The roll is drawn by
Python, so it is there without a script; the script adds a button and sounds the notes with the
browser's own oscillators. Nothing is fetched.
"""

from __future__ import annotations

import base64
import html
import io
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..plotting import DPI, PALETTE, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Note = Sequence[int]

_numbers = itertools.count(1)  # ids from a counter, so that a re-run stores the same page
_PAGE_SCRIPT = Path(__file__).with_name("player.js")
_WIDTH, _ROW, _PAD = 640, 5, 6  # of a roll, in units of its drawing


def draw_roll(ax: Axes, notes: Sequence[Note], grid: float = 0.02) -> None:
    """Draw a piano roll: time to the right, pitch upwards.

    Args:
        ax: axes of a figure.
        notes: ``[start, length, pitch, velocity]`` each, times in grid steps.
        grid: step, seconds.
    """
    for start, length, pitch, *_ in notes:
        ax.broken_barh([(start * grid, length * grid)], (pitch - 0.4, 0.8), color=PALETTE["blue"])
    ax.set(xlabel="time (s)", ylabel="pitch (semitones)")
    ax.autoscale_view()


class NotePlayer:
    """Tunes as piano rolls, each with a button that plays and stops it.

    Args:
        tunes: label -> notes, ``[start, length, pitch, velocity]`` each: times in grid steps, pitch and
            velocity as in MIDI, 0 to 127.
        name: letters, digits and dashes; becomes part of the ids on the page.
        alt: what the rolls show, in plain words.
        grid: step of the times, seconds.
        caption: a sentence below.

    Raises:
        ValueError: no tune, a tune without a note, a note out of range, no alt text, an unusable name.

    Limits: in print and on pages that run no script there are rolls and no sound. A browser plays
    nothing before the reader has pressed a button.

    Chapter: music.
    """

    def __init__(
        self,
        tunes: Mapping[str, Sequence[Note]],
        *,
        name: str,
        alt: str,
        grid: float = 0.02,
        caption: str = "",
    ) -> None:
        if not alt.strip():
            raise ValueError(f"player {name!r} has no alt text: say in words what the rolls show")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise ValueError(f"name is {name!r}: use lower-case letters, digits and dashes")
        if not tunes:
            raise ValueError(f"player {name!r} has no tune: pass label -> notes")
        if not grid > 0:
            raise ValueError(f"grid is {grid} s: a time step must be positive, such as 0.02")
        self.tunes = {
            label: [_checked(label, note) for note in tune] for label, tune in tunes.items()
        }
        if empty := [label for label, tune in self.tunes.items() if not tune]:
            raise ValueError(f"tune {empty[0]!r} has no note: leave it out")
        self._name, self._alt, self._grid, self._caption = name, alt, grid, caption

    def page(self) -> str:
        """HTML: the rolls, and the script that puts a play button above each."""
        number = f"pj-{self._name}-{next(_numbers)}"
        config = {
            "id": number,
            "grid": self._grid,
            "pad": _PAD,
            "tunes": [{"label": label, "notes": tune} for label, tune in self.tunes.items()],
        }
        data = json.dumps(config, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
        rolls = "\n".join(
            f'<div class="pj-tune"><div class="pj-tune-head">{html.escape(label)}</div>'
            f"{self._svg(label)}</div>"
            for label in self.tunes
        )
        caption = (
            f"<figcaption>{html.escape(self._caption)}</figcaption>\n" if self._caption else ""
        )
        return (
            f'<figure class="pj-notes" id="{number}" style="margin:0;max-width:44rem">\n{rolls}\n'
            f"{caption}</figure>\n<script>\n(() => {{\nconst config = {data};\n"
            f"{_PAGE_SCRIPT.read_text(encoding='utf8')}}})();\n</script>"
        )

    def png(self) -> bytes:
        """The rolls one below the other, as PNG bytes."""
        from matplotlib.figure import Figure

        with use_style((6.4, 0.6 + 1.5 * len(self.tunes))):
            figure = Figure()
            rows = figure.subplots(len(self.tunes), 1, squeeze=False, sharex=True)[:, 0]
            for ax, (label, tune) in zip(rows, self.tunes.items(), strict=True):
                draw_roll(ax, tune, self._grid)
                ax.set_title(label, loc="left", fontsize=9)
                ax.set(ylabel="pitch")
                ax.label_outer()
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()

    def _svg(self, label: str) -> str:
        tune = self.tunes[label]
        end = max(start + length for start, length, *_ in tune)
        low, high = min(note[2] for note in tune), max(note[2] for note in tune)
        height = (high - low + 1) * _ROW + 2 * _PAD
        scale = (_WIDTH - 2 * _PAD) / end
        bars = "".join(
            f'<rect x="{_PAD + start * scale:.1f}" y="{_PAD + (high - pitch) * _ROW}" '
            f'width="{max(length * scale - 0.6, 0.8):.1f}" height="{_ROW - 1}"/>'
            for start, length, pitch, _ in tune
        )
        words = html.escape(f"Piano roll, {label}: {self._alt}", quote=True)
        return (
            f'<svg role="img" aria-label="{words}" viewBox="0 0 {_WIDTH} {height}" '
            'style="display:block;width:100%;border:1px solid currentColor">'
            f'<g fill="{PALETTE["blue"]}">{bars}</g></svg>'
        )

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, Any]:
        return {
            "text/plain": f"NotePlayer({self._name!r}, {', '.join(self.tunes)})",
            "text/html": self.page(),
            "image/png": base64.b64encode(self.png()).decode(),
        }


def _checked(label: str, note: Note) -> list[int]:
    start, length, pitch, velocity = (int(x) for x in note)
    if start < 0 or length < 1 or not 0 <= pitch < 128 or not 0 <= velocity < 128:
        raise ValueError(
            f"tune {label!r} has the note {list(note)}: start >= 0, length >= 1, pitch and velocity "
            "0 to 127 are needed"
        )
    return [start, length, pitch, velocity]
