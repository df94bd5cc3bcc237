"""What the trained experiments share: decoders, settings, training in a cell, exams by length."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ...diagnostics.views import attention_layers
from ...kernels import PositionKernel
from ...models import Decoder, DecoderConfig
from ...training import TrainConfig, stream, train
from ...training.evaluation import evaluating
from ...training.loop import Loss, Sampler, token_loss
from ..engine.spec import Cell, CellContext, Preset

TOKENS_PER_BATCH = 16_384

Exam = tuple[Tensor, Tensor]


def settings_of(length: int, training: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Settings that the grids share, with what one of them has otherwise.

    Args:
        length: L, tokens; exams are at 1, 2, 4 and 8 times it.
        training: ``steps batch lr`` and what differs from the common settings of training.
        changes: other settings. None, here and in ``training``, leaves a setting out.
    """
    common = {
        "weight_decay": 0.01,
        "clip": 1.0,
        # The Jordan-RoPE paper's shear is 0.1 tanh(h), with the rate of all else for h.
        "position_lr": 0.1,
        "checkpoint_every": 100,
    }
    found = {
        "layers": 2,
        "length": length,
        "lengths": [length, 2 * length, 4 * length, 8 * length],
        "sequences": 256,
        "training": {k: v for k, v in {**common, **training}.items() if v is not None},
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def presets(*sizes: Preset) -> dict[str, Preset]:
    """Presets by name."""
    return {preset.name: preset for preset in sizes}


def method_cells(preset: Preset, seeds: Sequence[int]) -> list[Cell]:
    """Every seed runs every one of the ``methods`` in the settings."""
    return [Cell({"method": m, "seed": s}) for s in seeds for m in preset.settings["methods"]]


def decoder(
    settings: Mapping[str, Any], kernel: PositionKernel, vocab: int, seed: int, **changes: Any
) -> Decoder:
    """A decoder with a narrow MLP; backbones of equal seeds are equal bit for bit.

    Args:
        settings: ``width heads layers length``.
        kernel: of every layer.
        vocab: tokens.
        seed: of the initial weights.
        changes: to the :class:`DecoderConfig`.
    """
    shape = {name: settings[name] for name in ("width", "heads", "layers", "length")}
    config = DecoderConfig(vocab=vocab, kernel=kernel.spec, **{**shape, "mlp_ratio": 2, **changes})
    return Decoder(config, seed=seed)


def parameters(settings: Mapping[str, Any], vocab: int) -> int:
    """How many numbers the backbone of :func:`decoder` learns, tied and without biases."""
    width = settings["width"]
    return width * (vocab + 1) + settings["layers"] * (8 * width**2 + 2 * width)


class LastToken(nn.Module):
    """A decoder's logits behind its last token, ``(B, N) -> (B, 1, answers)``.

    Args:
        decoder: a tied :class:`Decoder`.
        answers: the first so many tokens of the vocabulary are possible answers.
    """

    def __init__(self, decoder: Decoder, answers: int) -> None:
        super().__init__()
        self.decoder, self.answers = decoder, answers

    @property
    def config(self) -> DecoderConfig:
        return self.decoder.config

    @property
    def kernels(self) -> list[PositionKernel]:
        """The position kernel of each layer."""
        return [layer.kernel for layer in attention_layers(self.decoder)]

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.decoder(tokens, last_only=True)
        return logits[..., : self.answers]


def fit(
    model: nn.Module,
    sample: Sampler,
    cell: Cell,
    context: CellContext,
    *,
    loss: Loss = token_loss,
    resume: bool = True,
    **changes: Any,
) -> float:
    """Train a cell's model by the ``length`` and ``training`` of the settings.

    Args:
        model: on the context's device.
        sample: draws batches.
        cell: its seed draws everything.
        context: of the run.
        loss: what is minimised.
        resume: keep checkpoints, so that a killed cell goes on.
        changes: to the settings of training, for this cell alone.

    Returns:
        the last training loss in the log.
    """
    config = {"length": context.settings["length"], **context.settings["training"], **changes}
    done = train(
        model,
        sample,
        TrainConfig(**config),
        seed=cell.seed,
        out=context.workdir if resume else None,
        progress=context.progress,
        loss=loss,
    )
    return done.rows[-1]["loss"]


def exams(sample: Sampler, cell: Cell, settings: Mapping[str, Any]) -> dict[int, Exam]:
    """One exam of ``sequences`` at each of the ``lengths``, the same for all methods of a seed."""
    return {
        n: sample(stream(cell.seed, "exam", n), settings["sequences"], n)
        for n in settings["lengths"]
    }


def by_length(
    constant: Mapping[str, Any],
    exams: Mapping[int, Exam],
    length: int,
    score: Callable[[Tensor, Tensor], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """A row for each exam: what is constant, the length, its multiple of L, and the score."""
    return [
        {**constant, "length": n, "times": n // length, **score(*exam)} for n, exam in exams.items()
    ]


@torch.no_grad()
def outputs(model: nn.Module, inputs: Tensor) -> Tensor:
    """What a model makes of inputs, fp32 on the CPU, in batches of bounded size."""
    device = next(model.parameters()).device
    rows = max(1, TOKENS_PER_BATCH // inputs.shape[1])
    with evaluating(model):
        return torch.cat([model(part.to(device)).float().cpu() for part in inputs.split(rows)])


def examine(model: nn.Module, tokens: Tensor, labels: Tensor) -> dict[str, Any]:
    """Accuracy and loss of the answers.

    Args:
        model: ``(B, N)`` to ``(B, 1, answers)``.
        tokens: ``(n, N)`` int64.
        labels: ``(n, 1)`` int64.

    Returns:
        ``accuracy``, ``loss`` in nats, ``sequences`` n, and ``standard_error`` of the accuracy,
        ``sqrt(a (1 - a) / n)``.
    """
    logits = outputs(model, tokens)
    right = (logits.argmax(-1) == labels).double().mean().item()
    return {
        "accuracy": right,
        "loss": float(cross_entropy(logits.double().flatten(0, 1), labels.flatten())),
        "sequences": len(tokens),
        "standard_error": math.sqrt(right * (1 - right) / len(tokens)),
    }
