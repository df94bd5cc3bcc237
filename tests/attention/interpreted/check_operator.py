"""The kernels as operators of torch."""

from __future__ import annotations

import os

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from pjrope.attention.backends.triton import operator
from pjrope.attention.backends.triton.operator import lag_attention, lag_decoding

from .dense import dense, drawn

MASKS = (None, None, None)


@pytest.fixture(autouse=True)
def small(tiles):
    tiles(16, 16)


# Gradients summed by atomics, and the other masks, each week: they take ten seconds more.
@pytest.mark.parametrize(
    "repeats", [False, True] if os.environ.get("PJROPE_WEEKLY") == "1" else [True]
)
def test_torch_finds_nothing_wrong_with_the_operators(repeats):
    inputs = drawn(1, 2, 1, 6, 6, 8, 4)
    ids, keep = torch.zeros(1, 6, dtype=torch.int32), torch.ones(1, 6, dtype=torch.int8)
    torch.use_deterministic_algorithms(repeats)
    try:
        torch.library.opcheck(operator._forward, (*inputs, *MASKS, 1, 0, 0.3))
        if not repeats:
            torch.library.opcheck(operator._forward, (*inputs, ids, ids, keep, 2, 3, 0.3))
            bare = (*inputs[:3], None)
            torch.library.opcheck(operator._forward, (*bare, *MASKS, 1, 0, 0.3))
        inputs = [x.detach() for x in inputs]
        out, lse = operator._forward(*inputs, *MASKS, 1, 0, 0.3)
        call = (torch.ones_like(out), out, lse, *inputs, *MASKS, 1, 0, 0.3, True)
        # Atomics may differ in the last bits from call to call, which opcheck takes for an error.
        torch.library.opcheck(operator._backward, call)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.library.opcheck(lag_decoding, (*inputs, None, 0, 0.3, 2))


def test_a_compiled_graph_holds_one_node():
    seen = []

    def graphs(module, _):
        seen.append([node.target for node in module.graph.nodes if node.op == "call_function"])
        return module.forward

    inputs = drawn(1, 1, 1, 6, 6, 8, 8)

    def call(*inputs):
        return lag_attention(*inputs, scale=0.3) * 2

    out = torch.compile(call, fullgraph=True, backend=graphs)(*inputs)
    torch.testing.assert_close(out, call(*inputs))
    assert sum("lag_attention" in str(target) for target in seen[0]) == 1
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=True)
    for count in (6, 9):
        inputs = drawn(1, 1, 1, count, count, 8, 8)
        found = torch.autograd.grad(compiled(*inputs).sum(), inputs)
        torch.testing.assert_close(found, torch.autograd.grad(call(*inputs).sum(), inputs))


def test_only_gradients_that_are_wanted(monkeypatch):
    asked = []
    own = operator.launch.backward

    def backward(call, out, lse, grad, learns, repeats):
        asked.append(learns)
        return own(call, out, lse, grad, learns, repeats)

    monkeypatch.setattr(operator.launch, "backward", backward)
    q, k, v, table = drawn(1, 1, 1, 6, 6, 8, 8)
    lag_attention(q, k, v, table.detach(), scale=0.3).sum().backward()
    lag_attention(q.detach(), k, v, table, scale=0.3).sum().backward()
    assert asked == [False, True]


def test_checkpointing_gives_the_same_gradients():
    inputs = drawn(1, 1, 1, 18, 18, 8, 8)
    call = lambda *x: lag_attention(*x, scale=0.3)  # noqa: E731
    found = torch.autograd.grad(checkpoint(call, *inputs, use_reentrant=False).sum(), inputs)
    torch.testing.assert_close(found, torch.autograd.grad(call(*inputs).sum(), inputs))


def test_a_second_derivative_is_refused():
    inputs = drawn(1, 1, 1, 4, 4, 8, 8)
    out = lag_attention(*inputs, scale=0.3).sum()
    (first,) = torch.autograd.grad(out, inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match=r"does not require grad|not implemented|autograd"):
        torch.autograd.grad(first.sum(), inputs[0])


@torch.no_grad()
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("heads", "kv", "queries", "keys", "splits", "window"),
    [(1, 1, 1, 1, 1, 0), (4, 2, 1, 40, 9, 0), (4, 1, 3, 50, 7, 0), (2, 2, 5, 33, 2, 9)],
)  # fmt: skip
def test_decoding(heads, kv, queries, keys, splits, window, bias):
    inputs = [x.detach() for x in drawn(2, heads, kv, queries, keys, 12, 20)]
    inputs[3] = inputs[3] if bias else None
    keep = torch.ones(2, keys, dtype=torch.int8)
    for mask in (None,) if keys == 1 else (keep,):
        if mask is not None:
            mask[0, : keys // 2] = 0
            mask[1] = 0
        out = lag_decoding(*inputs, mask, window, 0.25, splits)
        want = dense(*inputs, scale=0.25, keep=mask, window=window)
        torch.testing.assert_close(out.double(), want, rtol=0, atol=2e-6)


@torch.no_grad()
def test_decoding_shows_no_trace_of_hidden_values():
    q, k, v, table = (x.detach() for x in drawn(1, 2, 1, 3, 40, 8, 8))
    keep = torch.ones(1, 40, dtype=torch.int8)
    keep[:, :7] = 0
    want = lag_decoding(q, k, v, table, keep, 0, 0.25, 2)
    k[:, :, :7] = v[:, :, :7] = float("nan")
    assert torch.equal(lag_decoding(q, k, v, table, keep, 0, 0.25, 2), want)
