"""The explorer of the whole space in a browser: Python's formulas, keys, address, speed, axe."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from lost_page import chapter_titles, lost_page

from pjrope.interactive.space import METHOD_POINTS, Space, presets, space_page
from pjrope.interactive.space import formulas as python

ROOT = Path(__file__).resolve().parents[2]
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf8")

POINTS = {preset.key: preset.space for preset in presets()}
MODELS = (
    *("llama-3.1-8b", "deepseek-v3", "kimi-k2", "gpt-oss-120b", "gemma-4-26b-a4b"),
    *("gemma-3-27b", "phi-2", "bloom-176b", "llama-4-scout", "phi-4-mini"),
)
ODD = {
    "all": Space(
        rot=2, jet=1, orders="0123", slope=0.3, cone=1.5, near=-2, damping=2, coords="raw"
    ),
    "bent": Space(jet=1, orders="02", slope=1, cone=0.5, coords="light cone", length=1000),
    "cut": Space(rot=1, stretch="YaRN", share=0.375, still=24, scale=7, whole="no", length=500),
    "level": Space(rot=1, stretch="Llama 3", fast=1, slow=1, scale=8, length=8192),
    "no order": Space(jet=1, orders="", cone=1),
}
SPACES = {**{k: POINTS[k] for k in (*METHOD_POINTS, *MODELS)}, **ODD}
LAGS = [0, 1, 2, 3, 4, 17, 63, 64, 65, 200, 1000, 65504, 1_000_000]
CALL = """([s, lags]) => {
  const page = document.documentElement.space, now = page.parts(s, lags);
  return {
    parts: now, roots: page.roots(s), amplitude: lags.map(d => page.amplitude(s, d)),
    ladder: page.ladder(s), weights: page.weights(now.sum, lags),
    digits: Object.fromEntries(["fp32", "fp16", "bf16"].map(n =>
      [n, page.digits(s, lags, n).map(x => Number.isFinite(x) ? x : null)])),
  };
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    path.write_text(space_page("index.html"), encoding="utf8")
    return path


@pytest.fixture(scope="module")
def context(browser):
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture(scope="module")
def opened(context, file):
    """One page for the tests that leave it as it is."""
    page = context.new_page()
    page.goto(file.as_uri())
    return page


@pytest.fixture
def page(context, file):
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("request", lambda r: None if r.url.startswith("file:") else wrong.append(r.url))
    page.goto(file.as_uri())
    yield page
    page.close()
    assert not wrong


@pytest.mark.parametrize("name", SPACES)
def test_formulas_are_python_s(opened, name):
    space = SPACES[name]
    lags = torch.tensor(LAGS, dtype=torch.float64)
    drawn = opened.evaluate(CALL, [asdict(space), LAGS])
    assert drawn["ladder"] == pytest.approx(python.ladder(space).tolist(), rel=1e-12)
    size = python.amplitude(space, lags)
    assert drawn["amplitude"] == pytest.approx(size.tolist(), rel=1e-12, abs=1e-15)
    # A phase of a million radians has lost six of sixteen digits before its cosine is taken.
    near = 1e-9 * (1 + size)
    for sector, values in python.parts(space, lags).items():
        off = (torch.tensor(drawn["parts"][sector], dtype=torch.float64) - values).abs()
        assert bool((off <= near).all()), sector
    wanted = python.weights(space, lags).tolist()
    assert drawn["weights"] == pytest.approx(wanted, rel=1e-3, abs=1e-9)
    for number in python.NUMBERS:
        left = [
            x if math.isfinite(x) else None for x in python.digits(space, lags, number).tolist()
        ]
        for ours, theirs in zip(drawn["digits"][number], left, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-9) if theirs is not None else ours is None


@pytest.mark.parametrize("name", [n for n in SPACES if SPACES[n].base < 1e7])
def test_roots_are_python_s(opened, name):
    found = opened.evaluate(CALL, [asdict(SPACES[name]), [0]])["roots"]
    wanted = python.roots(SPACES[name])
    assert len(found) == len(wanted)
    for re, im, multiplicity, _ in found:
        near = [r for r in wanted if abs(r.value - complex(re, im)) < 2e-12]
        assert multiplicity in [r.multiplicity for r in near]


def test_presets_are_python_s(opened):
    drawn = opened.evaluate(
        "() => { const p = document.documentElement.space;"
        " return Object.fromEntries(p.presets.map(x => [x.key, {...p.start, ...x.set}])); }"
    )
    assert drawn == {key: asdict(space) for key, space in POINTS.items()}


def pictures(page):
    return page.evaluate(
        "() => [...document.querySelectorAll('canvas')].map(c => c.toDataURL()).join('')"
    )


def test_every_control_moves_something_by_keyboard(page):
    page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true })")
    busy = replace(
        ODD["all"], coords="scaled", stretch="YaRN", orders="01", times=2, rot=3.0, damping=1.0,
        fast=4, length=256, still=8,
    )  # fmt: skip
    words = "&".join(f"{k}={v}" for k, v in asdict(busy).items()).replace(" ", "%20")
    for n, control in enumerate(page.locator("#controls :is(input, select)").all()):
        page.evaluate("w => { location.hash = w }", f"from=none&{words}&n={n}")
        page.wait_for_function("() => document.documentElement.space.state.rot === 3")
        before = pictures(page)
        kind = control.get_attribute("type")
        control.focus()
        if kind == "checkbox":
            page.keyboard.press("Space")
        else:
            at_the_end = control.evaluate("e => e.type === 'range' && e.value === e.max")
            page.keyboard.press("ArrowLeft" if at_the_end else "ArrowRight")
        assert pictures(page) != before, control.get_attribute("name")
        page.evaluate("() => { location.hash = 'from=none' }")
        page.wait_for_function("() => document.documentElement.space.state.rot === 0")


def test_the_address_keeps_the_state(page, context, file):
    page.select_option("#preset", "llama-3.1-8b")
    slider = page.locator("input[name=slope]")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.hash.includes('slope=0.005')")
    address, state = page.url, page.evaluate("() => ({...document.documentElement.space.state})")
    assert "from=llama-3.1-8b" in address and "base" not in address
    assert state == {**asdict(POINTS["llama-3.1-8b"]), "slope": 0.005}
    again = context.new_page()
    again.goto(address)
    assert again.evaluate("() => ({...document.documentElement.space.state})") == state
    again.close()


@pytest.mark.parametrize(
    "words", ["from=nonsense", "length=-5", "base=Infinity", "stretch=XL", "orders=9a", "dim=7"]
)
def test_a_wrong_address_still_opens(page, words):
    page.evaluate("w => { location.hash = w }", words)
    page.wait_for_function("w => location.hash === '#' + w", arg=words)
    state = page.evaluate("() => ({...document.documentElement.space.state})")
    Space(**state)


def test_what_is_drawn_is_also_said(page):
    page.select_option("#preset", "alibi")
    canvases = page.locator("canvas")
    names = [c.get_attribute("aria-label") for c in canvases.all()]
    assert len(names) == 6 and all(name and len(name) > 40 for name in names)
    assert "−8 at L" in names[0]
    cells = page.locator("#numbers tbody tr").nth(3).inner_text().split()
    assert cells[:3] == ["64", "−8", "8"]
    page.wait_for_function("() => document.querySelector('#told').textContent.includes('−8 at L')")
    assert page.locator("input[name=length]").get_attribute("aria-valuetext") == "64"


STEPS = """n => {
  const slider = document.querySelector("input[name=cone]");
  for (let k = 0; k < n; k++) {
    slider.value = 0.05 * (k % 20);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
}"""
MOST_MS, COUNT = 8, 30


@pytest.mark.parametrize("key", ["full", "llama-3.1-8b"])
def test_a_step_of_a_slider_is_quick(page, context, key):
    """Chromium's own count of the processor time of scripts: the best of three, as others slow it."""
    page.select_option("#preset", key)
    page.evaluate(STEPS, 20)
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "ScriptDuration")

    times = [spent()]
    for _ in range(3):
        page.evaluate(STEPS, COUNT)
        times.append(spent())
    each = 1000 * min(b - a for a, b in pairwise(times)) / COUNT
    print(f"{key}: {each:.2f} ms of script a step")
    assert 0 < each <= MOST_MS


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page, width, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("s => document.documentElement.dataset.theme === s", arg=scheme)
    page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    page.evaluate(AXE)
    report = page.evaluate("() => axe.run(document, {resultTypes: ['violations'], preload: false})")
    assert [v["id"] for v in report["violations"]] == []


def test_the_lost_page_names_every_chapter(page, tmp_path):
    titles = chapter_titles(ROOT / "book")
    path = tmp_path / "404.html"
    path.write_text(lost_page(ROOT / "book"), encoding="utf8")
    page.goto(path.as_uri())
    links = {a.get_attribute("href") for a in page.locator("a").all()}
    assert {f"{name}.html" for name in titles} | {"index.html", "explorer.html"} <= links
    assert titles["chapters/ch01_order"][0] == 1 and len(titles) > 5


def test_a_chapter_without_a_title_is_named(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters" / "ch01_x.md").write_text("no heading")
    (tmp_path / "_toc.yml").write_text("root: index\nchapters:\n- file: chapters/ch01_x.ipynb\n")
    with pytest.raises(ValueError, match="has no title"):
        chapter_titles(tmp_path)
