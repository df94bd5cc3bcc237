"""The page for addresses that do not exist: one file that finds its way home from any depth."""

from __future__ import annotations

import html
import re
from pathlib import Path

from checks import toc_files

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Page not found: Relative position, one space</title>
<script>
document.documentElement.dataset.theme =
  matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (e) => {
  document.documentElement.dataset.theme = e.matches ? "dark" : "light";
});
// A host answers any address with this page, so its links start at the site's own folder there.
if (location.hostname.endsWith("github.io")) {
  const base = document.createElement("base");
  base.href = "/" + location.pathname.split("/")[1] + "/";
  document.head.append(base);
}
</script>
<style>
body { font: 1.05rem/1.6 system-ui, "DejaVu Sans", sans-serif; margin: 0; background: #fff; color: #1c2430; }
main { max-width: 40rem; margin: 0 auto; padding: 2rem 1.25rem; }
a { color: #1a5fb4; }
[data-theme="dark"] body { background: #14181e; color: #e8ebf0; }
[data-theme="dark"] a { color: #8ab8f5; }
</style>
</head>
<body>
<main>
<h1>This page is not here</h1>
<p>It may have moved: chapters keep their number, and pages of results moved into the ledger.
Start from one of these.</p>
<ul>
<li><a href="index.html">The book's first page</a>, with three ways to read it</li>
<li><a href="explorer.html">The explorer</a> of all position methods</li>
<li><a href="search.html">Search</a></li>
</ul>
<h2>Chapters</h2>
<ul>
@CHAPTERS@
</ul>
</main>
</body>
</html>
"""


def chapter_titles(book: Path) -> dict[str, tuple[int, str]]:
    """Chapters of the contents in order: file without ending -> (number, title)."""
    found = {}
    for name in toc_files(book / "_toc.yml"):
        if numbered := re.fullmatch(r"(chapters/ch(\d\d)_\w+)(?:[.]\w+)?", name):
            text = (book / f"{numbered[1]}.md").read_text(encoding="utf8")
            title = re.search(r"^# (.+)$", text, re.M)
            if title is None:
                raise ValueError(f"{numbered[1]}.md has no title: its first heading is one #")
            found[numbered[1]] = (int(numbered[2]), title[1])
    return found


def lost_page(book: Path) -> str:
    """The whole page, with the chapters that the contents of ``book`` name."""
    lines = [
        f'<li><a href="{name}.html">{number}. {html.escape(title)}</a></li>'
        for name, (number, title) in chapter_titles(book).items()
    ]
    return PAGE.replace("@CHAPTERS@", "\n".join(lines))
