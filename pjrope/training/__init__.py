"""Training: one plain loop, checkpoints that resume to the bit, evaluation by length."""

from .checkpoints import CheckpointError, load_model, save_model
from .config import TrainConfig
from .evaluation import evaluate, token_losses
from .loop import TrainResult, train
from .processes import join_processes
from .seeding import stream

__all__ = [
    "CheckpointError",
    "TrainConfig",
    "TrainResult",
    "evaluate",
    "join_processes",
    "load_model",
    "save_model",
    "stream",
    "token_losses",
    "train",
]
