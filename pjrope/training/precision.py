"""Number types of training: which one a device takes, and what goes with it."""

from __future__ import annotations

import os

import torch

PRECISIONS = ("auto", "fp32", "bf16", "fp16")
VARIABLE = "PJROPE_PRECISION"  # what "auto" means in this process and those it starts
_NUMBERS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def resolve_precision(precision: str, device: torch.device | str) -> str:
    """The number type of a training: "fp32", "bf16" or "fp16".

    Args:
        precision: one of these, or "auto": what the environment variable PJROPE_PRECISION says,
            else bf16 on a GPU with compute capability 8.0 or more, fp16 on an older one such as a
            T4, fp32 on a CPU.
        device: where the model is.

    Raises:
        ValueError: an unknown name.
    """
    chosen = os.environ.get(VARIABLE, "auto") if precision == "auto" else precision
    if chosen not in PRECISIONS:
        raise ValueError(f"precision is {chosen!r}: choose from {', '.join(PRECISIONS)}")
    if chosen != "auto":
        return chosen
    device = torch.device(device)
    if device.type != "cuda":
        return "fp32"
    return "bf16" if torch.cuda.get_device_capability(device) >= (8, 0) else "fp16"


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """The context in which a model runs; positions stay in fp32 and fp64, as kernels have them."""
    number = _NUMBERS.get(precision)
    return torch.autocast(device.type, dtype=number, enabled=number is not None)


def scaler_of(precision: str, device: torch.device) -> torch.amp.GradScaler:
    """Keeps small gradients within reach of fp16; does nothing for other types."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
