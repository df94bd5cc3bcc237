"""Jordan-RoPE's claims on text: twins that share all but the shear, and the two rules."""

from __future__ import annotations

import pytest
import torch

from pjrope.experiments import Result, get, run
from pjrope.experiments.text.wikitext import METHODS, learned, make_kernel, make_model
from pjrope.kernels import ALiBi, JordanRoPE

NAME = "wikitext_bytes"
SETTINGS = get(NAME).presets["smoke"].settings


def test_a_twin_is_the_same_block_without_its_shear():
    for ours, twin in (("jordan", "damped"), ("jordan150_alibi", "damped150_alibi")):
        a, b = (make_kernel(m, 16, 2, 64) for m in (ours, twin))
        x = torch.randn(1, 2, 5, 16, generator=torch.Generator().manual_seed(0))
        block = a if isinstance(a, JordanRoPE) else a.parts[0]
        with torch.no_grad():
            block.eta.zero_()
        at = torch.arange(5)
        for left, right in zip(a.rotate(x, x, at, at), b.rotate(x, x, at, at), strict=True):
            torch.testing.assert_close(left, right)
    assert isinstance(make_kernel("rope_trunc_alibi", 16, 2, 64).parts[1], ALiBi)
    with pytest.raises(ValueError, match="method 'x'"):
        make_kernel("x", 16, 2, 64)


def test_a_shear_that_is_held_does_not_learn():
    result = run(NAME, only={"method": ["jordan", "jordan_held20"]}, store=False, progress=False)
    shear = {row["method"]: row["shear"] for row in result.where(kind="shear").rows}
    assert shear["jordan_held20"] == pytest.approx(0.2) and shear["jordan"] != 0.01
    assert learned(make_model("damped", SETTINGS, 16, 0))[0]["shear"] == 0.0


def judged(claim, losses, seeds=(0, 1, 2), shear=1.0):
    rows = [
        {"kind": "loss", "method": m, "seed": s, "length": n, "loss": loss + 0.001 * s}
        for m, curve in losses.items()
        for n, loss in zip((256, 8192), curve, strict=True)
        for s in seeds
    ]
    rows.append({"kind": "shear", "method": "jordan_held100", "seed": 0, "shear": shear})
    rule = get(NAME).verdicts[claim]
    return rule(Result(rows, {"settings": {"length": 256}, "data": []})).outcome


CLAIMED = {
    "rope_trunc": (1.6, 2.0),
    "damped": (1.55, 1.6),
    "jordan": (1.5, 1.5),
    "jordan_held100": (1.5, 1.9),
    "rope_alibi": (1.45, 1.5),
    "damped150_alibi": (1.45, 1.5),
    "jordan150_alibi": (1.4, 1.4),
}


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({}, "reproduced"),
        ({"damped": (1.5, 1.5)}, "reproduced in part"),
        ({"rope_alibi": (1.6, 1.6)}, "not at this scale"),
        ({"jordan_held100": (1.5, 1.6)}, "not at this scale"),
    ],
)
def test_the_rule_of_k6(changed, outcome):
    assert judged("J-K6", CLAIMED | changed) == outcome


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({}, "reproduced"),
        ({"damped150_alibi": (1.4, 1.4)}, "reproduced in part"),
        ({"rope_alibi": (1.3, 1.5)}, "contradicted"),
    ],
)
def test_the_rule_of_k7(changed, outcome):
    assert judged("J-K7", CLAIMED | changed) == outcome


def test_rules_judge_nothing_without_seeds_methods_or_a_treatment():
    for claim in ("J-K6", "J-K7"):
        assert judged(claim, CLAIMED, seeds=(0,)) == "not tested"
        assert judged(claim, {"rope": (1.5, 1.5)}) == "not tested"
    assert judged("J-K6", CLAIMED, shear=0.02) == "not tested"
    assert set(CLAIMED) < set(METHODS)
