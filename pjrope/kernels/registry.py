"""Kernels by name, so that a spec finds the class that wrote it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import PositionKernel

KNOWN: dict[str, type[PositionKernel]] = {}


def remember(cls: type[PositionKernel]) -> None:
    """Let specs find this class.

    Raises:
        ValueError: a name that a class of another module has.
    """
    known = KNOWN.get(cls.__name__)
    if known is not None and known.__module__ != cls.__module__:
        raise ValueError(
            f"a kernel named {cls.__name__!r} exists in {known.__module__}: specs are read by "
            "name, so choose another, or pass register=False in the class statement"
        )
    KNOWN[cls.__name__] = cls


def kernel_from_spec(spec: dict[str, Any] | None) -> PositionKernel:
    """The kernel that wrote ``spec`` (None gives :class:`~pjrope.kernels.nope.NoPE`).

    Args:
        spec: dict with the key "kernel" and the constructor's arguments, as JSON.

    Raises:
        ValueError: an unknown kernel name, or arguments the kernel does not take.
    """
    if spec is not None and not isinstance(spec, dict):
        raise ValueError(f"a kernel's spec is a dict, as kernel.spec gives it, not {spec!r}")
    spec = {"kernel": "NoPE"} if spec is None else copy.deepcopy(spec)
    name = spec.pop("kernel", None)
    if name not in KNOWN:
        raise ValueError(f"kernel {name!r} is not known: there are {sorted(KNOWN)}")
    try:
        return KNOWN[name].from_arguments(spec)
    except TypeError as error:
        raise ValueError(f"spec of {name} does not fit: {error}") from error
