"""RoPE read with stretched positions: same weights, same bytes, and the rule of P-L4."""

from __future__ import annotations

import pytest

from pjrope.experiments import Result, get, run
from pjrope.experiments.text.stretched import EXTENSIONS, make_reader
from pjrope.positions import NTK, PI, YaRN

NAME = "byte_lm/stretched"
SETTINGS = get(NAME).presets["smoke"].settings


def rotation(extension, factor):
    model = make_reader("rope_affine", extension, factor, SETTINGS, 16, seed=0)
    return model.blocks[0].attention.kernel.parts[0].extension


def test_readers_are_what_they_are_called():
    assert isinstance(rotation("_pi", 4.0), PI) and isinstance(rotation("_yarn", 4.0), YaRN)
    assert rotation("_ntk", 4.0) == NTK(4.0) and rotation("_dynamic", 4.0) == NTK(length=64)
    assert rotation("", 4.0) is None and rotation("_pi", 1.0) is None


def test_all_ways_to_read_agree_at_the_training_length():
    rows = run(NAME, only={"method": "rope"}, store=False, progress=False).where(kind="loss").rows
    near = {r["method"]: r["loss"] for r in rows if r["length"] == 64}
    far = {r["method"]: r["loss"] for r in rows if r["length"] == 256}
    assert set(near) == {"rope" + e for e in EXTENSIONS}
    assert len(set(near.values())) == 1 and len(set(far.values())) > 2


def judged(losses, seeds=(0, 1, 2)):
    rows = [
        {"kind": "loss", "method": m, "seed": s, "length": n, "loss": loss + 0.001 * s}
        for m, curve in losses.items()
        for n, loss in zip((64, 128, 512), curve, strict=True)
        for s in seeds
    ]
    rule = get(NAME).verdicts["P-L4"]
    return rule(Result(rows, {"settings": {"length": 64}, "data": []}))


ROPE = {"rope": (1.7, 2.0, 4.0)}
ALL = {f"rope_{e}": (1.7, 1.8, 2.0) for e in ("pi", "ntk", "yarn")}


@pytest.mark.parametrize(
    ("losses", "outcome"),
    [
        (ROPE | ALL, "reproduced"),
        (ROPE | ALL | {"rope_pi": (1.7, 2.2, 5.0)}, "reproduced in part"),
        (ROPE | {m: (1.7, 1.8, 4.0) for m in ALL}, "reproduced in part"),
        (ROPE | {m: (1.7, 2.0, 4.0) for m in ALL}, "not at this scale"),
        ({"rope": (1.7, 1.7, 1.7)} | ALL, "not at this scale"),
        (ROPE, "not tested"),
    ],
)
def test_the_rule_of_stretching(losses, outcome):
    assert judged(losses).outcome == outcome
    assert judged(losses, seeds=(0,)).outcome == "not tested"


def test_horizon_trains_as_long_does_and_reads_as_far():
    book = {n: get(f"byte_lm/{n}").presets["book"].settings for n in ("horizon", "long")}
    assert book["horizon"] == book["long"]
    result = run("byte_lm/horizon", only={"method": "affine"}, store=False, progress=False)
    assert {row["windows"] for row in result.rows} == {"many", "far"}
