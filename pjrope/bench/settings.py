"""What a benchmark measures: sections, sizes, and how long each comparison may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..experiments.engine.plain_json import ExperimentError

__all__ = ["FULL", "QUICK", "SECTIONS", "Settings", "at_lengths", "chosen_sections", "on_cuda"]

SECTIONS = {
    "forward": "attention without gradients",
    "backward": "attention, forward and backward, every position parameter training",
    "rotate": "rotary channels alone",
    "decode": "one token behind a KV cache, in an attention layer",
    "memory": "peak memory of a process, beyond that of its imports",
    "training": "training steps of the byte model",
    "evaluation": "loss of one long sequence of the byte model",
}
DEVICES = ("cpu", "cuda")
LEAST_N = 16


@dataclass(frozen=True)
class Settings:
    """Sizes of a benchmark; JSON-able.

    Attributes:
        device: "cpu" or "cuda".
        dtype: of q, k and v, a name in torch.
        threads: of torch.
        batch: B of the attention sections.
        heads: H.
        head_dim: D.
        other_dims: further D of forward and backward.
        length: L of the kernels, tokens.
        lengths: N of forward, backward and rotate.
        cached: tokens in the cache of decode.
        memory: N of memory.
        training: (N, B) of training.
        steps: training steps that are timed as one.
        evaluated: N of evaluation.
        kernels: our kernels, by the names in ``pjrope.bench.cases.KERNELS``.
        flex: also compile FlexAttention, which takes most of a minute on a CPU.
        per_pair: also evaluate kernels at every pair, which takes a hundred times as long.
        limit_bytes: a peer that needs more for its N x N tensors is skipped.
        budget: seconds for the pairs of one comparison.
        least_pairs: pairs even when the budget is too small.
        most_pairs: pairs even when the budget allows more.
        least_seconds: a shorter call is repeated within one reading of the clock.
    """

    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    batch: int = 1
    heads: int = 4
    head_dim: int = 32
    other_dims: tuple[int, ...] = ()
    length: int = 1024
    lengths: tuple[int, ...] = (1024, 4096, 8192)
    cached: tuple[int, ...] = (1024, 8192, 32768)
    memory: tuple[int, ...] = (32768,)
    training: tuple[tuple[int, int], ...] = ((256, 16), (1024, 4))
    steps: int = 2
    evaluated: tuple[int, ...] = (32768,)
    kernels: tuple[str, ...] = ("alibi", "affine", "fj_affine", "full", "rope", "jordan")
    flex: bool = False
    per_pair: bool = True
    limit_bytes: float = 2e9
    budget: float = 6.0
    least_pairs: int = 3
    most_pairs: int = 25
    least_seconds: float = 0.005

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise ExperimentError(f"device {self.device!r}: choose from {', '.join(DEVICES)}")
        if self.threads < 1:
            raise ExperimentError(f"threads {self.threads}: give an integer >= 1")
        sizes = [*self.lengths, *self.cached, *self.memory, *self.evaluated]
        sizes += [n for n, _ in self.training]
        if too_short := [n for n in sizes if n < LEAST_N]:
            raise ExperimentError(f"length {too_short[0]}: give at least {LEAST_N} tokens")

    def to_json(self) -> dict[str, Any]:
        """The settings as plain values; runs without further channels keep the id they had."""
        found = asdict(self)
        return found if self.other_dims else {k: v for k, v in found.items() if k != "other_dims"}


FULL = Settings()
QUICK = Settings(
    lengths=(1024, 4096),
    cached=(1024, 8192),
    memory=(4096,),
    training=((1024, 2),),
    steps=1,
    evaluated=(4096,),
    kernels=("fj_affine", "full", "rope", "jordan"),
    per_pair=False,
    limit_bytes=5e8,
    budget=0.25,
    most_pairs=9,
)


def at_lengths(settings: Settings, lengths: Sequence[int]) -> Settings:
    """The settings with every section at these lengths; batches of training keep 4096 tokens."""
    ns = tuple(sorted(set(lengths)))
    training = tuple((n, max(1, 4096 // n)) for n in ns if n > 0)
    return replace(settings, lengths=ns, cached=ns, memory=ns, evaluated=ns, training=training)


def on_cuda(settings: Settings, *, chosen_lengths: bool = False) -> Settings:
    """The settings for a GPU: bf16, long sequences unless lengths were chosen, FlexAttention.

    Meant to end within eight minutes, which no GPU has confirmed yet.
    """
    sized = settings
    if not chosen_lengths:
        sized = replace(
            settings,
            heads=8,
            head_dim=64,
            other_dims=(128,),
            lengths=(1024, 4096, 16384, 65536),
            cached=(8192, 65536),
            memory=(32768,),
            training=((1024, 16),),
            kernels=("fj_affine", "full", "t5", "rope"),
            per_pair=False,
        )
    return replace(
        sized,
        device="cuda",
        dtype="bfloat16",
        flex=True,
        limit_bytes=4e10,
        budget=min(settings.budget, 1.0),
    )


def chosen_sections(only: Sequence[str]) -> list[str]:
    """The sections to run, in their order; all of them if none is named.

    Raises:
        ExperimentError: an unknown section.
    """
    for name in only:
        if name not in SECTIONS:
            raise ExperimentError(f"no section {name!r}; choose from: {', '.join(SECTIONS)}")
    return [name for name in SECTIONS if not only or name in only]
