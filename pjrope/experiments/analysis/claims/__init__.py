"""Claims of both papers, verdicts on them, and the rules that lead from rows to verdicts.

An experiment says which of its rules speaks to which claim, and `pjrope show`, `pjrope ledger`, the
README and the chapters draw their words from that::

    from ..analysis.claims import Evidence, Scale, Verdict, exclude, gap, superiority, COIN

    def claim_k4(result: Result) -> Verdict:
        result, out = exclude(result, lambda row: row["train_loss"] > COIN,
                              "training loss above a coin's 0.693")
        here = result.where(times=8)
        lead = {m: gap(here, "accuracy", method="stabilized", baseline=m)
                for m in ("rope", "direct_sum", "rope_trunc", "direct_sum_grid")}
        return superiority(
            "J-K4",
            published=[lead["rope"], lead["direct_sum"]],
            controls=[lead["rope_trunc"], lead["direct_sum_grid"]],
            evidence=Evidence(scale=Scale.of(result), excluded=(out,)),
        )

    EXPERIMENT = Experiment(..., verdicts={"J-K4": claim_k4})

A rule of another shape returns ``Verdict(id, outcome, because, Evidence(findings, scale, seeds))``
with findings from `gap` (a paired difference) and `measured` (a value), corrected together by `holm`,
and judges by ``finding.word``. Where it cannot judge it returns `undecided` or `not_tested`, with the
reason. A rule makes no sentence: `sentence` is the one place where a verdict becomes text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...engine.plain_json import ExperimentError
from .aggregate import combine
from .jordan import JORDAN
from .paper_claim import PaperClaim, Scale
from .pj_kernels import PJ_KERNELS
from .pj_lightcone import PJ_LIGHTCONE
from .pj_models import PJ_MODELS
from .rules import (
    COIN,
    SMALLEST_EFFECT,
    exclude,
    gap,
    holm,
    measured,
    not_tested,
    seeds_needed,
    superiority,
    undecided,
)
from .verdict import OUTCOMES, Evidence, Excluded, Finding, Outcome, Verdict, sentence

__all__ = [
    "CLAIMS",
    "COIN",
    "JORDAN",
    "OUTCOMES",
    "PJ",
    "SMALLEST_EFFECT",
    "Evidence",
    "Excluded",
    "Finding",
    "Outcome",
    "PaperClaim",
    "Scale",
    "Verdict",
    "claim",
    "combine",
    "exclude",
    "gap",
    "holm",
    "measured",
    "not_tested",
    "seeds_needed",
    "sentence",
    "superiority",
    "undecided",
]

PJ: tuple[PaperClaim, ...] = (*PJ_KERNELS, *PJ_MODELS, *PJ_LIGHTCONE)
CLAIMS: Mapping[str, PaperClaim] = MappingProxyType({c.id: c for c in (*JORDAN, *PJ)})


def claim(id: str) -> PaperClaim:
    """Return a claim by id.

    Raises:
        ExperimentError: for an unknown id; the message lists the known ones.
    """
    if id not in CLAIMS:
        raise ExperimentError(f"no claim {id!r}; choose from: {', '.join(CLAIMS)}")
    return CLAIMS[id]
