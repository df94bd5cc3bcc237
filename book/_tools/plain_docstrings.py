"""Sphinx extension: docstrings are plain text, so their formulas must not be read as markup.

A docstring is written for ``help()``: |d|, a*b and w_ are formulas there, but reStructuredText
would take them for substitutions, emphasis and links, and the build treats its complaints as errors.
Double backticks keep their meaning; a role becomes the name it points at, since ``help()`` shows
private names that the site has no page for.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx

KEPT = re.compile(r"(``.+?``)")
ROLE = re.compile(r":[a-z:]+:`~?([^`]+)`")


def plain(text: str) -> str:
    """Escape what reStructuredText would read as inline markup: ``|d|`` -> ``\\|d\\|``.

    Single backticks, which Markdown writers use for code, become double ones.
    """
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", ROLE.sub(r"``\1``", text))
    pieces = KEPT.split(text)
    pieces[::2] = [
        re.sub(r"(?<=\w)_(?!\w)", r"\_", re.sub(r"(?<!\\)([*|`])", r"\\\1", piece))
        for piece in pieces[::2]
    ]
    return "".join(pieces)


def join_split_literals(lines: list[str]) -> list[str]:
    """Put a ``literal`` that was wrapped at the margin back on one line."""
    joined: list[str] = []
    for line in lines:
        if joined and joined[-1].count("``") % 2 and line.strip():
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
    return joined


def set_off_formulas(lines: list[str]) -> list[str]:
    """Turn a deeper-indented block under a sentence into a literal block.

    Google sections (``Args:``) are left alone: napoleon reads their indentation itself.
    """
    out: list[str] = []
    in_section = in_block = False
    for line in lines:
        deep, blank = line.startswith("    "), not line.strip()
        if not deep and not blank:
            in_section = bool(re.fullmatch(r"[A-Z][a-z]+:", line.strip()))
            if in_block:
                out.append("")
            in_block = False
        elif deep and not in_section and not in_block:
            out += ["", "::", ""]
            in_block = True
        out.append(line)
    return out


def rewrite(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list) -> None:
    """Handler of ``autodoc-process-docstring``; edits ``lines`` in place."""
    set_off = set_off_formulas(join_split_literals(lines))
    in_block = False
    done = []
    for line in set_off:
        if line == "::":
            in_block = True
        elif in_block and line.strip() and not line.startswith("    "):
            in_block = False
        done.append(line if in_block else plain(line))
    lines[:] = done


def setup(app: Sphinx) -> dict[str, bool]:
    # Before napoleon (500), which turns the sections into fields.
    app.connect("autodoc-process-docstring", rewrite, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
