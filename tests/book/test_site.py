"""The built site as a reader opens it: from a folder, with no network, light and dark, wide and narrow."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from checks import toc_files

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
WANTED = [
    f"{re.sub(r'[.](ipynb|md)$', '', name)}.html" for name in toc_files(ROOT / "book" / "_toc.yml")
]
BUILT = [
    path.relative_to(SITE).as_posix()
    for path in sorted(SITE.rglob("*.html"))
    if "_static" not in path.parts
]
DESKTOP, PHONE = 1280, 390
# Without preload off, axe itself would fetch each stylesheet, which a browser refuses to file://.
AXE_OPTIONS = {"resultTypes": ["violations"], "preload": False}
WCAG = {**AXE_OPTIONS, "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
CONTRAST = {**AXE_OPTIONS, "runOnly": ["color-contrast"]}
# The rule that a width decides page by page: what is too wide for a phone scrolls there.
SETTLED = 600  # ms after which the theme has put what scrolls now among the tab stops
SCROLLED = {**AXE_OPTIONS, "runOnly": ["scrollable-region-focusable"]}
# Contrast costs more than all other rules together, and a chapter has ten thousand coloured words of
# code: it is asked of the first text of each look.
LOOKS = """() => {
  axe.configure({rules: [{id: "color-contrast", selector: ".pj-look"}]});
  const seen = new Set();
  for (const e of document.querySelectorAll(".pj-look")) e.classList.remove("pj-look");
  const behind = e => {
    for (; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.backgroundImage !== "none" || !/, 0\\)$|transparent/.test(style.backgroundColor))
        return style.backgroundImage + style.backgroundColor;
    }
  };
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility())
      continue;
    const style = getComputedStyle(e);
    const parts = [style.color, style.fontSize, style.fontWeight, style.opacity, behind(e)];
    const look = parts.join("|");
    if (!seen.has(look)) e.classList.add("pj-look");
    seen.add(look);
  }
  return seen.size;
}"""
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf8")
STILL = "*, *::before, *::after { transition: none !important; animation: none !important }"

# Solutions and hidden cells are part of the page.
UNFOLD = """document.querySelectorAll("details").forEach(d => { d.open = true });
  document.querySelectorAll(".toggle-hidden").forEach(e => e.classList.remove("toggle-hidden"))"""

# Waits for the formulas, then lists what a reader would see as source text.
UNSET = r"""async () => {
  const math = [...document.querySelectorAll(".math")];
  if (math.length) {
    if (!window.MathJax?.startup?.promise) return ["MathJax did not load"];
    await MathJax.startup.promise;
  }
  const bad = math.filter(e => !e.querySelector("mjx-container"))
    .map(e => "not set: " + e.textContent.slice(0, 80));
  for (const e of document.querySelectorAll("mjx-merror"))
    bad.push("TeX error: " + e.textContent.slice(0, 80));
  const walk = document.createTreeWalker(
    document.querySelector("main") || document.body, NodeFilter.SHOW_TEXT);
  const raw = /\\[(\[]|\\begin\{|\\(frac|sum|omega|operatorname|boldsymbol)\b|\$[^$\s][^$]*\$|\{[a-z:]+\}`/;
  for (let n; (n = walk.nextNode());) {
    if (n.parentElement.closest("pre, code, script, style, mjx-container, .math")) continue;
    if (raw.test(n.data)) bad.push("raw source: " + n.data.trim().slice(0, 80));
  }
  return bad;
}"""

# A phone may scroll a long formula, a desktop must not have to.
CUT = """[...document.querySelectorAll("mjx-container")]
  .map(e => [e, e.querySelector("mjx-math").getBoundingClientRect().width])
  .filter(([e, w]) => w > e.clientWidth + 1 && e.clientWidth > 0)
  .map(([e, w]) => `formula cut: ${w | 0} px in ${e.clientWidth}: ${e.textContent.slice(0, 60)}`)"""

# Generated pages repeat one section; axe needs seconds for each thousand cells of a table. The first
# section stands for all of them there. Every other check has seen the whole page by then.
CELLS = 1000
SHORTEN = """limit => {
  if (document.querySelectorAll("main td").length <= limit) return 0;
  const rest = [...document.querySelectorAll("main section > section")]
    .filter(e => e.parentElement.querySelector(":scope > h1")).slice(1);
  rest.forEach(e => e.remove());
  return rest.length;
}"""


def test_site_is_built():
    """Else the parametrised tests below would be an empty list, and pass."""
    assert len(BUILT) >= len(WANTED) > 5, "no site in _build/html: `make book` builds it"


@pytest.fixture(scope="module")
def tab(browser):
    """One tab for all pages, as a new one costs a second; and what goes wrong in it."""
    context = browser.new_context(offline=True, service_workers="block")
    page, wrong = context.new_page(), []

    def asked(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            wrong.append(f"leaves the folder: {request.url}")

    def said(message):
        if message.type in ("error", "warning"):
            wrong.append(f"console: {message.text}")

    page.route(re.compile(r"^(?!file:|data:|blob:|about:)"), lambda route: route.abort())
    page.on("request", asked)
    page.on("requestfailed", lambda r: wrong.append(f"failed: {r.url} {r.failure}"))
    page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
    page.on("console", said)
    yield page, wrong
    context.close()


@pytest.fixture
def opened(tab):
    """Opens a page from the folder and keeps what went wrong: requests, failures, console errors."""
    page, wrong = tab

    def go(name: str, width: int):
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": width, "height": 900})
        wrong.clear()
        page.goto((SITE / name).as_uri())
        page.add_style_tag(content=STILL)  # colours caught in transition would fail at random
        page.evaluate(AXE)
        return page, wrong

    yield go
    page.goto("about:blank")  # what the page still does is not the next one's fault


def told(scheme, report) -> list[str]:
    found = []
    for violation in report["violations"]:
        node = violation["nodes"][0]
        why = node["failureSummary"].splitlines()[1].strip()[:180]
        count = len(violation["nodes"])
        found.append(f"{scheme}: axe {violation['id']} x{count}: {node['target'][0]} {why}")
    return found


def largest_of_each_kind() -> list[str]:
    """A page of each folder: the frame of its pages is one and the same."""
    kinds = {Path(name).parent: [] for name in WANTED}
    for name in WANTED:
        if (SITE / name).is_file():
            kinds[Path(name).parent].append(name)
    return [
        max(pages, key=lambda n: (SITE / n).stat().st_size) for pages in kinds.values() if pages
    ]


def violations(page, schemes) -> list[str]:
    """What axe finds wrong with a page: all in the first scheme, colours alone in a further one."""
    wrong = []
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "s => document.documentElement.dataset.theme === s", arg=scheme, timeout=5000
        )
        assert page.evaluate(LOOKS) > 1, "a page has text of more than one look"
        rules = WCAG if scheme == schemes[0] else CONTRAST
        wrong += told(scheme, page.evaluate("o => axe.run(document, o)", rules))
    return wrong


def too_wide(page) -> list[str]:
    over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [f"the page is {over} px too wide"] if over > 0 else []


@pytest.mark.parametrize("name", dict.fromkeys(WANTED + BUILT))
def test_page(opened, name):
    """On a desktop; then narrowed to a phone, where only what a width decides is asked again."""
    page, wrong = opened(name, DESKTOP)
    if name == "index.html":  # only forwards to the root page, which the contents name too
        page.wait_for_load_state()
    page.evaluate(UNFOLD)
    wrong += page.evaluate(UNSET) + too_wide(page) + page.evaluate(CUT)
    if name in WANTED:
        page.set_viewport_size({"width": PHONE, "height": 900})
        wrong += too_wide(page)
    page.evaluate(SHORTEN, CELLS)
    if name in WANTED:
        page.wait_for_timeout(SETTLED)
        wrong += told("phone", page.evaluate("o => axe.run(document, o)", SCROLLED))
        page.set_viewport_size({"width": DESKTOP, "height": 900})
    wrong += violations(page, ("light", "dark") if name in WANTED else ("light",))
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("name", largest_of_each_kind())
def test_page_opened_on_a_phone(opened, name):
    page, wrong = opened(name, PHONE)
    page.evaluate(UNFOLD)
    wrong += page.evaluate(UNSET) + too_wide(page)
    page.evaluate(SHORTEN, CELLS)
    wrong += violations(page, ("light", "dark"))
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<img src='data:,'>", ["light: axe image-alt x1"]),
        ("<p style='color:#888;background:#999'>grey</p>", ["light: axe color", "dark: axe color"]),
        (
            "<p style='color:#ddd;background:#fff'>pale</p>" * 2,
            ["light: axe color-contrast x1", "dark: axe color-contrast x1"],
        ),
    ],
)
def test_axe_finds_what_is_wrong(opened, html, found):
    """Else a wrong option would make every page pass."""
    page, _ = opened("appendix/colophon.html", DESKTOP)
    page.evaluate("h => document.querySelector('main').insertAdjacentHTML('beforeend', h)", html)
    said = violations(page, ("light", "dark"))
    assert len(said) == len(found)
    assert all(line.startswith(start) for line, start in zip(said, found, strict=True))


def test_axe_finds_what_scrolls_without_focus_on_a_phone(opened):
    page, _ = opened("chapters/ch01_order.html", PHONE)
    page.wait_for_timeout(SETTLED)
    take = "document.querySelectorAll('pre[tabindex]').forEach(e => e.removeAttribute('tabindex'))"
    page.evaluate(take)
    said = told("phone", page.evaluate("o => axe.run(document, o)", SCROLLED))
    assert said and said[0].startswith("phone: axe scrollable-region-focusable")


def test_a_long_page_keeps_one_section_for_axe(opened):
    page, _ = opened("notation.html", DESKTOP)
    row = "<table><tr>" + "<td>1</td>" * (CELLS + 1) + "</tr></table>"
    page.set_content(
        f"<main><section><h1>T</h1><section id='a'>{row}</section>"
        "<section id='b'><section id='c'></section></section></section></main>"
    )
    assert page.evaluate(SHORTEN, CELLS) == 1
    assert page.locator("#a").count() == 1 and page.locator("#b, #c").count() == 0
    assert page.evaluate(SHORTEN, 10 * CELLS) == 0


INTERACTIVE = [
    name for name in WANTED if (SITE / name).is_file() and "pj-fig" in (SITE / name).read_text()
]


@pytest.mark.parametrize("name", INTERACTIVE)
def test_sliders_redraw_by_keyboard(opened, name):
    page, wrong = opened(name, DESKTOP)
    for figure in page.locator("figure.pj-fig").all():
        for control in figure.locator("input[type=range], select").all():
            # A factor may act only under one of the choices beside it.
            settings = [None]
            for choice in figure.locator("select").all():
                settings += [(choice, n) for n in range(choice.locator("option").count())]
            moved = any(_moves(page, figure, control, setting) for setting in settings)
            assert moved, f"{control.get_attribute('name')} moves nothing"
    assert not wrong, "\n" + "\n".join(wrong)


def _moves(page, figure, control, setting) -> bool:
    """Say whether two steps of a control redraw the figure's curves under this choice."""
    if setting is not None:
        choice, n = setting
        choice.select_option(index=n)
    paths = figure.locator("path.pj-curve")
    before = [p.get_attribute("d") for p in paths.all()]
    at_the_end = control.evaluate("e => e.type === 'range' && e.value === e.max")
    control.focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft" if at_the_end else "ArrowRight")
    return before != [p.get_attribute("d") for p in paths.all()]


def test_some_chapter_is_interactive():
    assert INTERACTIVE, "no page holds an interactive figure: none was tested"
