"""The sentences of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping

from .arms import ARMS, CODE, NAMES, SINGLES, UNION
from .evidence import Evidence, Interval

__all__ = ["because", "headline", "still_open"]

SEEN = 0.01  # nats per token: a rise worth a sentence


def first(name: str) -> str:
    """A name at the beginning of a sentence: "no position" as "No position", RoPE as it is."""
    return name[0].upper() + name[1:]


def headline(kernel: str, leading: str, rivals: tuple[str, ...], falling: bool) -> str:
    """The recommendation, and the leading sector if there is one."""
    start = "For now, use" if falling else "Use"
    what = f"{start} {NAMES[kernel]}, kernels.{CODE[kernel]}."
    if rivals:
        names = " and ".join(NAMES[s] for s in (leading, *rivals))
        return f"{what} Which sector the data use first cannot be told: {names} do equally well."
    if falling:
        return f"{what} Which sector the data use cannot be told before the loss is flat."
    return f"{what} The data use {NAMES[leading]} first."


def because(
    evidence: Evidence,
    leading: str,
    rivals: tuple[str, ...],
    chosen: tuple[str, float],
    gain: str,
    worth: str,
    matters: float,
) -> tuple[str, ...]:
    """What a verdict rests on; ``chosen`` is the recommended arm and how far it is behind the best."""
    kernel, behind = chosen
    said = [
        f"The best model is {gain} nats per token below the unigram entropy.",
        f"Position is worth {worth} nats per token at the training length.",
        f"{first(NAMES[kernel])}: {_distance(behind)} the best model, at the training length and at the "
        "longest.",
    ]
    for other in SINGLES:
        if other not in (leading, *rivals):
            lead = evidence.gap(other, leading, comparisons=len(SINGLES) - 1)
            said.append(_alone(NAMES[leading], NAMES[other], lead, matters))
    rise = {a: sum(evidence.loss(a, far=True)) - sum(evidence.loss(a)) for a in ARMS}
    worst = max(ARMS, key=lambda a: rise[a])
    if (mean := rise[worst] / len(evidence.unigram)) > SEEN:
        said.append(f"{first(NAMES[worst])}: the loss rises by {mean:.3f} at the longest length.")
    return tuple(said)


def _alone(leading: str, other: str, lead: Interval, matters: float) -> str:
    if lead.mean < 0:
        behind = lead.text(sign=False).removeprefix("-")
        return (
            f"Alone, {leading} is {behind} nats per token behind {other}. Less than "
            f"{matters:.3f} is little: the simpler one leads."
        )
    little = f" Less than {matters:.3f} is little: either would do."
    return (
        f"Alone, {leading} against {other}: {lead.text(sign=False)} nats per token less."
        + little * (lead.mean < matters)
    )


def _distance(behind: float) -> str:
    return "level with" if behind < 5e-4 else f"at most {behind:.3f} nats behind"


def still_open(
    evidence: Evidence,
    leading: str,
    rivals: tuple[str, ...],
    stable: Mapping[str, tuple[int, int]],
    falling: bool,
) -> tuple[str, ...]:
    """What would settle what is open; ``stable`` is the count of starts of each sector in doubt."""
    said = []
    if falling:
        share = min(1.0, evidence.falls[UNION] / max(evidence.learned, 1e-9))
        said.append(
            f"Twice the budget (--minutes): the second half of the training still brought {share:.0%} of "
            "all that was learned."
        )
    for other in rivals:
        gap = evidence.gap(other, leading, comparisons=len(SINGLES) - 1)
        said.append(
            f"{first(NAMES[leading])} against {NAMES[other]}: {gap.text()} nats per token. A longer "
            "training, more held-out text or more seeds (--seeds) would separate them."
        )
    for sector, (some, all_of_them) in stable.items():
        said.append(
            f"Whether the union needs {NAMES[sector]}: leaving it out costs something in {some} of "
            f"{all_of_them} starts. More seeds would decide."
        )
    return tuple(said)
