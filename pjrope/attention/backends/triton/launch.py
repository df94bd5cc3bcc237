"""Launches: how large tiles are on which GPU, and what each kernel is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from .backward import mean_kernel, queries_kernel
from .decode import join_kernel, split_kernel
from .forward import forward_kernel
from .keys import keys_kernel
from .table import table_kernel
from .tuning import TOGETHER, Tile, tile_of

LOG2_E = 1 / math.log(2.0)
SEPARATE = (("keys_only", True, False), ("values_only", False, True))


@dataclass(frozen=True)
class Call:
    """A checked call: tensors with channels side by side, and what is compiled in.

    Attributes:
        q: ``(B, H, Q, D)``.
        k: ``(B, Hk, K, D)``.
        v: ``(B, Hk, K, Dv)``.
        table: ``(H, lags)`` fp32, nats; lags run from 0 under causality, else from 1 - Q; or None.
        segments: int32 document ids ``(B, Q)`` and ``(B, K)``, or None.
        keep: ``(B, K)`` int8, 0 = hidden, or None.
        causal: 0 not, 1 causal, 2 strict.
        window: lags a query may look back, 0 = all.
        scale: multiplies q . k.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    table: Tensor | None
    segments: tuple[Tensor, Tensor] | None
    keep: Tensor | None
    causal: int
    window: int
    scale: float

    @property
    def lines(self) -> int:
        """Heads times batch rows."""
        return self.q.shape[0] * self.q.shape[1]

    def tile(self, kind: str) -> Tile:
        """The tile a kernel takes for these channels on this device."""
        width = max(self.q.shape[3], self.v.shape[3])
        sm = (8, 0)
        if self.q.device.type == "cuda":
            sm = torch.cuda.get_device_capability(self.q.device)
        masked = self.segments is not None or self.keep is not None or self.window > 0
        return tile_of(kind, width, self.q.dtype, sm, masked)

    def inputs(self) -> dict[str, Any]:
        """Arguments that all kernels but the decoding ones share."""
        heads, groups = self.q.shape[1], self.q.shape[1] // self.k.shape[1]
        q_seg, k_seg = self.segments or (None, None)
        return {
            **{name: x for name, x in (("q", self.q), ("k", self.k), ("v", self.v))},
            "table": None if self.table is None else self.table * LOG2_E,
            **dict(zip(("sqb", "sqh", "sqn"), self.q.stride()[:3], strict=True)),
            **dict(zip(("skb", "skh", "skn"), self.k.stride()[:3], strict=True)),
            **dict(zip(("svb", "svh", "svn"), self.v.stride()[:3], strict=True)),
            **{"q_seg": q_seg, "k_seg": k_seg, "keep": self.keep},
            **{"heads": heads, "groups": groups},
            **{"queries": self.q.shape[2], "keys": self.k.shape[2]},
            "low": 0 if self.causal else self.q.shape[2] - 1,
            "lags": 0 if self.table is None else self.table.shape[1],
            **{"window": self.window, "scale": self.scale * LOG2_E},
        }

    def shapes(self) -> dict[str, Any]:
        """What is compiled in, beside the tile."""
        return {
            **{"D": self.q.shape[3], "DV": self.v.shape[3]},
            "PAD": max(16, triton.next_power_of_2(self.q.shape[3])),
            "PAD_V": max(16, triton.next_power_of_2(self.v.shape[3])),
            **{"CAUSAL": self.causal, "WINDOW": self.window > 0},
            **{"SEGMENTS": self.segments is not None, "KEEP": self.keep is not None},
            "PRECISION": "tf32x3" if self.q.dtype == torch.float32 else "tf32",
        }


def forward(call: Call) -> tuple[Tensor, Tensor]:
    """Output ``(B, H, Q, Dv)`` and base-2 logarithm of the sum of weights ``(B, H, Q)``."""
    tile = call.tile("forward")
    out = call.q.new_empty(*call.q.shape[:3], call.v.shape[3])
    lse = call.q.new_empty(call.q.shape[:3], dtype=torch.float32)
    grid = (triton.cdiv(call.q.shape[2], tile.rows) * call.lines,)
    forward_kernel[grid](
        **call.inputs(),
        **call.shapes(),
        **tile.options(),
        out=out,
        lse=lse,
        BIAS=call.table is not None,
    )
    return out, lse


def backward(
    call: Call, out: Tensor, lse: Tensor, grad: Tensor, learns: bool, repeats: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of q, k, v and the table.

    Args:
        call: of the forward pass.
        out: its output.
        lse: its logarithms.
        grad: ``(B, H, Q, Dv)``.
        learns: the table wants a gradient.
        repeats: the same bits every time, without atomics.

    Returns:
        dq, dk, dv in the dtype of the inputs, and d(table) in fp32 or None.
    """
    grad, out = grad.contiguous(), out.contiguous()
    mean = torch.empty_like(lse)
    shapes, width = call.shapes(), call.v.shape[3]
    rows = max(1, 4096 // shapes["PAD_V"])
    mean_kernel[(triton.cdiv(lse.numel(), rows),)](
        out, grad, mean, lse.numel(), DV=width, ROWS=rows, PAD_V=shapes["PAD_V"]
    )
    dq, dk, dv = (
        torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (call.q, call.k, call.v)
    )
    given = {**call.inputs(), **shapes, "grad": grad, "lse": lse, "mean": mean}
    table = call.table
    sums = torch.zeros_like(table) if learns and table is not None else None
    _queries(call, given, dq, None if repeats else sums)
    _keys(call, given, dk, dv)
    if sums is not None and table is not None and repeats:
        sums = _table(call, given, table)
    return dq.mul_(call.scale), dk.mul_(call.scale), dv, sums


def _queries(call: Call, given: dict[str, Any], dq: Tensor, sums: Tensor | None) -> None:
    tile = call.tile("queries" if sums is None else "queries_table")
    grid = (triton.cdiv(call.q.shape[2], tile.rows) * call.lines,)
    queries_kernel[grid](
        **given,
        **tile.options(),
        dq=dq,
        d_table=sums,
        BIAS=call.table is not None,
        LEARNS=sums is not None,
    )


def _keys(call: Call, given: dict[str, Any], dk: Tensor, dv: Tensor) -> None:
    wide = max(call.q.shape[3], call.v.shape[3]) > TOGETHER
    for kind, for_k, for_v in SEPARATE if wide else (("keys", True, True),):
        tile = call.tile(kind)
        grid = (triton.cdiv(call.k.shape[2], tile.columns) * call.k.shape[0] * call.k.shape[1],)
        keys_kernel[grid](
            **given,
            **tile.options(),
            **{"dk": dk, "dv": dv, "FOR_K": for_k, "FOR_V": for_v},
            BIAS=call.table is not None,
        )


def _table(call: Call, given: dict[str, Any], table: Tensor) -> Tensor:
    """The table's gradient from the sums of each diagonal of tiles."""
    tile = call.tile("table")
    size = tile.rows
    key_tiles, row_tiles = triton.cdiv(call.k.shape[2], size), triton.cdiv(call.q.shape[2], size)
    diagonals = row_tiles + key_tiles - 1
    halves = table.new_empty(len(table), diagonals, 2, size)
    options = {k: v for k, v in tile.options().items() if k not in ("ROWS", "COLUMNS")}
    table_kernel[(len(table) * diagonals,)](
        **given, **options, halves=halves, batches=call.q.shape[0], SIZE=size
    )
    # Upper sums of a diagonal and lower ones of the next belong to the same lags.
    spread = table.new_zeros(len(table), diagonals + 1, size)
    spread[:, 1:] = halves[:, :, 0]
    spread[:, :-1] += halves[:, :, 1]
    lowest = -key_tiles * size + given["keys"] - given["queries"] + given["low"]
    return _cut(spread.flatten(1), lowest, table.shape[1])


def _cut(sums: Tensor, lowest: int, lags: int) -> Tensor:
    """Columns for indices ``0 … lags - 1``, where the first column's index is ``lowest``."""
    if lowest > 0:
        sums = torch.nn.functional.pad(sums, (lowest, 0))
        lowest = 0
    sums = sums[:, -lowest : lags - lowest]
    return torch.nn.functional.pad(sums, (0, lags - sums.shape[1])).contiguous()


def decode(call: Call, splits: int) -> Tensor:
    """Causal attention of few queries to many keys: ``(B, H, Q, Dv)``; no gradients.

    Args:
        call: at most 16 queries over the heads that share a key head; no segments.
        splits: programs among which the keys of a head are shared out.
    """
    tile, given, shapes = call.tile("decode"), call.inputs(), call.shapes()
    keys = call.k.shape[2]
    share = triton.cdiv(triton.cdiv(keys, splits), tile.columns) * tile.columns
    splits = triton.cdiv(keys, share)
    rows = max(16, triton.next_power_of_2(given["groups"] * given["queries"]))
    lines = call.k.shape[0] * call.k.shape[1]
    parts = call.q.new_empty(lines * splits * rows, call.v.shape[3], dtype=torch.float32)
    tops, totals = (parts.new_empty(len(parts)) for _ in range(2))
    out = call.q.new_empty(*call.q.shape[:3], call.v.shape[3])
    for name in ("q_seg", "k_seg", "low"):
        given.pop(name)
    for name in ("CAUSAL", "SEGMENTS"):
        shapes.pop(name)
    options = {**tile.options(), "ROWS": rows}
    split_kernel[(lines * splits,)](
        **given,
        **shapes,
        **options,
        **{"parts": parts, "tops": tops, "totals": totals, "share": share, "splits": splits},
        BIAS=call.table is not None,
    )
    join_kernel[(call.lines * call.q.shape[2],)](
        parts,
        tops,
        totals,
        out,
        given["heads"],
        given["groups"],
        given["queries"],
        splits,
        DV=call.v.shape[3],
        ROWS=rows,
        PAD_V=shapes["PAD_V"],
        SPLITS=triton.next_power_of_2(splits),
    )
    return out
