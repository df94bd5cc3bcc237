"""How far from relative light-cone rotary kernels are, and the sentences on it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pjrope.experiments import run
from pjrope.experiments.analysis.report import report
from pjrope.experiments.codes.rotary_precision_lightcone import (
    ALL_LAGS,
    KERNELS,
    make,
    moved,
    not_relative,
)
from pjrope.experiments.engine import registry

SETTINGS = {"length": 512, "lags": [1, 512], "origins": [0, 4096, 1 << 20], "pairs": 4}


def spread(method: str, path: str) -> float:
    *_, last = moved(method, path, SETTINGS, 0)
    assert last["lag"] == ALL_LAGS
    return last["spread"]


@pytest.mark.parametrize("method", KERNELS)
def test_straight_paths_are_relative_to_rounding_and_every_bent_one_is_not(method):
    assert spread(method, "linear") < 1e-9 and make(method, "linear").claims.relative
    for path in ("phase",) if method == "rope" else ("phase", "amplitude", "both"):
        assert spread(method, path) > 0.1
        assert not make(method, path).claims.relative


def test_far_out_a_light_cone_forgets_the_lag():
    def left(path: str) -> list[float]:
        rows = [row for row in moved("pj_rotary", path, SETTINGS, 0) if row["lag"] == 512]
        return [row["lag_left"] for row in rows]

    near, _, far = left("both")
    assert far < 0.25 * near
    straight = left("linear")
    assert straight[2] == pytest.approx(straight[0], rel=1e-6)


def test_rows_start_at_their_reference():
    rows = moved("rope", "phase", SETTINGS, 0)
    assert [row["moved"] for row in rows if row.get("origin") == 0] == [0.0, 0.0]
    assert len(rows) == len(SETTINGS["lags"]) * len(SETTINGS["origins"]) + 1


@pytest.mark.parametrize(("method", "path"), [("alibi", "linear"), ("rope", "log")])
def test_unknown_words_are_named(method, path):
    with pytest.raises(ValueError, match=f"no kernel '{method}' along '{path}'"):
        make(method, path)
    with pytest.raises(ValueError, match="RoPE has a phase alone"):
        make("rope", "both")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    return run("rotary_precision/lightcone", out=tmp_path_factory.mktemp("run"), progress=False)


def test_the_smoke_run_says_which_path_is_relative(smoke):
    shown = report(registry.get("rotary_precision/lightcone"), smoke)
    assert "Relative are, of linear, phase, amplitude and both: linear." in shown
    assert "How far scores of pj_rotary at lag 512 lie from those at lag 0" in shown


def test_the_sentences_follow_the_rows(smoke):
    """A straight path that moved would no longer be called relative."""
    rows = [dict(row) for row in smoke.rows]
    for row in rows:
        if row["method"] == "jordan" and row["path"] == "linear" and "spread" in row:
            row["spread"] = 0.5
    said = not_relative(SimpleNamespace(rows=rows))
    assert "both: none." in said[0] and "at most 5.0e-01" in said[0]
    assert not_relative(SimpleNamespace(rows=[r for r in rows if r["method"] == "rope"])) == []
