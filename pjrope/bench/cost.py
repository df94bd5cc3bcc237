"""What each way to add a bias costs a GPU, counted: multiplications, bytes and kernel launches.

A model, not a measurement: it argues the choice of a backend where none has been timed. Bytes are
those that must cross the GPU's memory once; what caches hold is taken as free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["DEVICES", "PATHS", "Cost", "Device", "Shape", "cost", "least_seconds"]

LAUNCH = 5e-6  # seconds that a launch takes at least
BLOCK_ROWS = 1024  # rows of a block that goes over all heads
HEAD_ROWS = 128  # rows of a block that goes head by head
OPERATIONS = 10  # launches of a block of masked attention, about
PATHS = {
    "flash": "attention without a bias: the limit",
    "triton": "the table read in the kernel, its gradient added by tiles",
    "triton, same bits": "the same without atomics: two more products in seven",
    "fold": "a bias of finite rank as extra channels, in fp32",
    "blocks": "a mask for each block of rows, all heads at once, in fp32",
    "dense": "one H x N x N matrix as a mask, in fp32",
    "head by head": "blocks of 128 rows of one head each, in fp32",
}


@dataclass(frozen=True)
class Shape:
    """A causal call of N queries and keys.

    Attributes:
        n: N, tokens.
        batch: B.
        heads: H.
        kv_heads: Hk.
        channels: D, of keys and of values.
        bytes: of a number of q, k and v.
        rank: channels that a fold adds.
        tile: rows of a tile within which the table's gradient is summed.
    """

    n: int
    batch: int = 1
    heads: int = 8
    kv_heads: int = 8
    channels: int = 64
    bytes: int = 2
    rank: int = 16
    tile: int = 64

    @property
    def pairs(self) -> int:
        """Visible pairs, over rows of the batch and heads."""
        return self.batch * self.heads * self.n * (self.n + 1) // 2


@dataclass(frozen=True)
class Device:
    """Peaks of a GPU by its maker: multiply-adds count as two operations.

    Attributes:
        half: operations a second on tensor cores in fp16 (bf16 where there is one).
        full: operations a second in fp32.
        memory: bytes a second.
    """

    half: float
    full: float
    memory: float


DEVICES = {
    "T4": Device(65e12, 8.1e12, 320e9),
    "A100": Device(312e12, 19.5e12, 1555e9),
    "H100": Device(989e12, 67e12, 3350e9),
}


@dataclass(frozen=True)
class Cost:
    """What a call takes.

    Attributes:
        operations: floating-point operations of its matrix products.
        bytes: to and from the GPU's memory.
        launches: of kernels.
        atomics: numbers added to shared memory cells.
        in_half: its products run on tensor cores.
        fused: one kernel computes while it reads; else each operation waits for the one before.
    """

    operations: int
    bytes: int
    launches: int
    atomics: int = 0
    in_half: bool = True
    fused: bool = True


def cost(path: str, shape: Shape, *, train: bool = False) -> Cost:
    """The cost of one call, forward or forward and backward.

    Args:
        path: one of :data:`PATHS`.
        shape: sizes of the call.
        train: count the backward pass too, with the gradient of the bias.

    Raises:
        ValueError: an unknown path.
    """
    if path not in PATHS:
        raise ValueError(f"path is {path!r}: choose from {', '.join(PATHS)}")
    fused = path not in ("blocks", "dense", "head by head")
    s, half = shape, path in ("flash", "triton", "triton, same bits")
    width = s.channels + (s.rank if path == "fold" else 0)
    # Products of a pair: two forward; backward flash takes five, the kernels here seven or nine.
    products = 2 + (0 if not train else {"triton": 7, "triton, same bits": 9}.get(path, 5))
    size = s.bytes if half else 4
    tensors = s.batch * s.n * width * size * (2 * s.heads + 2 * s.kv_heads)
    moved = tensors * (3 if train else 1) + 4 * s.batch * s.heads * s.n * (3 if train else 1)
    if path != "flash":
        moved += 4 * s.heads * s.n * (3 if train else 1)
    launches = {True: 4, False: 1}[train] + (2 if path == "fold" else 0)
    atomics = 0
    if path == "triton" and train:
        atomics = math.ceil(s.pairs / s.tile)
    if path == "dense":  # built and read; backward also the logits' gradient
        moved += 4 * s.heads * s.n**2 * (5 if train else 2)
        launches = OPERATIONS * (2 if train else 1)
    if path == "blocks":  # bias, mask and logits of each block, written and read
        moved += 4 * s.pairs * (9 if train else 4)
        launches = math.ceil(s.n / BLOCK_ROWS) * OPERATIONS * (3 if train else 1)
    if path == "head by head":
        moved += 4 * s.pairs * (9 if train else 4)
        launches = math.ceil(s.n / HEAD_ROWS) * s.heads * OPERATIONS * (2 if train else 1)
    return Cost(s.pairs * products * 2 * width, moved, launches, atomics, half, fused)


def least_seconds(found: Cost, device: Device) -> float:
    """The time that a call takes at least: its arithmetic and memory, or its launches if longer."""
    arithmetic = found.operations / (device.half if found.in_half else device.full)
    memory = found.bytes / device.memory
    work = max(arithmetic, memory) if found.fused else arithmetic + memory
    return max(work, found.launches * LAUNCH)
