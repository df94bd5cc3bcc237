"""One colour and one marker for each method in the whole book.

A colour is a family: what the method adds to the logits. Within a family markers differ, and lines
tell a variant from the plain method.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .style import PALETTE

# Families share the colours of their sectors (see `SECTOR_NAMES`): jets blue, recency vermilion, light
# cones green, unions purple. Figures by method stand on white, so two dark ones may join the palette.
FAMILIES = {
    "none": PALETTE["grey"],
    "rotation": "#222222",
    "recency": PALETTE["vermilion"],
    "rotation and recency": "#8c564b",
    "jet": PALETTE["blue"],
    "direct sum": "#6a51a3",
    "light cone": PALETTE["green"],
    "union": PALETTE["purple"],
    "near lags": "#a4336c",
}


@dataclass(frozen=True)
class MethodLook:
    """How a method is drawn: a label, the colour of its family, its marker and its line."""

    label: str
    color: str
    marker: str
    linestyle: str = "-"

    @property
    def drawn(self) -> dict[str, str]:
        """The same as keyword arguments of ``Axes.plot`` and ``Axes.errorbar``."""
        return asdict(self)


def _family(name: str, **methods: tuple[str, ...]) -> dict[str, MethodLook]:
    return {key: MethodLook(look[0], FAMILIES[name], *look[1:]) for key, look in methods.items()}


METHODS: Mapping[str, MethodLook] = {
    **_family("none", none=("no position", "^"), majority=("majority", "_", ":")),
    **_family(
        "rotation",
        rope=("RoPE", "o"),
        rope_ntk=("RoPE, dynamic NTK", "s", "--"),
        rope_trunc=("RoPE, truncated", "D", "-."),
        rope_respread=("RoPE, spread anew", "X", ":"),
        rope_given=("RoPE, frequencies given", "P", ":"),
    ),
    **_family(
        "recency",
        alibi=("ALiBi", "v"),
        affine=("learned slopes", "x", ":"),
        affine_fast=("learned slopes, higher rate", ">", "-."),
        affine_spread=("learned slopes from ALiBi's", "<", "--"),
        affine_signed=("learned slopes of either sign", "d", "-."),
        alibi_time=("ALiBi over time", "*", ":"),
    ),
    **_family(
        "rotation and recency",
        rope_alibi=("RoPE + ALiBi", "D"),
        rope_affine=("RoPE + learned slopes", "s", ":"),
        rope_affine_spread=("RoPE + learned slopes from ALiBi's", "o", "--"),
        rope_ntk_affine=("RoPE, NTK + learned slopes", "X", ":"),
        rope_ntk_affine_spread=("RoPE, NTK + learned slopes from ALiBi's", "P", "--"),
    ),
    **_family(
        "jet",
        stabilized=("Jordan, stabilized", "s"),
        scaled=("Jordan, scaled", "o", "--"),
        exact=("Jordan, exact", "^", "-."),
        lag=("Jordan, lag", "v", ":"),
        stabilized_fast=("Jordan, stabilized, faster shear", "*", "--"),
        stabilized_no_gamma=("Jordan, stabilized, undamped", "p", ":"),
        damped=("damped RoPE", "x", ":"),
        damped_c1=("damped RoPE, c = 1", "+", ":"),
        pj_rotary=("PJ-rotary", "D", "--"),
        fj=("Fourier jet", "P"),
        alibi_cosines=("ALiBi + cosines", "X", ":"),
    ),
    **_family(
        "direct sum",
        direct_sum=("direct sum", "D"),
        direct_sum_grid=("direct sum, frequency given", "X", "--"),
    ),
    **_family(
        "light cone",
        lc=("light cone", "o"),
        alibi_lc=("ALiBi + light cone", "v", "--"),
        lc_affine=("light cone + learned slopes", "x", ":"),
        alibi_straight=("ALiBi + velocity, straight phase", "s", "-."),
    ),
    **_family(
        "near lags",
        alibi_table4=("ALiBi + table of 4", "^", ":"),
        alibi_table8=("ALiBi + table of 8", "s"),
        alibi_table16=("ALiBi + table of 16", "D", "-."),
        alibi_t5=("ALiBi + T5's buckets", "o", "--"),
        alibi_conv=("ALiBi, short convolution", "P", "-."),
        alibi_shift=("ALiBi, token shift", "X", ":"),
        rope_alibi_table8=("RoPE + ALiBi + table of 8", "*", "--"),
        affine_spread_table8=("learned slopes + table of 8", "p", ":"),
    ),
    **_family(
        "union",
        full=("full union", "D"),
        full_uniform=("full union, equal gates", "^", "-."),
        fj_affine=("jet + learned slopes", "s", "--"),
    ),
}


def method_look(method: str) -> MethodLook:
    """The look of a method.

    Raises:
        ValueError: a method without one.
    """
    if method not in METHODS:
        known = ", ".join(METHODS)
        raise ValueError(f"method {method!r} has no look: add it to METHODS; known are {known}")
    return METHODS[method]
