"""Forward and backward kernels against dense attention in fp64."""

from __future__ import annotations

import os

import pytest
import torch
from triton.runtime import interpreter

from pjrope.attention.backends.triton import launch
from pjrope.attention.backends.triton.operator import lag_attention

from .dense import dense, drawn

WEEKLY = os.environ.get("PJROPE_WEEKLY") == "1"  # else a shorter list
CAUSALITY = {"any": 0, "causal": 1, "strict": 2}


def under(*few: str):
    """A test under these causalities, and each week under all three."""
    return pytest.mark.parametrize("causal", CAUSALITY if WEEKLY else few)


def compare(inputs, *, bound=5e-6, **options):
    """Outputs and gradients of both agree, and the table's gradient both ways it is summed."""
    options = {"scale": 0.25, **options}
    wanted = [x for x in inputs if x is not None]
    truth = dense(*inputs, **options)
    weights = torch.randn(truth.shape, generator=torch.Generator().manual_seed(9))
    expected = [truth, *torch.autograd.grad((truth * weights).sum(), wanted)]
    out = lag_attention(*inputs, **options)
    assert out.dtype == inputs[0].dtype
    loss = (out.to(weights.dtype) * weights).sum()
    found = [out, *torch.autograd.grad(loss, wanted, retain_graph=True)]
    names = ["out", "dq", "dk", "dv", "d_table"]
    if inputs[3] is not None:
        names.append("d_table, repeats")
        found.append(without_atomics(loss, inputs[3]))
        expected.append(expected[-1])
    for name, own, want in zip(names, found, expected, strict=False):
        size = max(1.0, float(want.detach().abs().max()))
        assert own.shape == want.shape
        torch.testing.assert_close(
            own.double(),
            want.double(),
            rtol=0,
            atol=bound * size,
            msg=lambda m, n=name: f"{n}: {m}",
        )


def without_atomics(loss, table):
    """The table's gradient, other kernels left out to save time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "_queries", lambda *_: None)
        patch.setattr(launch, "_keys", lambda *_: None)
        torch.use_deterministic_algorithms(True)
        try:
            return torch.autograd.grad(loss, table)[0]
        finally:
            torch.use_deterministic_algorithms(False)


SIZES = [(1, 1, 16), (17, 17, 16), (9, 40, 16), (40, 9, 16)]
LONG = [(100, 100, 64, "causal"), (129, 129, 64, "causal")]  # the interpreter is slow
ALL_SIZES = [(*size, causal) for causal in CAUSALITY for size in SIZES] + LONG
FEW_SIZES = [
    (1, 1, 16, "strict"),
    (17, 17, 16, "causal"),
    (9, 40, 16, "any"),
    (40, 9, 16, "causal"),
]


@pytest.mark.parametrize(
    ("queries", "keys", "tile", "causal"), ALL_SIZES if WEEKLY else [*FEW_SIZES, LONG[1]]
)
def test_all_gradients(queries, keys, tile, causal, tiles):
    tiles(tile, tile)
    kind = CAUSALITY[causal]
    compare(drawn(1, 2, 1, queries, keys, 8, 8, kind), causal=kind)


@pytest.mark.parametrize(("rows", "columns"), [(32, 16), (16, 32)])
@under("any", "strict")
def test_tiles_that_are_not_square(rows, columns, causal, tiles):
    tiles(rows, columns)
    kind = CAUSALITY[causal]
    compare(drawn(1, 1, 1, 35, 41, 8, 8, kind), causal=kind)


def test_key_heads_serve_several_query_heads_of_several_rows(tiles):
    tiles(16, 16)
    compare(drawn(2, 4, 2, 17, 17, 8, 8))


@pytest.mark.parametrize(("width", "values"), [(1, 1), (20, 13), (130, 40)])
def test_channels_that_are_no_power_of_two(width, values, tiles):
    tiles(16, 16)
    compare(drawn(1, 1, 1, 18, 18, width, values))


@pytest.mark.parametrize("window", [1, 16, 21] if WEEKLY else [5])
@under("any", "causal")
def test_windows(window, causal, tiles):
    tiles(16, 16)
    kind = CAUSALITY[causal]
    compare(drawn(1, 1, 1, 36, 39, 8, 8, kind), causal=kind, window=window)


def test_a_window_of_several_tiles(tiles):
    """Some tiles lie whole within the window of all rows of their block: no mask is asked there."""
    tiles(16, 16)
    compare(drawn(1, 1, 1, 20, 64, 8, 8), window=40)


@under("causal")
def test_packed_documents(causal, tiles):
    tiles(16, 16)
    kind = CAUSALITY[causal]
    ids = torch.tensor([[0] * 7 + [1] * 4 + [2] * 10, [5] * 21], dtype=torch.int32)
    compare(drawn(2, 1, 1, 21, 21, 8, 8, kind), causal=kind, segments=(ids, ids))
    compare(drawn(2, 1, 1, 3, 21, 8, 8, kind), causal=kind, segments=(ids[:, -3:], ids))


@under("strict")
def test_hidden_keys_and_rows_that_see_nothing(causal, tiles):
    tiles(16, 16)
    kind = CAUSALITY[causal]
    keep = torch.ones(2, 21, dtype=torch.int8)
    keep[0, :11] = 0
    keep[1] = 0
    inputs = drawn(2, 1, 1, 21, 21, 8, 8, kind)
    compare(inputs, causal=kind, keep=keep)
    out = lag_attention(*inputs, causal=kind, keep=keep, scale=0.25)
    assert float(out[1].detach().abs().max()) == 0.0


def test_all_masks_at_once(tiles):
    tiles(16, 16)
    keep = (torch.arange(40) % 3 > 0).to(torch.int8)[None]
    ids = (torch.arange(40) // 15).to(torch.int32)[None]
    inputs = drawn(1, 1, 1, 40, 40, 8, 8)
    compare(inputs, keep=keep, window=9, segments=(ids, ids))


def test_no_bias(tiles):
    tiles(16, 16)
    q, k, v, _ = drawn(1, 2, 1, 33, 33, 8, 8)
    compare([q, k, v, None])


@pytest.mark.parametrize(
    ("number", "bound"), [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)], ids=["fp16", "bf16"]
)
def test_half_precision(number, bound, tiles):
    tiles(16, 16)
    compare(drawn(1, 2, 1, 33, 33, 16, 16, number=number), bound=bound)


def test_a_large_bias_keeps_its_digits_in_half_precision(tiles):
    tiles(16, 16)
    q, k, v, _ = drawn(1, 1, 1, 33, 33, 16, 16, number=torch.bfloat16)
    table = (-100.0 - torch.arange(33) * 0.03)[None].requires_grad_()
    compare([q, k, v, table], bound=3e-2)


def test_layouts_without_copies(tiles):
    tiles(16, 16)
    q, k, v, table = drawn(2, 2, 2, 20, 20, 8, 8)
    turned = [x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    wide = torch.randn(2, 2, 20, 16)
    turned[1] = wide[..., 4:12]  # a slice of channels
    turned[2] = wide[..., ::2]  # channels apart: these are copied
    compare([x.requires_grad_() for x in turned] + [table])


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("value", [NAN, INF] if WEEKLY else [NAN])
@pytest.mark.parametrize("how", ["causal", "segments", "keep"])
def test_what_is_hidden_leaves_no_trace(how, value, tiles):
    tiles(16, 16)
    q, k, v, table = drawn(1, 1, 1, 36, 36, 8, 8)
    ids = torch.zeros(1, 36, dtype=torch.int32)
    ids[:, :20] = 1
    keep = (ids == 0).to(torch.int8)
    options, spoiled, clean = {
        "causal": ({}, slice(20, 36), slice(0, 20)),
        "segments": ({"segments": (ids, ids)}, slice(0, 20), slice(20, 36)),
        "keep": ({"keep": keep}, slice(0, 20), slice(20, 36)),
    }[how]
    bad_k, bad_v = k.detach().clone(), v.detach().clone()
    bad_k[:, :, spoiled] = bad_v[:, :, spoiled] = value
    bad_k.requires_grad_(), bad_v.requires_grad_()
    found = []
    for keys, values in ((k, v), (bad_k, bad_v)):
        out = lag_attention(q, keys, values, table, scale=0.25, **options)
        loss = out[:, :, clean].sum()
        found.append([out, *torch.autograd.grad(loss, (q, keys, values))])
    # Rows that see what is spoiled spoil in turn the gradients of all keys they see.
    compared = 2 if how == "causal" else 4
    for want, own in zip(*(x[:compared] for x in found), strict=True):
        torch.testing.assert_close(own[:, :, clean], want[:, :, clean])
    if how == "keep":
        assert not any(x[:, :, spoiled].any() for x in found[1][2:])


def test_what_is_seen_is_not_hidden(tiles):
    tiles(16, 16)
    q, k, v, table = (x.detach() for x in drawn(1, 1, 1, 20, 20, 8, 8))
    for where in (3, 18):  # in a tile without a mask for later rows, and on the diagonal
        spoiled = v.clone()
        spoiled[:, :, where] = NAN
        out = lag_attention(q, k, spoiled, table, scale=0.25)
        assert out[:, :, where:].isnan().all(-1).all()
        assert not out[:, :, :where].isnan().any()


def test_no_two_programs_meet(tiles, monkeypatch):
    """Without atomics the order in which programs run leaves no trace: not one bit differs."""
    tiles(16, 16)
    inputs = drawn(1, 2, 1, 33, 33, 8, 8)
    forwards = interpreter.InterpreterBuilder.set_grid_idx

    def backwards(self, x, y, z):
        forwards(self, self.grid_dim[0] - 1 - x, y, z)

    torch.use_deterministic_algorithms(True)
    try:
        found = []
        for order in (forwards, backwards):
            monkeypatch.setattr(interpreter.InterpreterBuilder, "set_grid_idx", order)
            out = lag_attention(*inputs, scale=0.25)
            found.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    finally:
        torch.use_deterministic_algorithms(False)
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
