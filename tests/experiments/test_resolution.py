"""Retrieval, pairs and attention: the protocol's figures, and traps shown."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from pjrope.experiments.codes import pair_resolution, retrieval_resolution
from pjrope.experiments.codes.attention_retrieval import TOKENS, ReadOut
from pjrope.experiments.codes.lag_codes import (
    CYCLES,
    PRECISIONS,
    code,
    even_lags,
    noisy,
    normalized,
    standardized,
)
from pjrope.experiments.codes.pair_resolution import best_threshold
from pjrope.experiments.codes.retrieval_resolution import retrieve
from pjrope.experiments.codes.rounding import quantize
from pjrope.experiments.engine import registry

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


def smoke(name: str, method: str, precision: str | None, protocol: str, **settings):
    """Rows of one cell at smoke size."""
    experiment = registry.get(name)
    preset = experiment.preset("smoke")
    wanted = {"method": method, "protocol": protocol}
    wanted |= {"precision": precision} if precision else {}
    (cell,) = [c for c in experiment.grid(preset, [0]) if c.matches(wanted)]
    context = SimpleNamespace(settings={**preset.settings, **settings}, device="cpu")
    return experiment.run_cell(cell, context)


def unit_codes(name: str) -> torch.Tensor:
    return normalized(code(name, torch.arange(1, 32 * LENGTH), LENGTH, CYCLES["fair"]))


@pytest.mark.parametrize("protocol", ["paper", "fair"])
def test_a_fair_query_is_not_the_rounded_row(protocol, monkeypatch):
    asked = []

    def spy(keys, queries, rows):
        asked.append((queries, keys[rows], rows))
        return retrieve(keys, queries, rows)

    monkeypatch.setattr(retrieval_resolution, "retrieve", spy)
    smoke("retrieval_resolution", "scaled", None, protocol, noise=0.0)
    clean, int4 = unit_codes("scaled"), asked[-1]
    assert len(asked) == 12 and len(int4[2]) == 16
    off = (int4[0] - int4[1]).norm(dim=1)
    if protocol == "paper":
        assert off.max() == 0
    else:
        torch.testing.assert_close(int4[0], clean[int4[2]])
        assert off.min() > 0.02


@pytest.mark.parametrize("precision", PRECISIONS)
def test_fair_pairs_are_standardised_by_their_own_bucket(precision, monkeypatch):
    exam, seen = pair_resolution._exam, []

    def spy(network, asked, stored, rows, hidden, exact):
        seen.append((stored, hidden, rows))
        return exam(network, asked, stored, rows, hidden, exact)

    monkeypatch.setattr(pair_resolution, "_exam", spy)
    smoke("pair_resolution", "raw", precision, "fair")
    assert len(seen) == 4
    for stored, hidden, rows in seen:
        # Rounding moves a spread of 1 by little; the training window's would make it 1,000 and more.
        # Channels of order 0, which stay of one size, come out alike by either window.
        spread = stored.std(0)
        assert spread.max() < 1.5 and stored.mean(0).abs().max() < 0.3
        if precision == "fp32":
            torch.testing.assert_close(spread, torch.ones_like(spread), atol=1e-3, rtol=0)
            torch.testing.assert_close(stored[rows], hidden)


def test_paper_pairs_are_standardised_by_the_training_window(monkeypatch):
    exam, sizes = pair_resolution._exam, []

    def spy(network, asked, stored, *rest, **more):
        sizes.append(float(stored.std(0).max()))
        return exam(network, asked, stored, *rest, **more)

    monkeypatch.setattr(pair_resolution, "_exam", spy)
    smoke("pair_resolution", "scaled", "fp32", "paper")
    assert sizes[0] == pytest.approx(1, abs=1e-3) and sizes[-1] > 100


def read_outs(protocol: str, monkeypatch) -> tuple[list, list]:
    """Queries and keys of int4 `scaled` that the read-out was given in training and in its exams."""
    trained, examined = [], []
    forward = ReadOut.forward

    def spy(self, queries, keys, tokens):
        (trained if torch.is_grad_enabled() else examined).append((queries, keys))
        return forward(self, queries, keys, tokens)

    monkeypatch.setattr(ReadOut, "forward", spy)
    smoke("attention_retrieval", "scaled", "int4", protocol)
    return trained, examined


def test_a_fair_read_out_learns_from_noisy_rows_that_are_not_rounded(monkeypatch):
    trained, examined = read_outs("fair", monkeypatch)
    assert len(trained) == 3
    clean = unit_codes("scaled").float()
    for queries, keys in (*trained, examined[-1]):
        assert torch.cdist(queries, keys).amin() > 1e-3  # none is a stored row
        off = torch.cdist(queries, clean, compute_mode="donot_use_mm_for_euclid_dist").amin(1)
        assert off.min() > 0.005 and off.max() < 0.015


def test_a_paper_read_out_learns_from_stored_rows(monkeypatch):
    trained, _ = read_outs("paper", monkeypatch)
    for queries, keys in trained:
        exact = torch.cdist(queries, keys, compute_mode="donot_use_mm_for_euclid_dist")
        assert exact.amin(1).max() == 0


@pytest.mark.parametrize("protocol", ["paper", "fair"])
def test_only_the_papers_rounding_step_depends_on_how_many_positions_there_are(
    protocol, monkeypatch
):
    # T15 of the protocol.
    trained, examined = read_outs(protocol, monkeypatch)
    stored = {len(keys): keys for _, keys in (*trained, *examined)}
    assert sorted(stored) == [LENGTH - 1, 4 * LENGTH - 1, 32 * LENGTH - 1]
    for count, keys in stored.items():
        same = torch.equal(keys, stored[32 * LENGTH - 1][:count])
        assert same == (protocol == "fair" or count == 32 * LENGTH - 1)
