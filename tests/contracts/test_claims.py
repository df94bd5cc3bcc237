"""Each claim of each kernel, checked: a true one on drawn inputs, a false one by a counter-example."""

from __future__ import annotations

import json

import pytest
import torch

from pjrope.attention import attend
from pjrope.kernels import kernel_from_spec
from pjrope.kernels.algebra import Root, fit_jets, roots
from pjrope.kernels.base import PositionKernel
from tests.kernels.catalogue import HEAD_DIM, HEADS, NAMES, kernels

FAR = 1_000_003
SPECIFIED = [n for n in NAMES if n not in ("damped", "damped_local")]  # not the stand-in's


def logits(kernel: PositionKernel, q, k, q_pos, k_pos) -> torch.Tensor:
    """Unscaled logits (B, H, Q, K) straight from the faces, in fp64."""
    if kernel.scored:
        found = kernel.scores(q, k, q_pos, k_pos)
    else:
        rotated_q, rotated_k = kernel.rotate(q, k, q_pos, k_pos)
        found = rotated_q @ rotated_k.transpose(-1, -2)
    if kernel.biases:
        d = (q_pos[:, None] - k_pos[None, :]).flatten()
        found = found + kernel.lag_bias(d).view(-1, len(q_pos), len(k_pos))
    return found


def draw(tokens: int, seed: int = 0, heads: int = HEADS) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, heads, tokens, HEAD_DIM, generator=generator, dtype=torch.float64)


def one_pair(kernel: PositionKernel, lags: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """The logit of one query and one key as a function of the lag, (H, n)."""
    q, k = draw(1, seed), draw(1, seed + 1)
    if kernel.claims.length_free:  # then all lags may share one call
        many = q.expand(-1, -1, len(lags), -1)
        return logits(kernel, many, k, lags, torch.zeros(1, dtype=torch.long))[0, ..., 0].detach()
    rows = [logits(kernel, q, k, d[None], torch.zeros(1, dtype=torch.long)) for d in lags]
    return torch.stack([row[0, :, 0, 0] for row in rows], dim=-1).detach()


@pytest.fixture(params=NAMES)
def kernel(request) -> PositionKernel:
    return kernels()[request.param].double()


def test_relative(kernel):
    q, k = draw(5), draw(5, 1)
    q_pos, k_pos = torch.tensor([9, 3, 40, 17, 0]), torch.tensor([2, 0, 8, 31, 5])
    here = logits(kernel, q, k, q_pos, k_pos)
    # A shift that a non-orthogonal action survives in fp64 without the re-basing of `attend`.
    there = logits(kernel, q, k, q_pos + 97, k_pos + 97)
    same = torch.allclose(here, there, rtol=1e-9, atol=1e-9)
    assert same == kernel.claims.relative


def test_bounded(kernel):
    # Adversarial over content: the largest logit over lags for several drawn pairs.
    lags = torch.cat([torch.arange(0, 400), 2 ** torch.arange(9, 21)])
    top = torch.stack([one_pair(kernel, lags, seed) for seed in range(0, 8, 2)]).amax((0, 1))
    near, far = top[:400].max(), top[400:].max()
    grows = bool(far > 4 * near.abs() + 1)
    assert grows != kernel.claims.bounded


def test_identity_at_zero(kernel):
    q, k = draw(6), draw(6, 1)
    positions = torch.tensor([0, 1, 5, 15, 16, 900])
    diagonal = logits(kernel, q, k, positions, positions).diagonal(dim1=-2, dim2=-1)
    plain = (q * k).sum(-1)
    assert torch.allclose(diagonal, plain, rtol=1e-9, atol=1e-9) == kernel.claims.identity_at_zero


def test_norm_preserving(kernel):
    x = draw(6)
    if kernel.scored:
        assert not kernel.claims.norm_preserving and not kernel.rotates
        return
    q, k = kernel.rotate(x, x, torch.arange(6) * 13, torch.arange(6) * 13)
    kept = all(torch.allclose(y.norm(dim=-1), x.norm(dim=-1), rtol=1e-9) for y in (q, k))
    assert kept == kernel.claims.norm_preserving


# Recurrences here have at most 8 channels or 8 jet terms, one content term and two affine terms.
LARGEST_RANK = 10


def test_finite_rank(kernel):
    # Hankel matrix of the logit over i, j >= 0: Kronecker's theorem bounds its rank. Steps of 7
    # reach 80 L, where powers of beta part from the exponential polynomials that mimic them nearby.
    size = 96
    values = one_pair(kernel, 7 * torch.arange(2 * size - 1))[0]
    hankel = values[torch.arange(size)[:, None] + torch.arange(size)[None, :]]
    rank = int(torch.linalg.matrix_rank(hankel, rtol=1e-11))
    assert (rank <= LARGEST_RANK) == kernel.claims.finite_rank, rank


def test_the_logit_has_the_roots_the_kernel_names(kernel):
    heads = roots(kernel)
    assert (heads is not None) == kernel.claims.finite_rank
    if heads is None:
        return
    shared = len(heads)
    assert HEADS % shared == 0
    lags = torch.arange(600)
    logit = one_pair(kernel, lags)
    if not kernel.rotates:
        logit = logit - (draw(1) * draw(1, 1)).sum(-1)[0]  # the constant q . k is not the kernel's
    for head, values in enumerate(logit):
        own = heads[head * shared // HEADS]
        assert fit_jets(values, own)[1] < 1e-9 if own else bool((values.abs() < 1e-12).all())
        if len(own) > 1 and float(values.abs().max()) > 1e-3:  # and none of them for nothing
            errors = [fit_jets(values, fewer)[1] for fewer in _each_less(own)]
            assert min(errors) > 1e-8, errors


def _each_less(own):
    for n, root in enumerate(own):
        rest = [Root(root.value, root.multiplicity - 1)] if root.multiplicity > 1 else []
        yield [*own[:n], *rest, *own[n + 1 :]]


def test_length_free(kernel):
    q, k = draw(60), draw(60, 1)
    positions = torch.arange(60)
    short = logits(kernel, q[:, :, :16], k[:, :, :16], positions[:16], positions[:16])
    long = logits(kernel, q, k, positions, positions)[:, :, :16, :16]
    assert torch.allclose(short, long, rtol=1e-9, atol=1e-9) == kernel.claims.length_free


def test_bias_is_even_and_asked_once_per_lag(kernel):
    lags = torch.tensor([0, 1, 2, 7, 64, 4096])
    bias = kernel.lag_bias(lags)
    if not kernel.biases:
        assert bias is None
        return
    assert bias.shape == (HEADS, len(lags))
    assert torch.equal(kernel.lag_bias(-lags), bias)


def test_fold_equals_bias_on_the_past(kernel):
    k_pos = torch.tensor([100, 101, 105, 130, 161])
    q_pos = torch.tensor([130, 161, 200])
    fold = kernel.fold(q_pos, k_pos)
    assert (fold is not None) == kernel.folds
    if fold is None:
        return
    phi_q, phi_k = fold
    folded = phi_q @ phi_k.transpose(-1, -2)
    lags = q_pos[:, None] - k_pos[None, :]
    bias = kernel.lag_bias(lags.flatten()).view(HEADS, *lags.shape)
    past = lags >= 0
    torch.testing.assert_close(folded[:, past], bias[:, past], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", SPECIFIED)
def test_spec_and_state_rebuild_the_kernel(name):
    first = kernels()[name]
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.01)
    again = kernel_from_spec(json.loads(json.dumps(first.spec)))
    assert again.spec == first.spec
    again.load_state_dict(first.state_dict(), strict=True)
    x, positions = draw(5).float(), torch.arange(5) * 31
    act = (
        (lambda k: (k.scores(x, x, positions, positions),))
        if first.scored
        else (lambda k: k.rotate(x, x, positions, positions))
    )
    for a, b in zip(act(first), act(again), strict=True):
        assert torch.equal(a, b)
    if first.biases:
        assert torch.equal(first.lag_bias(positions), again.lag_bias(positions))


@pytest.mark.parametrize("name", NAMES)
def test_precision_survives_casts_of_the_model(name):
    kernel = kernels()[name]
    before = {n: t.clone() for n, t in kernel.state_dict().items()}
    for cast in (lambda k: k.bfloat16(), lambda k: k.half(), lambda k: k.half().float()):
        kernel = cast(kernel)
        for n, tensor in kernel.state_dict().items():
            assert tensor.dtype in (torch.float32, torch.float64)
            assert torch.equal(tensor, before[n])


@pytest.mark.parametrize("name", SPECIFIED)
def test_meta_device_then_load(name):
    real = kernels()[name]
    with torch.device("meta"):
        empty = kernel_from_spec(real.spec)
    empty = empty.to_empty(device="cpu")
    empty.load_state_dict(real.state_dict())
    q = draw(4).float()
    torch.testing.assert_close(
        attend(q, q, q, empty, backend="eager"),
        attend(q, q, q, real, backend="eager"),
        rtol=0,
        atol=0,
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_gets_a_gradient(name):
    kernel = kernels()[name]
    x = draw(12).float().requires_grad_()
    attend(x, x, x * 2 + 1, kernel).square().sum().backward()
    assert bool(torch.isfinite(x.grad).all())
    for n, parameter in kernel.named_parameters():
        assert parameter.grad is not None, n
        assert bool(torch.isfinite(parameter.grad).all()), n
        assert bool((parameter.grad != 0).any()), n
