"""RoPE: every pair of channels turns by position times frequency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..conventions import phase_dtype, wide
from ..positions import coordinates
from ..positions.extensions import Extension, extension_from_spec
from ..positions.frequencies import geometric
from ._values import check_length, constant, positions_of, with_trained_omega
from .base import Claims, K, PositionKernel, Q
from .characteristic import Root, merge_roots, turning_roots
from .growth import STEADY
from .layouts import turned_pairs
from .rope_checks import check_coordinate, check_extension, check_pairs, checked_ladder


class RoPE(PositionKernel):
    """Rotary position embedding, ``z_k -> e^{i omega_k p} z_k`` on complex channel pairs.

    The score of query i and key j is ``Re sum_k conj(q_k) k_k e^{-i omega_k (i-j)}``: positions
    enter through the lag alone.

    Args:
        head_dim: D, even.
        base: of the ladder ``omega_k = base^(-2k/D)``.
        omega: ``(rotary_dim/2,)`` radians per token, replaces the ladder; an ``nn.Parameter``
            stays one and trains.
        layout: "interleaved" pairs channels (2k, 2k+1); "half" pairs (k, k + D/2), as Hugging
            Face models do.
        rotary_dim: rotate only the first so many channels, default all.
        extension: :class:`NTK`, :class:`PI`, :class:`YaRN`, :class:`~pjrope.positions.Llama3` or
            :class:`~pjrope.positions.LongRoPE`, to run past the training length.
        coordinate: "linear", or "lightcone", which turns by ``omega L asinh(p/L)``.
        length: L, tokens, of the light-cone coordinate.

    Raises:
        ValueError: odd or too large dimensions, an unknown layout or coordinate, a ladder of the
            wrong size, a light cone without length.

    Limits: phases are computed in fp64; a float32 ladder given as ``omega`` still carries its own
    rounding, which shifts frequencies but not the relative law. Dynamic extensions are neither
    relative nor length-free. Light-cone phases belong to the position, not to the lag: the kernel is
    not relative, and a pair's score changes as it moves along the text.

    Reference: Su and others, RoFormer, equation 15. Chapter: ch-rope.
    """

    growth = STEADY
    head_dim: int
    omega: Tensor

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10_000.0,
        omega: Tensor | None = None,
        layout: str = "interleaved",
        rotary_dim: int | None = None,
        extension: Extension | None = None,
        coordinate: str = "linear",
        length: float | None = None,
    ) -> None:
        rotary_dim = head_dim if rotary_dim is None else rotary_dim
        check_pairs(head_dim, rotary_dim, layout)
        check_coordinate(coordinate, length)
        ladder = checked_ladder(geometric(rotary_dim, base) if omega is None else omega, rotary_dim)
        trained = isinstance(omega, nn.Parameter)
        check_extension(extension, ladder, trained)
        super().__init__(
            head_dim=head_dim,
            base=base,
            omega=None if omega is None else ladder.detach().tolist(),
            layout=layout,
            rotary_dim=rotary_dim,
            extension=None if extension is None else extension.spec,
            trained=str(ladder.dtype).removeprefix("torch.") if trained else None,
            coordinate=coordinate,
            length=None if length is None else check_length(length),
        )
        self.head_dim, self.rotary_dim = head_dim, rotary_dim
        self.layout, self.extension = layout, extension
        self.coordinate, self.length = coordinate, length
        if isinstance(ladder, nn.Parameter):
            self.omega = ladder
        else:
            self.register_buffer("omega", constant(ladder))

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> RoPE:
        arguments = with_trained_omega(arguments)
        arguments["extension"] = extension_from_spec(arguments.get("extension"))
        return cls(**arguments).to(torch.get_default_device())

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, layer_type: str | None = None, layout: str | None = None
    ) -> RoPE:
        """The rotary embedding of a released model, from its Hugging Face ``config.json``.

        Args:
            config: the dictionary, or an object with ``to_dict()``.
            layer_type: where layers differ, for instance "full_attention".
            layout: replaces the pairing of channels that the model type implies.

        Raises:
            ValueError: settings that are missing, unknown or not rotary, by name.

        Reference: :func:`pjrope.kernels.released.rotary_settings` says what is read.
        """
        from .released import rotary_settings

        settings = rotary_settings(config, layer_type=layer_type)
        return cls(**(settings if layout is None else settings | {"layout": layout}))

    @property
    def claims(self) -> Claims:
        dynamic = self.extension is not None and self.extension.dynamic
        warm = self.extension is not None and self.extension.temperature(2.0) != 1.0
        bent = self.coordinate == "lightcone"
        return Claims(
            relative=not (dynamic or bent),
            finite_rank=not (dynamic or bent),
            length_free=not dynamic,
            identity_at_zero=not warm,
            norm_preserving=not warm,
        )

    def frequencies(self, *positions: Tensor | None) -> tuple[Tensor, float | Tensor]:
        """The ladder in force for these positions and the factor on q and on k.

        Returns:
            ``(rotary_dim/2,)`` radians per token; a number, 1 without YaRN.
        """
        if self.extension is None:
            return self.omega, 1.0
        factor = self.extension.factor(*positions)
        omega = self.extension.frequencies(self.omega, factor, self.rotary_dim)
        return omega, self.extension.temperature(factor)

    def rotate(
        self,
        q: Q,
        k: K,
        q_pos: Tensor | None = None,
        k_pos: Tensor | None = None,
    ) -> tuple[Q, K]:
        q_pos = None if q is None else positions_of(q, q_pos, "q_pos")
        k_pos = None if k is None else positions_of(k, k_pos, "k_pos")
        omega, temperature = self.frequencies(q_pos, k_pos)

        def turned(x: Tensor, pos: Tensor | None, name: str) -> Tensor:
            return self._turn(x, positions_of(x, pos, name), omega, temperature)

        return (
            None if q is None else turned(q, q_pos, "q_pos"),
            None if k is None else turned(k, k_pos, "k_pos"),
        )

    def roots(self) -> list[list[Root]] | None:
        if not self.claims.relative:
            return None
        omega, _ = self.frequencies(None, None)
        found = turning_roots(omega.detach().tolist(), [0.0] * len(omega), 1)
        still = [Root(1)] if self.rotary_dim < self.head_dim else []  # channels that do not turn
        return [merge_roots(found, still)]

    def _turn(self, x: Tensor, pos: Tensor, omega: Tensor, temperature: float | Tensor) -> Tensor:
        if x.shape[-1] != self.head_dim:
            raise ValueError(f"{x.shape[-1]} channels, this RoPE was made for {self.head_dim}")
        real = phase_dtype(x.device)
        # `*`, not a matrix product: autocast would lower the latter to bf16.
        omega = omega if omega.ndim == 1 else omega[:, None]  # one ladder a row
        path = pos if self.length is None else coordinates.phase(pos, self.length)
        phase = path.to(real)[..., None] * omega.to(real)
        cos, sin = phase.cos().to(wide(x)), phase.sin().to(wide(x))
        if phase.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]
        turned, rest = x[..., : self.rotary_dim].to(wide(x)), x[..., self.rotary_dim :]
        turned = turned_pairs(turned, cos, sin, self.layout)
        changed = not self.claims.norm_preserving
        if changed:  # channels that do not turn keep their size, as in the code of released models
            if isinstance(temperature, Tensor) and temperature.ndim:
                temperature = temperature[:, None, None, None]
            turned = turned * temperature
        if rest.shape[-1]:
            turned = torch.cat([turned, rest.to(turned.dtype)], dim=-1)
        # In fp32 or better where norms change, as of all kernels that do so.
        return turned if changed else turned.to(x.dtype)
