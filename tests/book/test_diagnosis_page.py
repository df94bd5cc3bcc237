"""The report of a diagnosis, opened as a reader opens it: offline, light and dark, on a phone."""

from __future__ import annotations

from importlib.resources import files

import pytest
import torch

import pjrope
from pjrope.diagnosis import Shape

pytest.importorskip("playwright")
pytest.importorskip("axe_playwright_python")

TINY = Shape(length=16, width=16, layers=1, heads=2, max_order=1, batch=4, scored=16, segments=8)
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    tokens = torch.randint(5, (20_000,), generator=torch.Generator().manual_seed(0))
    options = {"steps": 4, "seeds": (0,), "starts": ("uniform",), "shape": TINY, "progress": False}
    for name, taken in (("whole", tokens), ("little", tokens[:999])):
        (out / name).mkdir()
        pjrope.diagnose(taken, **options).save(out / name)
    return out


@pytest.mark.parametrize("name", ["whole", "little"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_is_accessible_and_asks_for_nothing(browser, pages, name, scheme):
    context = browser.new_context(offline=True, color_scheme=scheme)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: asked.append(message.text))
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto((pages / name / "report.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert len(asked) == 2, asked  # the file itself, twice
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")
    assert [v["id"] for v in found["violations"]] == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 24, 28)"
    )
    context.close()
