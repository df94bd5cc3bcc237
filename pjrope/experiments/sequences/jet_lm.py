"""Do Jordan blocks of higher order help where the answer hangs on a higher jet?

The language of ``phase_lm`` with the targets ``x^r e^(-0.1 x) cos(omega d)``, x = d/L, r = 2 and 3.
An order m has the jets ``x^k`` with k < m among its modes, so r asks for order r + 1. Unlike in the
paper, every order here has the same two frequencies, repeated as often as its blocks allow: a
higher order is not also a poorer ladder. Damping starts where the target's is, c = 0.1; where the
shear starts is a factor: 0.1 as in the paper, or 1, at which all modes start alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ...kernels import DampedRoPE, JordanRoPE, PositionKernel, RoPE
from ...positions.frequencies import geometric
from ..analysis.claims import SMALLEST_EFFECT
from ..engine.spec import Cell, CellContext, Experiment, Preset, Table
from .claims import DAMPED, JETS, claim_k5
from .phase_lm import run_language
from .training import presets, settings_of

TARGETS = JETS  # and the power r of each
LARGE_START = "_eta1"

METHODS = {
    "order1": "RoPE on the two frequencies.",
    "order1_damped": "The same with a learned damping: every order below with its shear held at 0.",
    "order2": "Scaled Jordan blocks of order 2 on the two frequencies.",
    "order3": "Scaled Jordan blocks of order 3 on the two frequencies.",
    "order4": "Scaled Jordan blocks of order 4 on the two frequencies.",
    "order3_eta1": "Order 3 with a shear that starts at 1.",
    "order4_eta1": "Order 4 with a shear that starts at 1.",
}


def _order(method: str) -> int:
    return int(method[len("order")])


def frequencies(head_dim: int, order: int, indices: Sequence[int]) -> Tensor:
    """A few frequencies of the head's own ladder, in turn, one a block.

    Args:
        head_dim: D, a multiple of ``2 order``.
        order: m, complex channels of a block.
        indices: places in RoPE's ladder; their number must divide that of the blocks.

    Returns:
        ``(D/(2m),)`` fp64 radians per token.

    Raises:
        ValueError: blocks that do not share out evenly.
    """
    blocks = head_dim // (2 * order)
    if head_dim % (2 * order) or blocks % len(indices):
        raise ValueError(
            f"{head_dim} channels in blocks of order {order} do not share out {len(indices)} "
            f"frequencies evenly: use a multiple of {2 * order * len(indices)}"
        )
    return geometric(head_dim)[list(indices)].repeat(blocks // len(indices))


def make_kernel(method: str, settings: Mapping[str, Any]) -> PositionKernel:
    """The kernel of a method; all methods have the same set of frequencies.

    Args:
        method: one of ``METHODS``.
        settings: ``width heads length target_index other_index``, ``damping`` (c at the start) and
            ``shear`` (eta at the start, no unit).

    Raises:
        ValueError: an unknown method.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r}: there are {', '.join(METHODS)}")
    heads, length, c = settings["heads"], settings["length"], settings["damping"]
    head_dim = settings["width"] // heads
    order = _order(method)
    indices = (settings["target_index"], settings["other_index"])
    omega = frequencies(head_dim, order, indices)
    if method == "order1":
        return RoPE(head_dim, omega=omega)
    if method == "order1_damped":
        return DampedRoPE(head_dim, heads, length, c=c, omega=omega)
    eta = 1.0 if method.endswith(LARGE_START) else settings["shear"]
    return JordanRoPE(head_dim, heads, length, order=order, omega=omega, gamma=c, eta=eta)


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    kernel = make_kernel(cell.key["method"], context.settings)
    return run_language(cell, context, cell.key["target"], kernel)


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell({"target": target, "method": method, "seed": seed})
        for target in preset.settings["targets"]
        for seed in seeds
        for method in preset.settings["methods"]
    ]


def _settings(length: int, steps: int, **changes: Any) -> dict[str, Any]:
    own = {
        "width": 96,
        "heads": 2,
        "target_index": 3,
        "other_index": 5,  # both on the ladder that the paper leaves to order 4
        "damping": 0.1,
        "shear": 0.1,
        "targets": list(TARGETS),
        "methods": list(METHODS),
    }
    training = {"steps": steps, "batch": 32, "lr": 1e-3, "position_lr": None}
    return settings_of(length, training, **{**own, **changes})


SMALL = {
    "width": 48,
    "heads": 1,
    "targets": ["scaled_high_jet_r2"],
    "methods": ["order1", "order1_damped", "order3"],
}
LARGE = {"width": 192, "heads": 4, "layers": 3}


def _table(title: str, value: str, target: str, **where: Any) -> Table:
    return Table(
        f"{title}, target x^{TARGETS[target]} e^(-0.1 x) cos wd",
        value=value,
        columns=None if where else "length",
        where={"target": target, **where},
        better="higher",
        smallest_effect=SMALLEST_EFFECT["accuracy"] if value == "accuracy" else None,
    )


EXPERIMENT = Experiment(
    name="jet_lm",
    question=(
        "With one set of frequencies for all, does a higher order of the Jordan block help a "
        "trained decoder where the answer hangs on a higher jet?"
    ),
    claims=("J-K5",),
    presets=presets(
        Preset("smoke", (0,), _settings(32, 60, **SMALL), "4 core-seconds"),
        Preset("book", (0, 1, 2, 3, 4), _settings(128, 500), "about an hour on one core"),
        Preset("paper", (0, 1, 2), _settings(256, 600, **LARGE), "not run yet; about 5 core-hours"),
    ),
    cells=_cells,
    run_cell=_run_cell,
    baseline=DAMPED,
    tables=tuple(
        table
        for target in TARGETS
        for table in (
            _table("Accuracy (chance 0.5)", "accuracy", target),
            _table("Learned shear, mean |eta|", "shear", target, times=1),
            _table("Learned damping, mean c", "damping", target, times=1),
        )
    ),
    verdicts={"J-K5": claim_k5},
)
