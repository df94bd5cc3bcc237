"""Do gates, masses, energies and leave-one-out name the sector and the order a teacher is made of?

A PJ-bias with one frequency, that of the teacher, learns one lag function of known make by full
batches over d < L, from five initial gates. Initial gates and restarts are heads of one
`PJBias`: heads share no parameter and the loss is a sum over heads, so Adam moves each as if
it were alone.

Two grids: `adaptive_spectrum` (17 turns in L, every initial gate, three seeds) and
`adaptive_spectrum/frequencies` (5, 61 and, out of step with L, 17.31 turns, with four restarts).
The protocol's own probe of frequencies lets each restart prefer another order; that start, "cycled"
here, joined the grid after a first run without it had missed the third jet at 5 turns. At L = 1024
both grids are the paper's own size and take minutes, so there is no preset "paper" beside "book".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ....diagnostics import effective_mass, functional_energy, leave_one_order_out, sector_functions
from ....kernels.pj import PJBias
from ....kernels.pj_init import CHOSEN, OTHER, SECTORS, PJInit
from ....training import stream
from ...engine.grids import SCIENTIFIC, tables_of
from ...engine.plain_json import significant
from ...engine.spec import Cell, CellContext, Experiment, Preset, Table
from ..fixed_kernel import TARGETS
from ..spans import Lags
from ..teachers import TEACHERS
from .claims import CYCLED, INITIAL, ORDERED, PROTOCOL, RULES, sentences

__all__ = ["EXPERIMENT", "FREQUENCIES", "fit", "learner", "rows_of"]

MAX_ORDER = 3
ZETA_SCALE = 0.05
LEARNING_RATE = 3e-2


def gate_logits(initial: str) -> list[float]:
    """Logits of the gates of fj, affine and lc; the protocol's prefer fj by a fifth of a nat."""
    known = {"protocol": PROTOCOL, CYCLED: PROTOCOL, "uniform": (0.0, 0.0, 0.0)}
    own = (CHOSEN if sector == initial else OTHER for sector in SECTORS)
    return list(known.get(initial, own))


def learner(
    length: int, cycles: float, seed: int, initial: Sequence[str], restarts: Sequence[int]
) -> PJBias:
    """One head for each initial gate and restart, in that order; restarts share no amplitude.

    Its slope has a free sign and starts at 0; its frequency is the teacher's and does not train.
    Orders start with equal weight, but from "cycled" gates, where restart k prefers order k mod 4.

    Args:
        length: L, tokens.
        cycles: turns of the frequency in L tokens.
        seed: of the amplitudes, which are the same for every initial gate.
        initial: names of initial gates, of `INITIAL`.
        restarts: their numbers, 0 the first.
    """
    kernel = PJBias(
        len(initial) * len(restarts),
        length,
        max_order=MAX_ORDER,
        omega_cycles=cycles,
        signed_slope=True,
        init=PJInit(slope=0.0, zeta_scale=ZETA_SCALE),
    )
    names = ("fj_zeta_re", "fj_zeta_im", "lc_zeta_re", "lc_zeta_im")
    with torch.no_grad():
        kernel.omega.fill_(2 * math.pi * cycles / length)
        logits = torch.tensor([gate_logits(name) for name in initial])
        kernel.gate_logits.copy_(logits.repeat_interleave(len(restarts), 0))
        shape = (len(names), MAX_ORDER + 1)
        draws = [torch.randn(shape, generator=stream(seed, "amplitudes", k)) for k in restarts]
        for name, values in zip(names, torch.stack(draws, 1), strict=True):
            getattr(kernel, name).copy_(ZETA_SCALE * values.repeat(len(initial), 1))
        for sector in ("fj", "lc"):
            weights = getattr(kernel, f"{sector}_alpha_logits")
            weights.copy_(torch.cat([_order_logits(name, restarts) for name in initial]))
    kernel.freeze("omega")
    return kernel


def _order_logits(initial: str, restarts: Sequence[int]) -> Tensor:
    """Logits of the weights of orders, ``(restarts, R+1)``."""
    if initial != CYCLED:
        return torch.zeros(len(restarts), MAX_ORDER + 1)
    preferred = torch.tensor(list(restarts))[:, None] % (MAX_ORDER + 1)
    return torch.where(preferred == torch.arange(MAX_ORDER + 1), CHOSEN, OTHER)


def fit(kernel: PJBias, teacher: Tensor, steps: int) -> None:
    """Adam at a constant rate on the mean squared error to ``(L,)`` values, summed over heads."""
    lags = torch.arange(len(teacher), device=teacher.device)
    parameters = [p for p in kernel.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    for _ in range(steps):
        optimizer.zero_grad()
        (kernel.lag_bias(lags) - teacher).square().mean(-1).sum().backward()
        optimizer.step()


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, target, cycles = context.settings, cell.key["target"], cell.key["cycles"]
    length, initial, restarts = settings["length"], cell.key["method"], settings["restarts"]
    lags = torch.arange(settings["times"] * length, device=context.device)
    teacher = TEACHERS[target].values(Lags(lags.double(), length, cycles))
    kernel = learner(length, cycles, cell.seed, initial, range(restarts)).to(context.device)
    fit(kernel, teacher[:length], settings["steps"])
    error = (kernel.lag_bias(lags[:length]) - teacher[:length]).square().mean(-1)
    best = error.detach().view(len(initial), restarts).argmin(1)
    heads = [i * restarts + int(k) for i, k in enumerate(best)]
    rows = rows_of(kernel, target, teacher, length, heads)
    return [
        {**cell.key, "method": name, "restart": head % restarts, **row}
        for name, head, row in zip(initial, heads, rows, strict=True)
    ]


@torch.no_grad()
def rows_of(
    kernel: PJBias, target: str, teacher: Tensor, length: int, heads: Sequence[int]
) -> list[dict[str, Any]]:
    """What each diagnostic says of some heads, and what it names.

    Masses and rms of a sector are those of all its orders; the affine sector's mass, which the
    protocol has not, is gate x |slope|. Energies and leave-one-out are over all lags of the teacher,
    rms (about the mean) over d < L, and `rms_…_far` over all lags. `…_own` are shares of the
    teacher's sector or order.

    Args:
        kernel: with all three sectors.
        target: in `TEACHERS`.
        teacher: ``(n,)`` its values on d < n, n >= L.
        length: L, tokens.
        heads: which heads.
    """
    lags = torch.arange(len(teacher), device=teacher.device)
    functions, masses = sector_functions(kernel, lags), effective_mass(kernel)
    slope = kernel.gate("affine") * kernel.slope
    size = {"fj": masses["fj"].sum(1), "affine": slope.abs(), "lc": masses["lc"].sum(1)}
    spectra = {
        "mass": masses["fj"] + masses["lc"],
        "energy": functional_energy(kernel, lags),
        "loo": leave_one_order_out(kernel, lags, teacher),
    }
    residual = kernel.lag_bias(lags) - teacher
    columns = {
        "train_mse": residual[:, :length].square().mean(1),
        "eval_mse": residual.square().mean(1),
        "eval_r2": 1 - residual.square().mean(1) / teacher.var(correction=0),
        "slope": slope,
        **{f"gate_{s}": kernel.gate(s) for s in SECTORS},
        **{f"mass_{s}": size[s] for s in SECTORS},
        **{f"rms_{s}": functions[s][:, :length].std(1, correction=0) for s in SECTORS},
        **{f"rms_{s}_far": functions[s].std(1, correction=0) for s in SECTORS},
        **{f"{name}_{r}": v[:, r] for name, v in spectra.items() for r in range(v.shape[1])},
    }
    return [
        _with_names({k: significant(v[head], 4) for k, v in columns.items()}, target)
        for head in heads
    ]


def _with_names(row: dict[str, Any], target: str) -> dict[str, Any]:
    """Add the sector and the order that each diagnostic names, and shares of the teacher's own."""
    teacher = TEACHERS[target]
    for name in ("gate", "mass", "rms"):
        row[f"sector_by_{name}"] = max(SECTORS, key=lambda s: row[f"{name}_{s}"])
    for name in ("mass", "energy", "loo"):
        row[f"order_by_{name}"] = max(range(MAX_ORDER + 1), key=lambda r: row[f"{name}_{r}"])
    sector, order = teacher.sector, teacher.order
    own = {"gate_own": row[f"gate_{sector}"]}
    own["rms_own"] = row[f"rms_{sector}"] / sum(row[f"rms_{s}"] for s in SECTORS)
    if order is not None:
        own["mass_own"] = row[f"mass_{order}"] / sum(row[f"mass_{r}"] for r in range(MAX_ORDER + 1))
    return row | {name: round(share, 4) for name, share in own.items()}


def _cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    settings = preset.settings
    return [
        Cell({"target": target, "method": settings["initial"], "cycles": cycles, "seed": seed})
        for cycles, target, seed in product(settings["cycles"], TARGETS, seeds)
    ]


def _presets(book: Mapping[str, Any], cost: str) -> dict[str, Preset]:
    book = {"length": 1024, "times": 4, "steps": 1000, **book}
    small = {**book, "length": 64, "restarts": 1, "steps": 60, "cycles": [5]}
    return {
        "smoke": Preset("smoke", (0,), small, "2 core-seconds"),
        "book": Preset("book", (0, 1, 2), book, cost),
    }


def _tables(rows: str, columns: str | tuple[str, ...]) -> tuple[Table, ...]:
    share: dict[str, Any] = {"digits": 2}
    of_order = {"where": {"target": ORDERED}, "digits": 2}
    return tables_of(
        ("Gate of the teacher's sector", "gate_own", share),
        ("Share of the teacher's sector in the rms of all three on d < L", "rms_own", share),
        ("Share of the teacher's order in the masses of fj and lc", "mass_own", of_order),
        ("Mean squared error on d < L", "train_mse", SCIENTIFIC),
        ("Mean squared error on d < 4L", "eval_mse", SCIENTIFIC),
        ("R² on d < 4L", "eval_r2", {}),
        rows=rows,
        columns=columns,
    )


_SHARED: dict[str, Any] = {
    "claims": tuple(RULES),
    "cells": _cells,
    "run_cell": _run_cell,
    "sentences": sentences,
    "verdicts": RULES,
}

EXPERIMENT = Experiment(
    name="adaptive_spectrum",
    question="Do gates, masses, energies and leave-one-out name the sector and the order that a "
    "teacher is made of, whatever gates training starts from?",
    presets=_presets({"cycles": [17], "initial": list(INITIAL), "restarts": 2}, "1 core-minute"),
    tables=_tables("method", "target"),
    **_SHARED,
)

FREQUENCIES = Experiment(
    name="adaptive_spectrum/frequencies",
    question="Do the diagnostics name the same sector and order at other frequencies, and at one "
    "that is out of step with L?",
    presets=_presets(
        {"cycles": [5, 61, 17.31], "initial": [CYCLED, "protocol", "uniform"], "restarts": 4},
        "4 core-minutes",
    ),
    tables=_tables("target", ("method", "cycles")),
    **_SHARED,
)
