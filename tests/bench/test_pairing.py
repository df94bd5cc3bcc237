"""The mathematics of pairs, on clocks that only move when told to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pjrope.bench.pairing import Clock, Contestant, Paired, Race, Skipped, quartiles, rows_of
from pjrope.bench.settings import FULL

SETTINGS = replace(FULL, least_seconds=0.0, budget=100.0, least_pairs=2, most_pairs=9)


class FakeTime:
    """Wall and processor clocks advanced by what runs, slower by ``slowdown`` from call to call."""

    def __init__(self, slowdown: float = 1.0) -> None:
        self.wall, self.cpu, self.order = 0.0, 0.0, []
        self.factor, self.slowdown = 1.0, slowdown

    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.cpu)

    def run(self, name: str, wall: float, cpu: float):
        def call() -> None:
            self.order.append(name)
            self.wall += wall * self.factor
            self.cpu += cpu
            self.factor *= self.slowdown

        return call


def test_contestants_take_turns_and_the_first_call_of_each_is_not_counted():
    time = FakeTime()
    race = Race(time.run("A", 2.0, 1.0), replace(SETTINGS, most_pairs=3), time.clock())
    paired = race.against(time.run("B", 3.0, 0.5))
    assert "".join(time.order) == "AB" + "ABABAB"
    found = paired.summary()
    assert found["seconds"] == [3.0] * 3 and found["reference_seconds"] == [2.0] * 3
    assert (found["ratio"], found["cpu_ratio"], found["pairs"]) == (1.5, 0.5, 3)


def test_a_machine_that_slows_down_changes_seconds_but_hardly_the_ratio():
    time = FakeTime(slowdown=1.05)
    race = Race(time.run("A", 1.0, 1.0), SETTINGS, time.clock())
    found = race.against(time.run("B", 2.0, 1.0)).summary()
    assert found["seconds"][-1] > 1.8 * found["seconds"][0]
    assert found["ratio_low"] == pytest.approx(found["ratio_high"]) == pytest.approx(2.1)


def test_on_a_gpu_the_call_that_compiles_does_not_decide_the_number_of_pairs():
    time, settings = FakeTime(), replace(SETTINGS, device="cuda", budget=6.0)
    work = time.run("B", 1.0, 1.0)

    def compiled_at_first():
        time.wall += 50.0 * ("B" not in time.order)
        work()

    race = Race(time.run("A", 1.0, 1.0), settings, time.clock())
    assert race.against(compiled_at_first).summary()["pairs"] == 3
    assert "".join(time.order) == "AA" + "BB" + "ABABAB"


@pytest.mark.parametrize(("budget", "pairs"), [(0.0, 2), (17.0, 5), (1000.0, 9)])
def test_the_budget_decides_the_number_of_pairs_within_bounds(budget, pairs):
    time = FakeTime()
    race = Race(time.run("A", 1.0, 1.0), replace(SETTINGS, budget=budget), time.clock())
    assert race.against(time.run("B", 2.0, 1.0)).summary()["pairs"] == pairs


def test_short_calls_are_repeated_within_one_reading_and_averaged():
    time = FakeTime()
    settings = replace(SETTINGS, least_seconds=1.0, budget=0.0)
    race = Race(time.run("A", 0.25, 0.25), settings, time.clock())
    found = race.against(time.run("B", 0.5, 0.5)).summary()
    assert "".join(time.order) == "AB" + 2 * ("A" * 4 + "B" * 4)
    assert found["ratio"] == 2.0 and found["reference_seconds"] == [0.25, 0.25]


def test_quartiles_lie_among_the_values():
    assert quartiles([3.0]) == (3.0, 3.0, 3.0)
    assert quartiles([1.0, 9.0]) == (3.0, 5.0, 7.0)
    assert quartiles([5.0, 1.0, 2.0, 4.0, 3.0]) == (2.0, 3.0, 4.0)


def test_a_median_of_ratios_is_not_a_ratio_of_medians():
    paired = Paired()
    for reference, contestant in ((1.0, 2.0), (10.0, 10.0), (4.0, 12.0)):
        paired.add((reference, reference), (contestant, contestant))
    assert paired.summary()["ratio"] == 2.0  # medians alone would say 10 / 4


def test_a_processor_clock_that_stood_still_gives_no_ratio():
    paired = Paired()
    paired.add((1.0, 0.0), (2.0, 0.0))
    found = paired.summary()
    assert found["ratio"] == 2.0 and found["cpu_ratio"] is None


def test_what_cannot_run_says_why_and_does_not_stop_the_others():
    time = FakeTime()

    def absent():
        raise Skipped("not here")

    good = Contestant("good", lambda: time.run("good", 1.0, 1.0))
    bad = Contestant("bad", absent)
    rows = list(rows_of("s", good, [bad, good], SETTINGS, clock=time.clock(), n=7))
    assert [row["skipped"] for row in rows] == ["not here", None]
    assert rows[1]["ratio"] == 1.0 and rows[1]["n"] == 7 and "ratio" not in rows[0]
    rows = list(rows_of("s", bad, [good], SETTINGS, clock=time.clock(), n=7))
    assert [row["skipped"] for row in rows] == ["bad: not here"]


def test_the_clock_of_a_device_is_waited_for_before_and_after():
    time, waits = FakeTime(), []
    clock = Clock(lambda: time.wall, lambda: time.cpu, lambda: waits.append(len(time.order)))
    assert clock.read(time.run("A", 1.0, 1.0), calls=2) == (1.0, 1.0)
    assert waits == [0, 2]
