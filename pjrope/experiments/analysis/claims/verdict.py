"""What an experiment says about a claim: an outcome, why, and the numbers it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from ...engine.plain_json import ExperimentError
from ..statistics import Summary, Word, shown
from ..student import t_cdf, t_quantile
from .paper_claim import UNKNOWN, PaperClaim, Scale

__all__ = ["OUTCOMES", "Evidence", "Excluded", "Finding", "Outcome", "Verdict", "sentence"]

Outcome = Literal[
    "reproduced",
    "reproduced in part",
    "not at this scale",
    "contradicted",
    "undecided",
    "not tested",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Finding:
    """A named number with its interval: a difference between methods, or a plain value.

    Args:
        name: what was measured, such as "stabilized - rope_trunc, accuracy at 8 L".
        summary: mean, interval and seeds; a single exact number has no interval.
        smallest: smallest difference worth telling; None for a plain value.
        better: the direction that is good.
        level: of the interval in `summary`, 0.95 or what Holm's rule asks for.
        digits: digits after the point when shown.
        form: "fixed" or "scientific".
    """

    name: str
    summary: Summary
    smallest: float | None = None
    better: Literal["lower", "higher"] = "higher"
    level: float = 0.95
    digits: int = 3
    form: str = "fixed"

    @property
    def word(self) -> Word | Literal[""]:
        """What a difference shows, by `pjrope.experiments.analysis.statistics.shown`."""
        if self.smallest is None:
            return ""
        return shown(self.summary, self.smallest, self.better)

    @property
    def p(self) -> float:
        """Two-sided p of Student's t for a mean of 0; 1 where there is no interval."""
        s = self.summary
        if s.mean is None or s.low is None or s.high is None:
            return 1.0
        half = (s.high - s.low) / 2
        if half == 0:
            return float(s.mean == 0)
        error = half / t_quantile(0.5 + self.level / 2, s.n - 1)
        return 2 * (1 - t_cdf(abs(s.mean) / error, s.n - 1))

    def at(self, level: float) -> Finding:
        """Return the same finding with its interval at another level."""
        s = self.summary
        if s.mean is None or s.low is None or s.high is None:
            return self
        was, now = (t_quantile(0.5 + x / 2, s.n - 1) for x in (self.level, level))
        half = (s.high - s.low) / 2 * now / was
        wider = Summary(s.mean, s.mean - half, s.mean + half, s.n, s.missing)
        return Finding(self.name, wider, self.smallest, self.better, level, self.digits, self.form)

    def text(self) -> str:
        """Return "name +0.125 ± 0.049 (better)"."""
        s = self.summary
        if s.n == 1 and s.mean is not None:
            sign, kind = ("+" if self.smallest is not None else ""), "ef"[self.form == "fixed"]
            number = f"{s.mean:{sign}z.{self.digits}{kind}}"
        else:
            number = s.text(self.digits, sign=self.smallest is not None, form=self.form)
        return f"{self.name} {number}" + (f" ({self.word})" if self.word else "")


@dataclass(frozen=True)
class Excluded:
    """Runs that a rule, stated beforehand, takes out: untrained or unfitted ones.

    Args:
        rule: such as "training loss above a coin's 0.693".
        runs: their names.
        of: how many runs there were.
    """

    rule: str
    runs: tuple[str, ...]
    of: int

    def text(self) -> str:
        shown = ", ".join(self.runs[:5]) + (", …" if len(self.runs) > 5 else "")
        return f"excluded {len(self.runs)} of {self.of} runs ({self.rule})" + (
            f": {shown}" if self.runs else ""
        )


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on.

    Args:
        findings: differences and values with their intervals.
        scale: ours; the paper's stands in the claim.
        seeds: how many; 1 for a deterministic experiment.
        excluded: runs left out, by rule.
    """

    findings: tuple[Finding, ...] = ()
    scale: Scale = UNKNOWN
    seeds: int = 0
    excluded: tuple[Excluded, ...] = ()

    def text(self) -> str:
        """Findings and exclusions in one line; intervals of another level say so."""
        parts = [finding.text() for finding in self.findings]
        if levels := {f.level for f in self.findings if f.level != 0.95}:
            span = " to ".join(f"{100 * x:.4g} %" for x in sorted({min(levels), max(levels)}))
            parts.append(f"intervals at the {span} level by Holm's rule")
        return "; ".join([*parts, *(e.text() for e in self.excluded if e.runs)])


@dataclass(frozen=True)
class Verdict:
    """An outcome for one claim, from one experiment or from several.

    Args:
        claim: id of a `PaperClaim`.
        outcome: one of `OUTCOMES`.
        because: the reason in a few words, without a full stop; "undecided" says what is missing
            (seeds and how many would do, untrained runs), "not tested" which control or record.
        evidence: what it rests on; may be empty only for "undecided" and "not tested".

    Raises:
        ExperimentError: for an unknown outcome, no reason, or an outcome that rests on nothing.
    """

    claim: str
    outcome: Outcome
    because: str
    evidence: Evidence = field(default_factory=Evidence)

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            allowed = ", ".join(OUTCOMES)
            raise ExperimentError(f"{self.claim}: outcome {self.outcome!r}; allowed: {allowed}")
        if not self.because:
            raise ExperimentError(f"{self.claim}, {self.outcome}: give the reason in because=")
        if not self.evidence.findings and self.outcome not in ("undecided", "not tested"):
            raise ExperimentError(f"{self.claim}, {self.outcome}: name the findings it rests on")


def sentence(verdict: Verdict, claim: PaperClaim | None = None, rests: bool = True) -> str:
    """Say a verdict in words; the only place where one becomes text.

    Args:
        verdict: from a rule, or from several by aggregation.
        claim: with it, the gap between the paper's scale and ours is named too.
        rests: whether to name the numbers that it rests on, and the scale.

    Returns:
        "P-L3, undecided: because. Rests on: … . Scale: …; 5 seeds."
    """
    told = f"{verdict.claim}, {verdict.outcome}: {verdict.because}."
    if not rests:
        return told
    evidence = verdict.evidence
    if numbers := evidence.text():
        told += f" Rests on: {numbers}."
    facts = []
    if claim and (gap := evidence.scale.beside(claim.scale)):
        facts.append(gap)
    if evidence.seeds > 1:
        facts.append(f"{evidence.seeds} seeds")
    return told + (f" Scale: {'; '.join(facts)}." if facts else "")


def seeds_of(findings: Iterable[Finding]) -> int:
    """The fewest seeds that any finding rests on."""
    return min((finding.summary.n for finding in findings), default=0)
