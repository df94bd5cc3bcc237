"""The player in a real browser: a pressed button sounds oscillators, and nothing leaves the page."""

from __future__ import annotations

import pytest

from pjrope.interactive import NotePlayer

TUNES = {
    "rising": [[0, 100, 60, 80], [100, 100, 64, 90], [200, 100, 69, 100]],
    "short": [[0, 5, 60, 80]],
}
# Counts what is started, and keeps the pitches, without changing what the script does.
LISTEN = """
window.heard = [];
const start = OscillatorNode.prototype.start;
OscillatorNode.prototype.start = function (at) {
  window.heard.push([this.frequency.value, at]);
  return start.call(this, at);
};
"""


@pytest.fixture
def page(browser):
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 800})
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url))
    first = NotePlayer(TUNES, name="tune", alt="Notes.").page()
    page.set_content(f"<script>{LISTEN}</script><main>{first}</main>")
    yield page
    assert not wrong
    context.close()


def button(page, n=0):
    return page.get_by_role("button").nth(n)


def test_rolls_are_drawn_and_buttons_have_names_and_room(page):
    assert page.locator(".pj-notes svg[role=img] rect").count() == 4
    assert button(page).inner_text() == "▶ Play: rising"
    box = button(page).bounding_box()
    assert box["height"] >= 44
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate("window.heard.length") == 0  # no sound before a reader asks


def test_play_starts_a_context_and_the_right_pitches_then_stops(page):
    button(page).focus()
    page.keyboard.press("Enter")
    page.wait_for_function("window.heard.length === 6")
    assert page.evaluate("window.pjPlayer.context instanceof AudioContext")
    heard = page.evaluate("window.heard")
    assert [round(f, 1) for f, _ in heard[::2]] == [261.6, 329.6, 440.0]
    assert [f for f, _ in heard[1::2]] == pytest.approx([2 * f for f, _ in heard[::2]])
    times = [at for _, at in heard[::2]]
    assert [t - times[0] for t in times] == pytest.approx([0, 2, 4], abs=1e-6)
    assert button(page).inner_text() == "■ Stop: rising"
    assert page.locator("line.pj-now").first.get_attribute("visibility") == "visible"
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('button').textContent.startsWith('▶')")
    assert page.locator("line.pj-now").first.get_attribute("visibility") == "hidden"


def test_one_tune_at_a_time(page):
    button(page).click()
    page.wait_for_function("window.heard.length === 6")
    button(page, 1).click()
    page.wait_for_function("window.heard.length === 8")
    assert button(page).inner_text() == "▶ Play: rising"


def test_a_tune_that_ends_gives_its_button_back(page):
    button(page, 1).click()
    page.wait_for_function("window.heard.length === 2")
    page.wait_for_function(
        "document.querySelectorAll('button')[1].textContent.startsWith('▶')", timeout=8000
    )
    assert page.evaluate("window.pjPlayer.stop") is None
