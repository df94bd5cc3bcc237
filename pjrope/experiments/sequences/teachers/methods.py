"""What learns the teachers' languages: kernels by name, their starts, and a model around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ....diagnostics.views import attention_layers
from ....kernels import NoPE, PJBias, PJInit, PositionKernel, RoPE
from ....positions.frequencies import geometric
from ..phase_lm import VOCAB
from ..training import LastToken, decoder
from .language import TEACHERS, Language

MAX_ORDER = 3

SECTORS: dict[str, tuple[str, ...]] = {
    "affine": ("affine",),
    "fj": ("fj",),
    "fj_affine": ("fj", "affine"),
    "lc_affine": ("affine", "lc"),
    "full": ("fj", "affine", "lc"),
    "order0": ("fj",),
    "order0_affine": ("fj", "affine"),
    "affine_signed": ("affine",),
}

METHODS = {
    "majority": "No model: the unweighted vote of the bits.",
    "none": "No position but the causal mask.",
    "affine": "Learned recency, slope > 0.",
    "fj": "Fourier jets to order 3.",
    "fj_affine": "Fourier jets and recency.",
    "lc_affine": "Light-cone jets to order 3 and recency.",
    "full": "All three sectors.",
    "rope": "RoPE proper, on its own ladder.",
    "rope_given": "RoPE proper, its first frequency the teacher's.",
    "order0": "A bias of order 0, a cos wd - b sin wd: what the paper's table calls GRAPE-M, RoPE.",
    "order0_affine": "That and recency: its GRAPE-MA.",
    "affine_signed": "A learned slope of either sign.",
}

GATES = ("uniform", "right", "wrong")
_OTHER = {"fj": "lc", "affine": "lc", "lc": "fj"}

# The learning rate of the frequencies over that of the backbone; "given" puts all heads on the
# teacher's frequency, the others start at the ladder, whose last head is there.
OMEGA_RATES = {"frozen": 0.0, "given": 0.0, "slow": 0.1, "trained": 1.0}

QK = ("frozen", "free")


def start(teacher: str, gates: str, slope: float) -> PJInit:
    """Where gates and orders begin.

    Args:
        teacher: one of ``TEACHERS``.
        gates: "uniform"; "right" favors the teacher's sector and order; "wrong" favors another jet
            sector and, where the teacher has an order, the one two away.
        slope: initial affine slope, nats per L tokens.

    Raises:
        ValueError: another word for gates.
    """
    if gates not in GATES:
        raise ValueError(f"gates {gates!r}: choose from {', '.join(GATES)}")
    if gates == "uniform":
        return PJInit(slope=slope)
    known = TEACHERS[teacher]
    if gates == "right":
        return PJInit(gates=known.sector, order=known.order, slope=slope)
    order = None if known.order is None else (known.order + 2) % (MAX_ORDER + 1)
    return PJInit(gates=_OTHER[known.sector], order=order, slope=slope)


def make_kernel(
    method: str, settings: Mapping[str, Any], language: Language, init: PJInit
) -> PositionKernel:
    """The kernel of a method.

    Args:
        method: one of ``METHODS`` that learns.
        settings: ``width heads length cycles``.
        language: gives "rope_given" its frequency.
        init: of the methods that have gates.

    Raises:
        ValueError: a method that is unknown or learns nothing.
    """
    heads, head_dim = settings["heads"], settings["width"] // settings["heads"]
    if method in SECTORS:
        return PJBias(
            heads,
            settings["length"],
            max_order=0 if method.startswith("order0") else MAX_ORDER,
            sectors=SECTORS[method],
            omega_cycles=settings["cycles"],
            signed_slope=method == "affine_signed",
            init=init,
        )
    if method == "rope_given":
        omega = geometric(head_dim).clone()
        omega[0] = language.omega
        return RoPE(head_dim, omega=omega)
    if method not in ("none", "rope"):
        learners = [name for name in METHODS if name != "majority"]
        raise ValueError(f"method {method!r}: there are {', '.join(learners)}")
    return RoPE(head_dim) if method == "rope" else NoPE()


def make_model(
    key: Mapping[str, Any], settings: Mapping[str, Any], language: Language
) -> LastToken:
    """A decoder that answers behind QUERY; attention is strict, so it reads the bits alone.

    With q and k frozen at zero attention is the softmax of the bias. That is the default: QUERY
    is one and the same token everywhere, so that q and k could add but one number per letter (and
    RoPE, which acts on them, is the reason to free them). Freeing them is a factor.

    Args:
        key: ``teacher method gates omega qk slope seed`` of a cell.
        settings: ``width heads layers length cycles``.
        language: what is learned.

    Raises:
        ValueError: an unknown method or factor; RoPE with q and k frozen.
    """
    if key["qk"] not in QK or key["omega"] not in OMEGA_RATES:
        raise ValueError(
            f"qk {key['qk']!r}, omega {key['omega']!r}: choose from {', '.join(QK)}, and from "
            f"{', '.join(OMEGA_RATES)}"
        )
    init = start(key["teacher"], key["gates"], key["slope"])
    kernel = make_kernel(key["method"], settings, language, init)
    if kernel.rotates and key["qk"] == "frozen":
        raise ValueError(f"{key['method']} acts on q and k: they cannot be zero, use qk='free'")
    backbone = decoder(settings, kernel, VOCAB, key["seed"], norm="layer", bias=True)
    model = LastToken(backbone, answers=2)
    for layer in attention_layers(model):
        layer.causal = "strict"
        if key["qk"] == "frozen":
            for p in (*layer.query.parameters(), *layer.key.parameters()):
                nn.init.zeros_(p)
                p.requires_grad_(False)
        if key["omega"] == "given" and isinstance(layer.kernel, PJBias):
            with torch.no_grad():
                layer.kernel.omega.fill_(language.omega)
    return model
