"""Values of a kernel, by whatever door they come in: fixed ones stay the spec's, none stay narrow.

A position parameter in bf16 forgets the far lags: 2^-8 of a frequency is a whole turn after 1,600
radians. ``_apply`` keeps kernels wide when a model is cast; what is here does so for loading, assigned
tensors, sharding and mixed-precision wrappers, and code of the user.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ._values import keep_wide

NARROW = (torch.float16, torch.bfloat16)


class KeptWide(nn.Module):
    """Parameters are read in fp32 or better, and fixed values are those of the spec."""

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if isinstance(value, Tensor) and value.dtype in NARROW:
            return self._fixed(name, value.device) if name in self._buffers else value.float()
        return value

    def _apply(self, fn: Any, recurse: bool = True) -> KeptWide:
        """Move with the model, but never below fp32."""
        return super()._apply(lambda t: keep_wide(fn, t), recurse)

    def _fixed(self, name: str, device: torch.device) -> Tensor:
        """A fixed value made anew from the spec, and kept; its own where no spec makes it."""
        made, own = self._made_anew(name), self._buffers[name]
        value = own if made is None else made
        assert value is not None  # who asks has seen one
        value = value.float() if value.dtype in NARROW else value
        kept = self._buffers[name] = value if value.is_meta else value.to(device)
        return kept

    def _made_anew(self, name: str) -> Tensor | None:
        """The value that the spec gives; None for a class of the user that its spec does not build."""
        kind: Any = type(self)  # not by name: no registry may know it
        arguments = {key: value for key, value in self.spec.items() if key != "kernel"}
        try:
            with torch.device("cpu"):
                return kind.from_arguments(arguments)._buffers.get(name)
        except (TypeError, ValueError):
            return None

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        """Verify fixed values against the spec and widen the others, then load as usual."""
        errors = rest[-1]
        for name, own in (*self._buffers.items(), *self._parameters.items()):
            given = state_dict.get(prefix + name)
            if own is None or not isinstance(given, Tensor) or not given.is_floating_point():
                continue
            if name in self._parameters:
                state_dict[prefix + name] = given.float() if given.dtype in NARROW else given
                continue
            # Made anew: after to_empty() the kernel's own buffer holds whatever memory held.
            fixed = self._fixed(name, given.device if own.is_meta else own.device)
            if fixed.is_meta:  # nothing says what it must be
                continue
            if (found := _differing(given, fixed)) is not None:
                errors.append(
                    f"{prefix}{name} is {found} in this {type(self).__name__}, which does not train "
                    "it: build the kernel from the spec that was saved with it, "
                    "kernel_from_spec(spec)"
                )
            state_dict[prefix + name] = fixed.clone()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def _differing(given: Tensor, fixed: Tensor) -> str | None:
    """Where values differ by more than the rounding of the type they come in, and how; else None."""
    if given.is_meta:
        return None
    if given.shape != fixed.shape:
        return f"of shape {tuple(given.shape)} in this state_dict, {tuple(fixed.shape)}"
    rounding = 4 * max(torch.finfo(given.dtype).eps, torch.finfo(fixed.dtype).eps)
    least = torch.finfo(torch.float16).tiny if given.dtype == torch.float16 else 0.0
    given, fixed = (x.detach().cpu().double().flatten() for x in (given, fixed))
    apart = ~torch.isclose(given, fixed, rtol=rounding, atol=least)
    if not bool(apart.any()):
        return None
    first = int(apart.nonzero()[0])
    return f"{float(given[first]):g} in this state_dict, {float(fixed[first]):g}"
