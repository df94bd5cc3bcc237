"""Retrieval, pairs and attention: the protocol's figures, traps shown, and the rule of P-F4."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from pjrope.experiments import registry
from pjrope.experiments.attention_retrieval import TOKENS, ReadOut
from pjrope.experiments.lag_codes import CYCLES, PRECISIONS, code, even_lags, normalized, quantize
from pjrope.experiments.pair_resolution import best_threshold, standardized
from pjrope.experiments.resolution_claim import resolution_claim
from pjrope.experiments.retrieval_resolution import noisy, retrieve

LENGTH = 1024
# Protocol of PJ-RoPE, E1, C8: top1 in fp32, int8 and int4 on lags 16 L … 32 L at 32,768 positions.
RETRIEVAL = {
    "raw": ".031 .992 .594",
    "scaled": "1 1 .875",
    "clipped": ".031 0 0",
    "log": "1 1 .852",
    "lc_amp_only": ".234 .242 0",
    "lc_phase_only": "1 .992 .188",
    "lc": "1 1 .109",
    "lc_wrong_scale": ".023 .031 0",
}
# Where the best other key is as near as fp32 can tell, its rounding breaks the tie.
TIED = {("lc_amp_only", "fp32"), ("lc_wrong_scale", "fp32")}


@pytest.mark.parametrize("name", RETRIEVAL)
def test_the_retrieval_protocol_comes_out_to_the_printed_digits(name):
    rows = code(name, torch.arange(1, 32768).float(), LENGTH, CYCLES["paper"])
    own = even_lags("x16_32", LENGTH, 128, 0) - 1
    for (precision, bits), text in zip(PRECISIONS.items(), RETRIEVAL[name].split(), strict=True):
        keys = normalized(quantize(rows, bits, 0))
        found = retrieve(keys, keys[own], own)["top1"]
        assert found == pytest.approx(
            float(text), abs=3 / 128 if (name, precision) in TIED else 6e-4
        )


@pytest.mark.parametrize(("name", "share"), [("scaled", 0.75), ("log", 0.98), ("lc", 0.92)])
def test_noise_of_a_hundredth_with_whole_cycles(name, share):
    # T13 of the protocol; another draw of the noise moves a few of 128 queries.
    rows = code(name, torch.arange(1, 32768).float(), LENGTH, CYCLES["paper"])
    own = even_lags("x16_32", LENGTH, 128, 0) - 1
    asked = noisy(rows[own], 0.01, torch.Generator().manual_seed(0))
    assert retrieve(normalized(rows), asked, own)["top1"] == pytest.approx(share, abs=0.04)


def test_retrieval_counts_what_it_says():
    keys = normalized(torch.eye(100) + 0.1)
    asked = keys[torch.tensor([5, 7, 99])]
    found = retrieve(keys, asked, torch.tensor([5, 8, 0]))
    assert found["top1"] == pytest.approx(1 / 3) and found["near"] == pytest.approx(2 / 3)
    assert found["error"] == pytest.approx((0 + 1 + 99) / 3)


def test_noise_has_the_length_asked_for():
    rows = normalized(torch.randn(500, 24, generator=torch.Generator().manual_seed(0)))
    moved = noisy(rows, 0.05, torch.Generator().manual_seed(1))
    assert (moved - rows).norm(dim=1).mean().item() == pytest.approx(0.05, rel=0.05)
    torch.testing.assert_close(moved.norm(dim=1), torch.ones(500))


def test_growing_codes_lie_far_apart_in_units_of_the_training_window():
    # T14: mean distance to the nearest other lag, 16 L … 32 L; it is size that tells them apart.
    apart = {}
    for name in ("scaled", "lc_phase_only", "lc"):
        rows = code(name, torch.arange(1, 32768).float(), LENGTH, CYCLES["paper"])
        rows = standardized(rows, rows[: LENGTH - 1])
        own = even_lags("x16_32", LENGTH, 32, 0) - 1
        distances = torch.cdist(rows[own], rows[16 * LENGTH - 1 :])
        rest = distances.scatter(1, own[:, None] - 16 * LENGTH + 1, torch.inf)
        apart[name] = float(rest.amin(1).mean())
    assert apart["lc"] == pytest.approx(0.18, abs=0.03)
    assert apart["scaled"] == pytest.approx(217, rel=0.1)
    assert apart["lc_phase_only"] == pytest.approx(870, rel=0.1)


def test_the_best_threshold():
    near, far = torch.tensor([0.1, 0.2, 0.3, 0.9]), torch.tensor([0.5, 0.6, 0.7, 0.8])
    assert best_threshold(near, far) == pytest.approx((0.75 + 1) / 2)
    assert best_threshold(near, near) == 0.5
    assert best_threshold(torch.full((4,), torch.nan), torch.full((4,), torch.nan)) == 0.5


def test_the_read_out_is_attention_over_embeddings():
    model, generator = ReadOut(width=8), torch.Generator().manual_seed(0)
    keys = normalized(torch.randn(30, 6, generator=generator))
    tokens = torch.randint(TOKENS, (3, 30), generator=generator)
    answers, scores = model(keys[:3], keys, tokens)
    weights = (32.0 * keys[:3] @ keys.T).softmax(-1)
    values = (weights[..., None] * model.embedding(tokens)).sum(1)
    torch.testing.assert_close(scores.softmax(-1), weights, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(answers, model.out(values), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["pair_resolution", "attention_retrieval"])
def test_a_cell_is_trained_alike_twice_and_fair_codes_share_their_draws(name, tmp_path):
    experiment = registry.get(name)
    preset = experiment.preset("smoke")
    context = SimpleNamespace(settings=preset.settings, device="cpu", workdir=tmp_path)
    fair = [
        cell
        for cell in experiment.grid(preset, [0])
        if cell.key["protocol"] == "fair" and cell.key["method"] == "phase_linear"
    ]
    first = experiment.run_cell(fair[0], context)
    assert first == experiment.run_cell(fair[0], context)
    assert {row["bucket"] for row in first} == {"train", "x1_4", "x4_16", "x16_32"}


def rows_of(lc: dict, phase: float):
    """Rows in which raw and scaled have 0.9, lc what is given, the bent phase alone `phase`."""
    made = []
    for protocol in ("paper", "fair"):
        for precision in PRECISIONS:
            shares = {"raw": 0.9, "scaled": 0.9, "lc": lc[protocol, precision]}
            if protocol == "fair":
                shares |= {"phase_linear": 0.9, "phase_lightcone": phase}
            for method, share in shares.items():
                for seed in (0, 1, 2):
                    row = {"protocol": protocol, "precision": precision, "method": method}
                    made.append({**row, "seed": seed, "bucket": "x16_32", "top1": share})
    return made


PLACES = [(protocol, precision) for protocol in ("paper", "fair") for precision in PRECISIONS]


@pytest.mark.parametrize(
    ("low", "word"),
    [
        ({("paper", "fp32"), ("fair", "fp32")}, "P-F4, reproduced:"),
        ({("fair", "int4")}, "P-F4, reproduced with a caveat:"),
        (set(), "P-F4, not reproduced:"),
    ],
)
def test_the_rule_of_f4(low, word):
    lc = {place: 0.5 if place in low else 0.9 for place in PLACES}
    said = resolution_claim(rows_of(lc, 0.5), "top1")
    assert said[0].startswith(word)
    assert all("resolves less than the linear one" in sentence for sentence in said[-3:])


def test_the_rule_of_f4_asks_for_the_smallest_effect_and_for_seeds():
    lc = dict.fromkeys(PLACES, 0.88)
    rows = rows_of(lc, 0.88)
    said = resolution_claim(rows, "top1")
    assert said[0].startswith("P-F4, not reproduced") and "does not resolve less" in said[-1]
    assert "one seed" in resolution_claim([r for r in rows if r["seed"] == 0], "top1")[0]
    assert resolution_claim([r for r in rows if r["method"] != "raw"], "top1") == []
