"""GRAPE's special cases are kernels that exist here already, equal through attention.

| GRAPE                        | here                                               |
|------------------------------|----------------------------------------------------|
| M, multiplicative: RoPE      | RoPE(D): exp(p G), G a skew generator per plane    |
| A, additive: ALiBi           | ALiBi(H) = Affine(H, L, slope=L m_h)               |
|                              | = PJBias(H, L, sectors=("affine",)) at those slopes |
| M + A                        | RoPE(D) + ALiBi(H)                                 |
"""

import math

import pytest
import torch

from pjrope import PJBias, RoPE, attend
from pjrope.kernels import Affine, ALiBi, alibi_slopes
from pjrope.kernels._values import softplus_inverse

HEADS, HEAD_DIM, LENGTH, TOKENS = 4, 8, 32, 50


def draw(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, HEADS, TOKENS, HEAD_DIM, generator=generator, dtype=torch.float64)


QKV = tuple(draw(seed) for seed in range(3))


def affine() -> Affine:
    slopes = alibi_slopes(HEADS) * LENGTH
    kernel = Affine(HEADS, LENGTH, slope=slopes).double()
    with torch.no_grad():
        kernel.raw_slope.copy_(softplus_inverse(slopes))  # without the fp32 rounding of the spec
    return kernel


def pj_affine(signed: bool) -> PJBias:
    kernel = PJBias(HEADS, LENGTH, sectors=("affine",), signed_slope=signed).double()
    slopes = alibi_slopes(HEADS) * LENGTH
    with torch.no_grad():
        if signed:
            kernel.affine_slope.copy_(slopes)
        else:
            kernel.raw_affine_slope.copy_(softplus_inverse(slopes))
    return kernel


def dense(rotate_q, rotate_k, bias):
    """Attention with whole matrices: what the group says, no kernel of the package."""
    q, k, v = QKV
    q = torch.einsum("nde,bhne->bhnd", rotate_q, q)
    k = torch.einsum("nde,bhne->bhnd", rotate_k, k)
    logits = q @ k.mT / math.sqrt(HEAD_DIM) + bias
    hidden = torch.ones(TOKENS, TOKENS).triu(1).bool()
    return logits.masked_fill(hidden, -torch.inf).softmax(-1) @ v


def multiplicative() -> torch.Tensor:
    """``exp(p G)`` for all positions, G the sum of a skew 2 x 2 generator per plane."""
    generator = torch.zeros(HEAD_DIM, HEAD_DIM, dtype=torch.float64)
    for plane in range(HEAD_DIM // 2):
        w = 10_000.0 ** (-2 * plane / HEAD_DIM)
        generator[2 * plane + 1, 2 * plane], generator[2 * plane, 2 * plane + 1] = w, -w
    positions = torch.arange(TOKENS, dtype=torch.float64)
    return torch.linalg.matrix_exp(positions[:, None, None] * generator)


def additive() -> torch.Tensor:
    d = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    return -alibi_slopes(HEADS)[:, None, None] * d.abs()


def test_the_multiplicative_group_is_rope():
    group = multiplicative()
    turned, _ = RoPE(HEAD_DIM).rotate(QKV[0], None, torch.arange(TOKENS))
    by_group = torch.einsum("nde,bhne->bhnd", group, QKV[0])
    torch.testing.assert_close(turned, by_group, rtol=0, atol=1e-12)
    got = attend(*QKV, RoPE(HEAD_DIM))
    torch.testing.assert_close(got, dense(group, group, 0.0), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [ALiBi(HEADS), affine(), pj_affine(False), pj_affine(True)],
    ids=["alibi", "affine", "pj", "pj_signed"],
)
def test_the_additive_cases_are_alibi_alone_and_beside_rope(kernel):
    with torch.no_grad():
        still = torch.eye(HEAD_DIM, dtype=torch.float64).expand(TOKENS, -1, -1)
        want = dense(still, still, additive())
        torch.testing.assert_close(attend(*QKV, kernel), want, rtol=0, atol=1e-12)
        group = multiplicative()
        want = dense(group, group, additive())
        got = attend(*QKV, RoPE(HEAD_DIM) + kernel)
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
        assert not torch.allclose(got, attend(*QKV, kernel), atol=1e-2)


def test_the_additive_action_is_a_shear_of_two_channels():
    # GRAPE-A lifts q and k by channels on which a unipotent matrix acts: the fold of the bias.
    positions = torch.arange(TOKENS)
    phi_q, phi_k = ALiBi(HEADS).fold(positions, positions)
    past = torch.ones(TOKENS, TOKENS).tril().bool()
    assert phi_q.shape[-1] == 2
    torch.testing.assert_close((phi_q @ phi_k.mT)[:, past], additive()[:, past], rtol=0, atol=1e-12)
