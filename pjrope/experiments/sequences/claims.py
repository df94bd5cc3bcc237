"""Claims J-K2, J-K4 and J-K5: rules that lead from rows to verdicts.

A run is disqualified where it learned nothing: its training loss lies above that of a coin, or its
R² at the training length is not above 0. The rules are written after the records they judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..analysis.claims import (
    COIN,
    Evidence,
    Excluded,
    Finding,
    Scale,
    Verdict,
    exclude,
    gap,
    holm,
    measured,
    not_tested,
    superiority,
)
from ..analysis.words import listed
from ..engine.result import Result
from .training import parameters

COUPLED = "stabilized"
PUBLISHED = ("rope", "direct_sum")  # what the paper compares with
CONTROLS = ("rope_trunc", "direct_sum_grid")  # what it lacks
RIVALS = (*PUBLISHED, *CONTROLS)
# Below a shear of 1 over L the coupled term of a logit is smaller than the plain one.
MINIMAL_SHEAR = 1.0
MINIMAL_SEEDS = 3
PAPERS_LEAD = 0.906 - 0.781  # stabilized over RoPE, at 8 L
JETS = {"scaled_high_jet_r2": 2, "scaled_high_jet_r3": 3}  # target → power r
DAMPED = "order1_damped"


def trained(result: Result, *run: str) -> tuple[Result, Excluded]:
    """Take out the runs whose training loss ended above that of a coin.

    Args:
        result: runs that can learn, with ``train_loss``.
        run: fields that name a run besides method and seed.
    """
    rule = "training loss above a coin's 0.693"
    return exclude(
        result, lambda row: row.get("train_loss", 0.0) > COIN, rule, (*run, "method", "seed")
    )


def leads(
    result: Result, value: str, ours: str, rivals: Iterable[str], suffix: str = "", **where: Any
) -> list[Finding]:
    """Differences of one method to those rivals that share at least three seeds with it.

    Args:
        result: rows.
        value: field compared, an accuracy or an R².
        ours, rivals: methods.
        suffix: of the names.
        where: fields that pick a row a seed.
    """
    rows = result.where(**where)
    seeds = {m: {row["seed"] for row in rows.where(method=m).rows} for m in (ours, *rivals)}
    return [
        gap(rows, value, method=ours, baseline=m, name=f"{ours} - {m}{suffix}")
        for m in rivals
        if len(seeds[ours] & seeds[m]) >= MINIMAL_SEEDS
    ]


def scale_of(result: Result, vocab: int = 3) -> Scale:
    """Our scale, with the parameters of the backbone."""
    return Scale.of(result, parameters=parameters(result.card["settings"], vocab))


def claim_k4(result: Result) -> Verdict:
    """Does the coupled mode beat the baselines and the controls at the longest exam?

    Where its learned shear over L stays below 1 the coupling is hardly applied, and the claim is not
    tested; the reason then says what the differences do show.
    """
    kept, out = trained(result.where(method=[COUPLED, *RIVALS]))
    longest = max((row["times"] for row in kept.rows), default=0)
    found = leads(kept, "accuracy", COUPLED, RIVALS, times=longest)
    shears = [row["shear"] for row in kept.where(method=COUPLED, times=1).rows]
    if not shears:
        return not_tested("J-K4", f"no trained run of the coupled mode ({COUPLED})", result)
    shear = measured("learned shear over L", shears)
    causes = [
        *leads(kept, "accuracy", "rope_trunc", ["rope"], times=longest),
        *leads(kept, "accuracy", "direct_sum_grid", ["direct_sum"], times=longest),
    ]
    evidence = Evidence((shear, *causes), scale_of(result), excluded=(out,))
    known = {f.name.removeprefix(f"{COUPLED} - "): f for f in found}
    if missing := [m for m in RIVALS if m not in known]:
        reason = f"fewer than {MINIMAL_SEEDS} trained seeds, or none, of {listed(missing)}"
        return _not_applied(reason, found, evidence)
    if (shear.summary.mean or 0.0) < MINIMAL_SHEAR:
        size = f"{shear.summary.mean:.3f}"
        reason = f"the learned shear over L is {size}, and below 1 the coupling is hardly applied"
        return _not_applied("; ".join([reason, *_can_be_said(known)]), found, evidence)
    published, controls = ([known[m] for m in group] for group in (PUBLISHED, CONTROLS))
    return superiority("J-K4", published, controls, evidence=evidence)


def _not_applied(because: str, found: Sequence[Finding], evidence: Evidence) -> Verdict:
    findings = (*holm(found), *evidence.findings)
    seeds = min((f.summary.n for f in found), default=0)
    told = Evidence(findings, evidence.scale, seeds, evidence.excluded)
    if out := [run for e in evidence.excluded for run in e.runs]:
        because += f"; {listed(out)} never trained"
    return Verdict("J-K4", "not tested", because, told)


def _can_be_said(known: dict[str, Finding]) -> list[str]:
    """What differences show where the coupling itself was not put to the test."""
    said = []
    if known["rope_trunc"].word != "better":
        said.append("no gain over the truncated grid is shown")
    high = known["rope"].summary.high
    if high is not None and high < PAPERS_LEAD:
        said.append(f"the paper's +{PAPERS_LEAD:.3f} over RoPE is excluded at this scale")
    return said


def claim_k5(result: Result) -> Verdict:
    """Does the order that has a target's jet beat every lower order at the longest exam?

    The damped twin without shear is what the paper compares with, the other orders are controls.
    """
    kept, out = trained(result, "target")
    longest = max((row["times"] for row in kept.rows), default=0)
    published: list[Finding] = []
    controls: list[Finding] = []
    for target, power in JETS.items():
        lower = ["order1", *(f"order{m}" for m in range(2, power + 1))]
        rivals, suffix = [DAMPED, *lower], f", r = {power}"
        ours, where = f"order{power + 1}", {"target": target, "times": longest}
        found = leads(kept.where(**where), "accuracy", ours, rivals, suffix)
        if len(found) < 1 + len(lower):
            return not_tested(
                "J-K5", "it takes three trained seeds of every order on both targets", result
            )
        published += found[:1]
        controls += found[1:]
    evidence = Evidence(scale=scale_of(result), excluded=(out,))
    return superiority("J-K5", published, controls, evidence=evidence)


def claim_k2(result: Result) -> Verdict:
    """Does a trained model with the coupled mode beat the others as a filter, in R² at 8 L?"""
    rule = "R² at the training length not above 0"
    kept, out = exclude(
        result.where(input="affine", method=[COUPLED, *RIVALS]),
        lambda row: row["times"] == 1 and row["r2"] <= 0,
        rule,
        ("target", "method", "seed"),
    )
    longest = max((row["times"] for row in kept.rows), default=0)
    targets = dict.fromkeys(row["target"] for row in kept.rows)
    found = {
        name: [
            f
            for t in targets
            for f in leads(kept, "r2", COUPLED, group, suffix=f", {t}", target=t, times=longest)
        ]
        for name, group in (("published", PUBLISHED), ("controls", CONTROLS))
    }
    if not targets or any(len(group) < 2 * len(targets) for group in found.values()):
        return not_tested("J-K2", "it takes three seeds of every method compared", result)
    shears = [row["shear"] for row in kept.where(method=COUPLED, times=1).rows]
    shear = measured("learned shear over L", shears)
    # A map in and a map out, each as large as an embedding of one token.
    evidence = Evidence((shear,), scale_of(result, vocab=2), excluded=(out,))
    return superiority("J-K2", found["published"], found["controls"], evidence=evidence)
