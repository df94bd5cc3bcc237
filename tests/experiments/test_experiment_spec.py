"""Specs: ids that follow content, frozen settings, and a registry with clear errors."""

from __future__ import annotations

from dataclasses import replace

import fake_experiments
import numpy as np
import pytest
import torch

from pjrope.experiments import Cell, Experiment, ExperimentError, Preset
from pjrope.experiments.engine import registry
from pjrope.experiments.engine.plain_json import plain


def test_a_cell_id_depends_on_the_content_of_its_key_and_not_on_its_order():
    cell = Cell({"seed": 1, "method": ["rope", "ntk"]})
    assert cell.id == Cell({"method": ("rope", "ntk"), "seed": 1}).id
    others = [{"seed": 2, "method": ["rope", "ntk"]}, {"seed": 1, "method": ["ntk", "rope"]}]
    assert cell.id not in {Cell(key).id for key in others}


def test_cell_ids_stay_the_same_between_versions():
    # Finished cells on users' disks are found by these ids: a change throws their work away.
    assert Cell({"seed": 0, "method": "rope"}).id == "3b317a5623cd"


def test_a_filter_tells_types_apart_and_takes_lists_on_either_side():
    cell = Cell({"seed": 1, "method": ["rope", "ntk"], "tied": True})
    assert cell.matches({}) and cell.matches({"method": "ntk", "seed": [0, 1]})
    assert not cell.matches({"method": "none"})
    assert not cell.matches({"seed": "1"}) and not cell.matches({"tied": 1})
    assert not cell.matches({"missing": 1})


@pytest.mark.parametrize("key", [{"method": "rope"}, {"seed": "0"}, {"seed": 0, "x": {1, 2}}])
def test_a_cell_key_is_json_with_a_seed(key):
    with pytest.raises(ExperimentError):
        Cell(key)


def test_settings_are_frozen_and_decide_the_spec_id():
    experiment = fake_experiments.QUICK
    smoke, book = experiment.presets["smoke"], experiment.presets["book"]
    assert smoke.settings["lengths"] == (8, 1024)
    with pytest.raises(TypeError):
        smoke.settings["scale"] = 1.0
    renamed = Preset("paper", (7,), {"lengths": [8, 1024], "scale": 0.5}, "other words")
    assert experiment.spec_id(renamed) == experiment.spec_id(smoke)
    assert experiment.spec_id(book) != experiment.spec_id(smoke)


def test_a_revision_changes_the_spec_id():
    fields = {name: getattr(fake_experiments.SLOW, name) for name in ("name", "question", "claims")}
    parts = {name: getattr(fake_experiments.SLOW, name) for name in ("cells", "run_cell")}
    presets = dict(fake_experiments.SLOW.presets)
    one, two = (Experiment(**fields, **parts, presets=presets, revision=r) for r in (1, 2))
    assert one.spec_id(presets["smoke"]) != two.spec_id(presets["smoke"])


@pytest.mark.parametrize("seeds", [(), (1, 1), (-1,), (True,), (0.0,)])
def test_seeds_are_distinct_integers(seeds):
    with pytest.raises(ExperimentError, match="seeds"):
        Preset("smoke", seeds, {}, "")


def test_two_cells_with_one_key_are_refused():
    slow = fake_experiments.SLOW
    with pytest.raises(ExperimentError, match="share a key"):
        slow.grid(slow.presets["smoke"], [3, 3])


def test_a_deterministic_experiment_knows_seed_0_alone():
    quick = replace(fake_experiments.QUICK, deterministic=True)
    assert len(quick.grid(quick.presets["smoke"], [0])) == 2
    with pytest.raises(ExperimentError, match=r"seeds \[0, 1\]: nothing in it is random"):
        quick.grid(quick.presets["smoke"], [0, 1])


def test_plain_takes_numbers_of_every_library_and_refuses_the_rest():
    mixed = {"a": np.float64(0.1), "b": torch.tensor(3), "c": (np.int64(2), np.bool_(True), None)}
    assert plain(mixed) == {"a": 0.1, "b": 3, "c": [2, True, None]}
    assert plain(mixed)["c"][1] is True
    for value in (float("nan"), float("inf"), {1: 2}, {1}, torch.zeros(2), b"x"):
        with pytest.raises(ExperimentError):
            plain({"x": value})


@pytest.mark.parametrize("name", ["../x", "/x", "x//y", "x/", "X", "a b", ""])
def test_names_cannot_leave_the_results_folder(name):
    with pytest.raises(ExperimentError, match="name"):
        registry.register(name, "module:X")


def test_the_registry_lists_names_in_its_errors():
    with pytest.raises(ExperimentError, match=r"no experiment 'bite_lm'.*byte_lm/baselines"):
        registry.get("bite_lm")
    with pytest.raises(ExperimentError, match="no preset 'night'; choose from: smoke, book"):
        registry.get("fake/quick").preset("night")


def test_the_registry_refuses_what_is_not_there(monkeypatch):
    for place in ("no_such_module:X", "fake_experiments:NOTHING", "fake_experiments:SLOW"):
        monkeypatch.setitem(registry._PLACES, "fake/quick", place)
        with pytest.raises(ExperimentError, match=r"fake/quick.*(no module|not the experiment)"):
            registry.get("fake/quick")
    with pytest.raises(ExperimentError, match="choose another name"):
        registry.register("fake/slow", "elsewhere:X")
