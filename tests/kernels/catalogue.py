"""Every kernel of the package in the settings that matter: what contract tests run over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import nn

from pjrope.kernels import (
    Affine,
    ALiBi,
    DampedRoPE,
    FourierJet,
    JordanMixture,
    JordanRoPE,
    LightCone,
    NearTable,
    NoPE,
    PJBias,
    PJInit,
    PJRotary,
    PositionKernel,
    RoPE,
    T5Bias,
    direct_sum,
    direct_sum_grid,
)
from pjrope.kernels.algebra import Root
from pjrope.kernels.base import Claims
from pjrope.kernels.growth import Growth
from pjrope.positions import NTK, PI, Llama3, LongRoPE, YaRN

HEADS, HEAD_DIM, LENGTH = 4, 8, 16
NEAR_TABLES = ("table", "near_table")


class Damped(PositionKernel):
    """A relative action that is not orthogonal: the score is ``e^{-c (i-j)} q.k``.

    The smallest stand-in for the Jordan kernels: rotated about a far origin it overflows.
    """

    rotates = True
    claims = Claims(norm_preserving=False)

    def __init__(self, rate: float = 0.05, near: float = 512.0) -> None:
        super().__init__(rate=rate, near=near)
        self.rate, self.near = nn.Parameter(torch.tensor(rate)), near

    @property
    def growth(self):
        return Growth(reach=lambda number: self.near)

    def rotate(self, q, k, q_pos=None, k_pos=None):
        return self._scaled(q, q_pos, -1), self._scaled(k, k_pos, 1)

    def roots(self):
        return [[Root(math.exp(-self.rate.item()))]]

    def _scaled(self, x, pos, sign):
        if x is None:
            return None
        factor = torch.exp(sign * self.rate.to(torch.float64) * pos.to(torch.float64))[..., None]
        factor = factor[:, None] if pos.ndim == 2 else factor
        return x.to(torch.promote_types(x.dtype, torch.float32)) * factor.to(
            torch.promote_types(x.dtype, torch.float32)
        )


def filled(kernel: PositionKernel) -> PositionKernel:
    """A near-lag table as if trained; all of them start at 0."""
    (table,) = (p for name, p in kernel.named_parameters() if name.split(".")[-1] in NEAR_TABLES)
    with torch.no_grad():
        table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(5)))
    return kernel


class Made(Mapping):
    """Kernels that are built when they are asked for: most tests want one of seventy."""

    def __init__(self, makers: dict[str, Callable[[], PositionKernel]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> PositionKernel:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def kernels(key_heads: int = HEADS) -> Made:
    """Kernels by name, a fresh one each time, with amplitudes large enough to be seen."""

    def jordan(head_dim: int = HEAD_DIM, **more) -> JordanRoPE:
        return JordanRoPE(head_dim, key_heads, LENGTH, **more)

    loud = {"zeta_scale": 0.7, "seed": 3}
    init = PJInit(zeta_scale=0.7, seed=3, slope=1.5)
    return Made(
        {
            "none": lambda: NoPE(),
            "rope": lambda: RoPE(HEAD_DIM),
            "rope_half": lambda: RoPE(HEAD_DIM, layout="half"),
            "rope_partial": lambda: RoPE(HEAD_DIM, rotary_dim=4),
            "rope_trained": lambda: RoPE(
                HEAD_DIM, omega=nn.Parameter(torch.tensor([1.0, 0.3, 0.1, 0.02]))
            ),
            "rope_pi": lambda: RoPE(HEAD_DIM, extension=PI(4.0)),
            "rope_ntk": lambda: RoPE(HEAD_DIM, extension=NTK(4.0)),
            "rope_yarn": lambda: RoPE(HEAD_DIM, extension=YaRN(4.0, LENGTH)),
            "rope_yarn_turns": lambda: RoPE(HEAD_DIM, extension=YaRN(4.0, LENGTH, ramp="turns")),
            "rope_llama3": lambda: RoPE(HEAD_DIM, extension=Llama3(4.0, LENGTH)),
            "rope_longrope": lambda: RoPE(
                HEAD_DIM,
                extension=LongRoPE(
                    4.0,
                    3 * LENGTH,
                    short=[1.0] * (HEAD_DIM // 2),
                    long=[1.0 + k for k in range(HEAD_DIM // 2)],
                ),
            ),
            "rope_ntk_dynamic": lambda: RoPE(HEAD_DIM, extension=NTK(length=LENGTH)),
            "rope_yarn_dynamic": lambda: RoPE(HEAD_DIM, extension=YaRN(length=LENGTH)),
            "rope_lightcone": lambda: RoPE(HEAD_DIM, coordinate="lightcone", length=LENGTH),
            "damped": lambda: Damped(),
            "damped_local": lambda: Damped(near=6),  # an origin a block, even in short calls
            "damped_rope": lambda: DampedRoPE(HEAD_DIM, key_heads, LENGTH),
            "jordan": lambda: jordan(eta=0.7),
            "jordan_order4": lambda: jordan(order=4, gamma=2.0, eta=0.7),
            "jordan_exact": lambda: jordan(form="exact", gamma=0.05, eta=0.04),
            "jordan_undamped": lambda: jordan(gamma=0, eta=0.7),
            "jordan_real": lambda: jordan(omega=torch.zeros(2), eta=0.7),
            "jordan_stabilized": lambda: jordan(form="stabilized", eta=0.1),
            "jordan_lag": lambda: jordan(form="lag", gamma=0.05, eta=0.1),
            "pj_rotary": lambda: PJRotary(HEAD_DIM, LENGTH, eta=0.7),
            "pj_rotary_order4": lambda: PJRotary(HEAD_DIM, LENGTH, order=4),
            "pj_rotary_trained": lambda: PJRotary(
                HEAD_DIM, LENGTH, eta=-0.3, omega=nn.Parameter(torch.tensor([0.9, 0.1]))
            ),
            "mixture": lambda: JordanMixture(HEAD_DIM, key_heads, LENGTH, order=2, alpha=0.7),
            "mixture_order4": lambda: JordanMixture(
                HEAD_DIM, key_heads, LENGTH, alpha=torch.tensor([0.7, 0.3, 0.2])
            ),
            "mixture_absolute": lambda: JordanMixture(
                HEAD_DIM, key_heads, LENGTH, form="absolute", c=0.02, alpha=0.7
            ),
            "jordan_trunc": lambda: jordan(gamma=0, eta=0),
            "alibi": lambda: ALiBi(HEADS),
            "affine": lambda: Affine(HEADS, LENGTH),
            "affine_lightcone": lambda: Affine(HEADS, LENGTH, coordinate="lightcone"),
            "jet0": lambda: FourierJet(HEADS, LENGTH, max_order=0, damping=0.0, **loud),
            "jet3": lambda: FourierJet(HEADS, LENGTH, max_order=3, **loud),
            "jet2_undamped": lambda: FourierJet(HEADS, LENGTH, max_order=2, damping=0.0, **loud),
            "lightcone": lambda: LightCone(HEADS, LENGTH, max_order=3, **loud),
            "lightcone_phase": lambda: LightCone(HEADS, LENGTH, parts="phase", **loud),
            "lightcone_amplitude": lambda: LightCone(HEADS, LENGTH, parts="amplitude", **loud),
            "lightcone_amplitude0": lambda: LightCone(
                HEADS, LENGTH, parts="amplitude", max_order=0, **loud
            ),
            "pj_full": lambda: PJBias(HEADS, LENGTH, init=init),
            "pj_two_omegas": lambda: PJBias(HEADS, LENGTH, share_omega=False, init=init),
            "pj_fj_affine": lambda: PJBias(HEADS, LENGTH, sectors=("fj", "affine"), init=init),
            "pj_affine": lambda: PJBias(HEADS, LENGTH, sectors=("affine",), init=init),
            "pj_signed": lambda: PJBias(
                HEADS, LENGTH, signed_slope=True, init=replace(init, slope=-3.0)
            ),
            "pj_affine_signed": lambda: PJBias(
                HEADS, LENGTH, sectors=("affine",), signed_slope=True, init=PJInit(slope=-0.5)
            ),
            "pj_affine_lightcone": lambda: PJBias(
                HEADS, LENGTH, sectors=("fj", "affine"), coordinate="lightcone", init=init
            ),
            "pj_near": lambda: filled(
                PJBias(HEADS, LENGTH, sectors=("fj", "affine", "near"), near_size=5, init=init)
            ),
            "pj_near_lc": lambda: filled(
                PJBias(HEADS, LENGTH, sectors=("lc", "near"), near_size=2, init=init)
            ),
            "pj_near_alone": lambda: filled(PJBias(HEADS, LENGTH, sectors=("near",), near_size=3)),
            "pj_lc": lambda: PJBias(HEADS, LENGTH, sectors=("lc",), init=init),
            "near_table": lambda: filled(NearTable(HEADS, 5)),
            "t5": lambda: filled(T5Bias(HEADS, buckets=8, far=40)),
            "alibi_near": lambda: ALiBi(HEADS) + filled(NearTable(HEADS, 6)),
            "rope_alibi": lambda: RoPE(HEAD_DIM) + ALiBi(HEADS),
            "jordan_alibi": lambda: jordan(eta=0.7) + ALiBi(HEADS),
            "rope_pj": lambda: RoPE(HEAD_DIM) + PJBias(HEADS, LENGTH, init=init),
            "pj_rotary_pj": lambda: (
                PJRotary(HEAD_DIM, LENGTH, eta=0.7) + PJBias(HEADS, LENGTH, init=init)
            ),
            "direct_sum": lambda: direct_sum(RoPE(4), RoPE(4, base=100.0)),
            "direct_sum_jordan": lambda: direct_sum(RoPE(4), jordan(4, eta=0.7)),
            "direct_sum_grid": lambda: direct_sum_grid(HEAD_DIM, key_heads, LENGTH, eta=0.1),
            "direct_sum_yarn": lambda: direct_sum(RoPE(4), RoPE(4, extension=YaRN(2.0, LENGTH))),
            "jordan_lightcone": lambda: jordan(eta=0.7, coordinate="lightcone"),
            "jordan_lightcone_exact": lambda: jordan(
                form="exact", gamma=0.05, eta=0.04, coordinate="lightcone", parts="amplitude"
            ),
            "jordan_lightcone_phase": lambda: jordan(
                gamma=0, eta=0.7, coordinate="lightcone", parts="phase"
            ),
            "pj_rotary_lightcone": lambda: PJRotary(
                HEAD_DIM, LENGTH, eta=0.7, coordinate="lightcone"
            ),
            "pj_rotary_phase": lambda: PJRotary(
                HEAD_DIM, LENGTH, coordinate="lightcone", parts="phase"
            ),
            "pj_rotary_amplitude": lambda: PJRotary(
                HEAD_DIM, LENGTH, order=4, coordinate="lightcone", parts="amplitude"
            ),
        }
    )


NAMES = list(kernels())
FUSABLE = [name for name, kernel in kernels().items() if not kernel.scored]  # what sdpa takes
