"""What learns at which rate: backbone, positions, gates, frequencies."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..kernels.base import PositionKernel
from .config import TrainConfig


def parameter_groups(model: nn.Module, config: TrainConfig) -> list[dict[str, Any]]:
    """AdamW groups: backbone, positions, gates, frequencies; the last three without decay.

    Each group carries ``factor``, what its learning rate is multiplied by.
    """
    position = {
        id(p): name
        for module in model.modules()
        if isinstance(module, PositionKernel)
        for name, p in module.position_parameters()
    }
    factors = {
        "backbone": 1.0,
        "position": config.position_lr,
        "gate": config.gate_lr,
        "omega": config.omega_lr,
    }
    members: dict[str, list[nn.Parameter]] = {name: [] for name in factors}
    for p in model.parameters():
        if p.requires_grad:
            members[_group(position.get(id(p)))].append(p)
    return [
        {
            "params": members[name],
            "factor": factor,
            "weight_decay": config.weight_decay if name == "backbone" else 0.0,
        }
        for name, factor in factors.items()
        if members[name]
    ]


def _group(name: str | None) -> str:
    if name is None:
        return "backbone"
    leaf = name.split(".")[-1]
    if leaf.endswith("omega"):
        return "omega"
    return "gate" if leaf.endswith(("gate_logits", "alpha_logits")) else "position"
