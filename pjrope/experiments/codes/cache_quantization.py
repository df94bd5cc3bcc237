"""What rounding a cache of keys costs, when keys are made of lag codes.

Keys are codes of the positions 0 … T - 1 times a random matrix, a query is the code of one position
times another. "paper": the last position asks, logits are compared by their relative error, one
step serves all keys or one each channel. "fair": 32 queries, none rounded; frequencies without a
common period; every variant's logits are brought to a spread of 1 over the keys that a query sees,
as a model that can attend would learn to; what is compared is the attention itself. A step of its
own for every token, as caches have it, is tried by both. Codes and keys are fp32 (paper) or fp64
(fair), logits fp64. Keys after a query count in no number about logits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...training import stream
from ..engine.grids import tables_of
from ..engine.plain_json import significant
from ..engine.spec import Cell, CellContext, Experiment, Table
from .grids import cells_of, presets_of
from .lag_codes import FOCUS, PROTOCOLS, VARIANTS, code
from .rounding import quantize
from .rounding_claims import cache_claim

__all__ = ["EXPERIMENT", "STEPS", "attention_error", "keys_and_queries", "spread"]

STEPS = {"tensor": None, "channel": 0, "token": 1}  # what shares one step of the rounding
WIDTH = 128


def keys_and_queries(
    name: str, settings: Any, protocol: str, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Keys of all positions, and queries with their positions.

    Args:
        name: of a variant.
        settings: length, positions, queries and cycles.
        protocol: "paper" has one query, at the last position.
        seed: of the two matrices, the same for every variant.

    Returns:
        ``(T, 128)``, ``(q, 128)``, ``(q,)``.
    """
    count, fair = settings["positions"], protocol == "fair"
    number = torch.float64 if fair else torch.float32
    rows = code(
        name, torch.arange(count).to(number), settings["length"], settings["cycles"][protocol]
    )
    # The reference seeds with the bare number and draws the keys' matrix first.
    generator = stream(seed, "projection") if fair else torch.Generator().manual_seed(seed)
    channels = rows.shape[1]
    to_key, to_query = (
        torch.randn(channels, WIDTH, generator=generator).to(number) / channels**0.5
        for _ in range(2)
    )
    at = torch.tensor([count - 1])
    if fair:
        at = count - 1 - torch.arange(settings["queries"]) * (count // 2 // settings["queries"])
    return rows @ to_key, rows[at] @ to_query, at


def _logits(queries: Tensor, keys: Tensor, at: Tensor) -> Tensor:
    """``(q, T)``, 0 for the keys after a query: they must not count in a norm or a maximum."""
    logits = queries.double() @ keys.double().T / WIDTH**0.5
    return logits.masked_fill(torch.arange(len(keys)) > at[:, None], 0)


def _relative(error: Tensor, value: Tensor) -> float:
    return float(error.double().norm() / value.double().norm())


def spread(logits: Tensor, at: Tensor) -> Tensor:
    """Standard deviation of each query's logits over the keys that it sees.

    Args:
        logits: ``(q, T)``.
        at: ``(q,)`` position of each query, at least 1; it sees the keys 0 … at.

    Returns:
        ``(q, 1)``, with n - 1.
    """
    seen = (row[: int(p) + 1] for row, p in zip(logits, at, strict=True))
    return torch.stack([row.std() for row in seen])[:, None]


def attention_error(logits: Tensor, rounded: Tensor, at: Tensor) -> float:
    """Total variation between attentions, of logits that have a spread of 1 before rounding.

    Args:
        logits, rounded: ``(q, T)``; both are divided by the spread of the first, as the rounding
            must not be undone by a scale of its own.
        at: ``(q,)`` position of each query.

    Returns:
        mean over queries of the share of attention that moved, 0 … 1.
    """
    hidden = torch.arange(logits.shape[1]) > at[:, None]
    unit = spread(logits, at)
    clean, other = (
        (x / unit).masked_fill(hidden, -torch.inf).softmax(-1) for x in (logits, rounded)
    )
    return float((clean - other).abs().sum(1).mean() / 2)


def _run_cell(cell: Cell, context: CellContext) -> list[dict[str, Any]]:
    settings, protocol = context.settings, cell.key["protocol"]
    keys, queries, at = keys_and_queries(cell.key["method"], settings, protocol, cell.seed)
    logits, half = _logits(queries, keys, at), len(keys) // 2
    whole = {
        "norm_at_L": significant(keys[settings["length"] - 1].norm()),
        "norm": significant(keys[-1].norm()),
        "logit_std": significant(spread(logits, at).mean()),
        "logit_max": significant(logits.abs().max()),
    }
    rows = [{**cell.key, "bits": 0, **whole}]
    for bits in settings["bits"]:
        for step, dim in STEPS.items():
            rounded = quantize(keys, bits, dim)
            changed = _logits(queries, rounded, at)
            found = {
                "key_error": _relative(rounded - keys, keys),
                "far_error": _relative(rounded[half:] - keys[half:], keys[half:]),
                "near_error": _relative(
                    (rounded - keys)[: settings["length"]], keys[: settings["length"]]
                ),
                "logit_error": _relative(changed - logits, logits),
                "attention_error": attention_error(logits, changed, at),
            }
            found = {key: significant(value) for key, value in found.items()}
            rows.append({**cell.key, "bits": bits, "step": step, **found})
    return rows


def _tables() -> tuple[Table, ...]:
    whole: dict[str, Any] = {"columns": "protocol", "where": {"bits": 0}, "digits": 2}
    whole["form"] = "scientific"
    int4 = {"where": {"bits": 4}}
    moved = "keys move (logits brought to spread 1 over visible keys)"
    return tables_of(
        (
            "Relative error of int8 keys, one step for all, each channel or each token",
            "key_error",
            {"where": {"bits": 8, "method": list(FOCUS)}},
        ),
        ("Norm of the key at the last position", "norm", whole),
        ("Norm of the key at position L - 1", "norm_at_L", whole),
        ("Standard deviation of the logits", "logit_std", whole),
        ("Relative error of int8 keys, all variants", "key_error", {}),
        ("Relative error of int8 keys at positions below L", "near_error", {}),
        ("Relative error of the logits, int8", "logit_error", {}),
        (f"Share of attention that int8 {moved}", "attention_error", {}),
        ("Relative error of int4 keys", "key_error", int4),
        (f"Share of attention that int4 {moved}", "attention_error", int4),
        columns=("protocol", "step"),
        where={"bits": 8},
        digits=4,
    )


EXPERIMENT = Experiment(
    name="cache_quantization",
    question="Do bounded codes make a cache of keys easier to round?",
    claims=("P-F1",),
    presets=presets_of(
        {"positions": 4096, "queries": 8},
        {"positions": 32768, "queries": 32, "bits": [8, 4]},
        ("2 core-seconds", "1 core-minute"),
    ),
    cells=cells_of(dict.fromkeys(PROTOCOLS, tuple(VARIANTS))),
    run_cell=_run_cell,
    baseline="scaled",
    tables=_tables(),
    verdicts={"P-F1": cache_claim},
    revision=2,  # the spread of logits is taken over visible keys
)
