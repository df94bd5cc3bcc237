"""Sphinx extension: what the site needs to stand alone in a folder and to be read by everyone."""

from __future__ import annotations

import html
import re
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.fileutil import copy_asset

# The parts of MathJax a page may ask for; the whole package would add 24 MB to the site.
MATHJAX_PARTS = (
    "tex-mml-chtml.js",
    "output/chtml/fonts",
    "input/tex/extensions",
    "a11y",
    "sre/mathmaps/base.json",
    "sre/mathmaps/en.json",
)


def copy_mathjax(app: Sphinx) -> None:
    """Copy MathJax out of the installed package before pages are written.

    Done at the start of the build, not at its end: a page's link carries a hash of the file.
    """
    if app.builder.format != "html":
        return
    source = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    for part in MATHJAX_PARTS:
        target = Path(app.outdir, "_static", "mathjax", part)
        copy_asset(source / part, target if (source / part).is_dir() else target.parent)


def write_pages(app: Sphinx) -> None:
    """The explorer and the page for addresses that do not exist, each one file beside the others."""
    if app.builder.format != "html":
        return
    from lost_page import lost_page

    from pjrope.interactive.space import space_page

    out = Path(app.outdir)
    out.joinpath("explorer.html").write_text(space_page("index.html"), encoding="utf8")
    out.joinpath("404.html").write_text(lost_page(Path(app.srcdir)), encoding="utf8")


def mend_roles(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    """Replace the bibliography role that docutils writes and ARIA has withdrawn."""
    if "body" in context:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


def show_card(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    """What other sites show of a link: title, question and picture, at the published address."""
    place = app.config.html_theme_options.get("repository_url") or ""
    owner, _, name = place.removeprefix("https://github.com/").partition("/")
    title = html.escape(re.sub(r"<[^>]+>", "", context.get("title") or ""), quote=True)
    picture = f"https://{owner}.github.io/{name}/_static/social.png"
    facts = {
        "og:type": "website",
        "og:title": title or app.config.project,
        "og:description": "RoPE, Jordan blocks, ALiBi and light cones as one learnable space.",
        "og:image": picture,
    }
    context["metatags"] = context.get("metatags", "") + "".join(
        f'<meta property="{key}" content="{value}">\n' for key, value in facts.items()
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", copy_mathjax)
    app.connect("builder-inited", write_pages)
    app.connect("html-page-context", mend_roles)
    app.connect("html-page-context", show_card)
    app.config.mathjax_path = "mathjax/tex-mml-chtml.js"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
