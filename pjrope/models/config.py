"""The shape of a decoder: one frozen, JSON-able object."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

from torch import nn

from ..kernels.base import PositionKernel, kernel_from_spec

NORMS = {"rms": nn.RMSNorm, "layer": nn.LayerNorm}


@dataclass(frozen=True)
class DecoderConfig:
    """Shape of a :class:`Decoder`; JSON-able.

    Attributes:
        vocab: number of tokens.
        width: channels of the residual stream.
        layers: blocks.
        heads: query heads.
        length: L, the training length in tokens.
        mlp_ratio: hidden channels of the MLP over width.
        norm: "rms" or "layer".
        tied: one matrix for embedding and head.
        bias: biases in projections, MLP and head.
        kernel: spec of the position kernel of every layer, None for no position; or a list with
            one spec or None for each layer.
        shared_kernel: all layers have one kernel, and its parameters, in common.
        logit_scale: each head learns a factor on ``q . k``, 1 at the start; biases are not scaled.
        kv_heads: key and value heads, default ``heads``.
        window: how many of the last tokens a token sees, itself included; or a list with one number
            or None, all of them, for each layer.
        short_conv: tokens that a causal depthwise convolution before attention sees, 0 for none.
        token_shift: mix each channel with the token before, ahead of attention.
    """

    vocab: int
    width: int
    layers: int
    heads: int
    length: int
    mlp_ratio: float = 4.0
    norm: str = "rms"
    tied: bool = True
    bias: bool = False
    kernel: dict[str, Any] | list[dict[str, Any] | None] | None = None
    kv_heads: int | None = None
    short_conv: int = 0
    token_shift: bool = False
    shared_kernel: bool = False
    logit_scale: bool = False
    window: int | list[int | None] | None = None

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ValueError(f"norm is {self.norm!r}, known are {sorted(NORMS)}")
        for name in ("vocab", "width", "layers", "heads", "length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, at least 1 is needed")
        if self.short_conv < 0:
            raise ValueError(f"short_conv is {self.short_conv}, a number of tokens or 0 is needed")
        if isinstance(self.window, list) and len(self.window) != self.layers:
            raise ValueError(
                f"window lists {len(self.window)} numbers for {self.layers} layers: give one number "
                "or None for each, or a single one for all"
            )
        if isinstance(self.kernel, list):
            if len(self.kernel) != self.layers:
                raise ValueError(
                    f"kernel lists {len(self.kernel)} specs for {self.layers} layers: give one spec "
                    "or None for each, or a single spec for all"
                )
            if self.shared_kernel:
                raise ValueError("shared_kernel=True needs a single spec, kernel lists several")

    def to_json(self) -> dict[str, Any]:
        """The configuration as plain JSON values; options that are off are left out."""
        off: dict[str, Any] = dict.fromkeys(
            ("short_conv", "token_shift", "shared_kernel", "logit_scale"), False
        )
        off["window"] = None
        return {k: v for k, v in asdict(self).items() if k not in off or v != off[k]}

    def windows(self) -> list[int | None]:
        """The window of each layer."""
        return self.window if isinstance(self.window, list) else [self.window] * self.layers

    def kernels(self) -> list[PositionKernel]:
        """A new kernel for each layer, or one and the same for all."""
        if self.shared_kernel:
            return [kernel_from_spec(cast(dict, self.kernel))] * self.layers
        specs = self.kernel if isinstance(self.kernel, list) else [self.kernel] * self.layers
        return [kernel_from_spec(spec) for spec in specs]
