"""Backend ``triton``: on a GPU a bias costs one number per lag, forward and backward, fused.

One kernel streams keys past a block of queries and reads the bias of a pair from a table of lags;
the backward kernels sum the table's gradient along diagonals within a tile. Triton comes with CUDA
builds of torch and is imported only when a call is run. ``TRITON_INTERPRET=1`` runs the kernels on
a CPU, for tests: numpy, slow.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass

import torch
from torch import Tensor

from ...call import Call
from ...scores import bias_at
from ..loop import first
from .tuning import fits

NUMBERS = (torch.float16, torch.bfloat16, torch.float32)
LEAST = (8, 0)  # compute capability; below it Triton multiplies matrices without tensor cores
DECODED = 16  # queries of all heads that share a key head, up to which keys are shared out instead
SHARE = 256  # keys of a program at least, when decoding


@dataclass(frozen=True)
class Gpu:
    """What the choice of a backend asks of a device.

    Attributes:
        sm: compute capability, such as (7, 5) for a T4; None on a CPU.
        triton: Triton can be imported.
        interpreted: its functions run in the interpreter, on any device.
    """

    sm: tuple[int, int] | None
    triton: bool
    interpreted: bool = False


def gpu_of(device: torch.device) -> Gpu:
    """The facts about a device."""
    sm = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    return Gpu(sm, _installed(), os.environ.get("TRITON_INTERPRET") == "1")


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def refuses(call: Call, gpu: Gpu | None = None) -> str | None:
    """Why this backend cannot take the call, or None if it can.

    Args:
        call: the checked call.
        gpu: default, that of q.
    """
    gpu = gpu_of(call.q.device) if gpu is None else gpu
    sm = gpu.sm or (0, 0)
    width = max(call.q.shape[3], call.v.shape[3])
    wide = " or ".join(str(n).removeprefix("torch.") for n in NUMBERS)
    return first(
        (
            ("Triton is not installed", not gpu.triton),
            ("the tensors are not on a GPU", gpu.sm is None and not gpu.interpreted),
            (
                f"the GPU's compute capability is {sm[0]}.{sm[1]}, 8.0 is needed",
                gpu.sm is not None and sm < LEAST,
            ),
            (f"the dtype is {call.q.dtype}, {wide} is needed", call.number not in NUMBERS),
            (f"there are {width} channels in {call.number}", not fits(width, call.number)),
            ("the kernel defines whole scores", call.scored),
            ("the kernel needs an origin per block", call.local),
            ("keep differs between queries or heads", not _hides_keys_only(call)),
            ("position minus index is not one constant", call.biases and call.offset is None),
        )
    )


def _hides_keys_only(call: Call) -> bool:
    keep = call.masks.keep
    return keep is None or (keep.ndim == 4 and keep.shape[1] == keep.shape[2] == 1) or (
        keep.ndim == 2 and keep.shape[0] == 1
    )  # fmt: skip


def _table(call: Call) -> Tensor | None:
    """The bias by rising lag, ``(H, lags)`` fp32: from 0 under causality, else from 1 - Q."""
    if not call.biases:
        return None
    lowest = 0 if call.masks.causal else 1 - call.queries
    lags = torch.arange(lowest, call.keys, device=call.q.device) + (call.offset or 0)
    return bias_at(call, lags).to(torch.float32)


def _segments(call: Call) -> tuple[Tensor, Tensor] | None:
    if call.masks.segments is None:
        return None
    small = all(x.dtype.itemsize < 8 for x in call.masks.segments)
    number = torch.int32 if small else torch.int64
    q_seg, k_seg = (
        x.to(call.q.device, number).expand(call.q.shape[0], -1).contiguous()
        for x in call.masks.segments
    )
    return q_seg, k_seg


def _keep(call: Call) -> Tensor | None:
    keep = call.masks.keep
    if keep is None:
        return None
    keep = keep.reshape(-1, keep.shape[-1]).to(call.q.device, torch.int8)
    return keep.expand(call.q.shape[0], call.keys).contiguous()


def decodes(call: Call) -> bool:
    """True if few queries meet many keys, without gradients: then programs share the keys out."""
    masks = call.masks
    return (
        call.queries * call.groups <= DECODED
        and call.keys >= 2 * SHARE
        and masks.causal is True
        and masks.segments is None
        and not call.training
    )


def splits_of(lines: int, keys: int, processors: int) -> int:
    """Programs for each line of a decoding call, so that all processors have work.

    Args:
        lines: batch rows times key heads.
        keys: keys of a line.
        processors: of the GPU.
    """
    return max(1, min(-(-keys // SHARE), -(-2 * processors // lines), 64))


def run(call: Call) -> Tensor:
    """Attention in one fused kernel, the bias read from a table: ``(B, H, Q, Dv)``."""
    from .operator import lag_attention, lag_decoding

    q, k = call.rotated()
    q, k, v = (x.to(call.number) for x in (q, k, call.v))
    window = call.masks.window or 0
    if decodes(call):
        processors = 100
        if q.device.type == "cuda":
            processors = torch.cuda.get_device_properties(q.device).multi_processor_count
        splits = splits_of(k.shape[0] * k.shape[1], call.keys, processors)
        out = lag_decoding(q, k, v, _table(call), _keep(call), window, call.scale, splits)
    else:
        causal = 0 if call.masks.causal is False else 2 if call.masks.causal == "strict" else 1
        out = lag_attention(
            q,
            k,
            v,
            _table(call),
            causal=causal,
            window=window,
            scale=call.scale,
            segments=_segments(call),
            keep=_keep(call),
        )
    return out.to(call.q.dtype)
