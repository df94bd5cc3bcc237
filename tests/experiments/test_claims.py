"""Claims, verdicts, and the helpers that rules are made of."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest

from pjrope import record
from pjrope.experiments import ExperimentError, Result, get, names
from pjrope.experiments.analysis.claims import (
    CLAIMS,
    COIN,
    JORDAN,
    OUTCOMES,
    PJ,
    Evidence,
    Scale,
    Verdict,
    claim,
    combine,
    exclude,
    gap,
    holm,
    measured,
    not_tested,
    seeds_needed,
    sentence,
    superiority,
    undecided,
)
from pjrope.experiments.analysis.student import t_quantile

CARD = {
    "settings": {"length": 128, "lengths": [128, 1024], "training": {"steps": 350}},
    "data": [{"name": "toy", "sha256": "00", "stand_in": True}],
}
WORDS = {
    "better": [0.2, 0.21, 0.19, 0.2, 0.2],
    "worse": [-0.2, -0.21, -0.19, -0.2, -0.2],
    "equal": [0.001, -0.001, 0.0, 0.002, -0.002],
    "unresolved": [0.4, -0.3, 0.2, -0.1, 0.1],
    "slightly better": [0.01, 0.04, 0.03, 0.02, 0.02],
}


OURS = [name for name in names() if not name.startswith("fake/")]


def made(ours, **others):
    """Rows with the accuracy .5 + x for "ours" in excess of each other method."""
    rows = []
    for seed, value in enumerate(ours):
        rows.append({"method": "ours", "seed": seed, "accuracy": value, "train_loss": 0.1})
    for method, values in others.items():
        for seed, value in enumerate(values):
            rows.append({"method": method, "seed": seed, "accuracy": value, "train_loss": 0.1})
    return Result(rows, CARD)


def lead(values, name="ours - rival"):
    rows = made(values, rival=[0.0] * len(values))
    return gap(rows, "accuracy", method="ours", baseline="rival", name=name)


def test_every_claim_of_both_papers_is_typed_once():
    assert len(CLAIMS) == len(JORDAN) + len(PJ)
    wanted = [f"J-K{n}" for n in range(1, 10)]
    for letter, count in {"K": 4, "G": 3, "S": 5, "L": 6, "M": 6, "F": 4, "X": 1, "R": 1}.items():
        wanted += [f"P-{letter}{n}" for n in range(1, count + 1)]
    wanted.remove("P-S4")
    assert {*wanted, "P-S4a", "P-S4b", "P-N1", "P-U1", "P-U2"} == set(CLAIMS)
    assert {c.paper for c in JORDAN} == {"Jordan-RoPE"} and {c.paper for c in PJ} == {"PJ-RoPE"}
    for one in CLAIMS.values():
        assert one.statement.endswith(".") and one.rule.endswith(".")
        assert one.needs, f"{one.id} names no control"
    with pytest.raises(ExperimentError, match="no claim 'J-K0'; choose from: J-K1"):
        claim("J-K0")
    with pytest.raises(ExperimentError, match="rule is empty"):
        type(JORDAN[0])("J-K1", "It holds.", "here", (), "", "before", "union")


def test_every_claim_id_of_an_experiment_exists():
    for name in OURS:
        unknown = set(get(name).claims) - set(CLAIMS)
        assert not unknown, f"{name} speaks of {unknown}"
        assert set(get(name).verdicts) <= set(get(name).claims)


def test_a_claim_without_a_test_says_why_and_one_with_a_test_does_not():
    tested = {name for name, _ in record.recorded()} & {*OURS}  # a grid without a record is a plan
    spoken = {c for name in tested for c in get(name).claims}
    assert {one.id for one in CLAIMS.values() if not one.untested} == spoken


@pytest.mark.parametrize("word", WORDS)
def test_the_words_of_a_difference(word):
    assert lead(WORDS[word]).word == word
    swapped = {"better": "worse", "worse": "better", "slightly better": "slightly worse"}
    assert lead([-v for v in WORDS[word]]).word == swapped.get(word, word)


def test_an_interval_that_leaves_out_zero_is_never_unresolved():
    for values in ([0.01, 0.011, 0.012], [0.04, 0.07, 0.05], [0.001, 0.0011, 0.0009]):
        found = lead(values)
        assert found.summary.low > 0 and found.word != "unresolved"


def test_lower_is_better_for_a_loss():
    rows = [
        {"method": m, "seed": s, "loss": x + s} for m, x in (("a", 1), ("b", 2)) for s in (0, 1)
    ]
    found = gap(rows, "loss", method="a", baseline="b", kind="loss")
    assert found.word == "better" and found.text() == "a - b -1.000 ± 0.000 (better)"
    with pytest.raises(ExperimentError, match="kind 'perplexity'"):
        gap(rows, "loss", method="a", baseline="b", kind="perplexity")


def test_values_have_no_word():
    assert measured("norm", 5.9e12, 1, "scientific").text() == "norm 5.9e+12"
    assert measured("norm", [1.0, 2.0]).text() == "norm 1.500 ± 6.353"
    assert measured("norm", [1.0, None]).word == ""
    assert lead([0.2]).word == "one seed" and lead([0.2]).text().endswith("+0.200 (one seed)")
    assert lead([0.2, float("nan")]).word == "not finite"


def test_holm_agrees_with_its_step_down_rule_by_hand():
    near, far = (
        lead([0.05, 0.06, 0.04, 0.08, 0.05], "near"),
        lead([0.05, 0.22, 0.01, 0.2, 0.1], "far"),
    )
    middle = lead([0.05, 0.14, 0.0, 0.1, 0.06], "middle")
    found = {f.name: f for f in holm([far, near, middle, measured("mean", 1.0)])}
    assert near.p < middle.p < far.p < 0.05
    assert [found[n].level for n in ("near", "middle", "far")] == pytest.approx(
        [1 - 0.05 / 3, 0.975, 0.975]
    )
    # far alone would be resolved; after middle failed at 0.975 it is not asked at 0.95
    assert middle.p > 0.025 and found["middle"].word == found["far"].word == "unresolved"
    assert found["near"].word == "better" and found["mean"].level == 0.95
    wider = t_quantile(1 - 0.05 / 6, 4) / t_quantile(0.975, 4)
    assert found["near"].summary.low == pytest.approx(
        near.summary.mean - wider * (near.summary.mean - near.summary.low)
    )


def test_p_is_that_of_students_t():
    found = lead([0.1, 0.2, 0.3])
    assert found.p == pytest.approx(2 * (1 - 0.9629), abs=1e-3)  # t = 3.464 with 2 degrees
    assert lead([0.1, 0.1]).p == 0 and lead([0.0, 0.0]).p == 1 and lead([0.1]).p == 1


def test_failed_runs_are_excluded_whole_counted_and_named():
    result = made([0.9, 0.5, 0.9], rival=[0.5, 0.5, 0.5])
    result.rows[1]["train_loss"] = 0.844
    result.rows.append({**result.rows[1], "train_loss": 0.1, "times": 8})
    kept, out = exclude(result, lambda row: row["train_loss"] > COIN, "loss above a coin's 0.693")
    assert (out.runs, out.of) == (("ours seed 1",), 6)
    assert out.text() == "excluded 1 of 6 runs (loss above a coin's 0.693): ours seed 1"
    assert len(kept.rows) == 5 and kept.card is result.card
    pairs = gap(kept, "accuracy", method="ours", baseline="rival")
    assert pairs.summary.n == 2  # the seed leaves the comparison on both sides


def test_seeds_that_would_do():
    found = lead([0.05, 0.12, 0.02, 0.1, 0.06])
    n = seeds_needed(found)
    spread = (found.summary.high - found.summary.mean) * math.sqrt(5) / t_quantile(0.975, 4)
    assert t_quantile(0.975, n - 1) * spread / math.sqrt(n) < 0.015
    assert seeds_needed(lead([9.0, -9.0])) is None and seeds_needed(measured("x", 1.0)) is None


def judged(published, controls=(), **options):
    return superiority(
        "J-K4",
        [lead(WORDS[w] if isinstance(w, str) else w, f"p{i}") for i, w in enumerate(published)],
        [lead(WORDS[w] if isinstance(w, str) else w, f"c{i}") for i, w in enumerate(controls)],
        evidence=Evidence(scale=Scale.of(made([1.0]))),
        **options,
    )


@pytest.mark.parametrize(
    ("published", "controls", "outcome", "because"),
    [
        (["better"], [], "reproduced", "better than what the paper compares with"),
        (["better"] * 2, ["better"], "reproduced", "the controls"),
        (
            ["better"],
            ["equal", "better"],
            "reproduced in part",
            r"not than the controls \(c0: equal",
        ),
        (["better"], ["worse"], "reproduced in part", "c0: worse"),
        (
            ["better"],
            ["unresolved"],
            "undecided",
            "c0 not resolved by 5 seeds; over a thousand would",
        ),
        (["better"], [[0.1, 0.0, 0.09, -0.01, 0.05]], "undecided", r"c0 not .* about \d+ would do"),
        (["unresolved"], ["better"], "undecided", "p0 not resolved by 5 seeds"),
        (["better", "equal"], ["better"], "not at this scale", "p1: equal"),
        (["worse", "unresolved"], [], "not at this scale", "p0: worse"),
        ([[0.2]], [], "undecided", "p0: one seed, at least two are needed"),
        ([[0.2, math.nan]], [], "undecided", "p0: a seed has no finite number"),
    ],
)
def test_superiority_gives_each_outcome(published, controls, outcome, because):
    verdict = judged(published, controls)
    assert verdict.outcome == outcome
    assert re.search(because, verdict.because), verdict.because


def test_superiority_can_contradict():
    assert judged(["worse"], missed="contradicted").outcome == "contradicted"
    assert not_tested("J-K4", "lacks direct_sum").outcome == "not tested"


def test_a_verdict_needs_a_known_outcome_a_reason_and_something_to_rest_on():
    with pytest.raises(
        ExperimentError, match="outcome 'reproduced with a caveat'; allowed: reprod"
    ):
        Verdict("J-K4", "reproduced with a caveat", "it is")
    with pytest.raises(ExperimentError, match="give the reason"):
        Verdict("J-K4", "undecided", "")
    for outcome in OUTCOMES[:4]:
        with pytest.raises(ExperimentError, match="name the findings"):
            Verdict("J-K4", outcome, "it is")
        Verdict("J-K4", outcome, "it is", Evidence((measured("x", 1.0),)))
    for outcome in OUTCOMES[4:]:
        Verdict("J-K4", outcome, "no seeds")


def test_the_sentence_of_a_verdict():
    told = sentence(judged(["better"], ["equal"]), CLAIMS["J-K4"])
    assert told.startswith(
        "J-K4, reproduced in part: better than what the paper compares with, but"
    )
    assert "Rests on: p0 +0.200 ± 0.011 (better); c0 +0.000 ± 0.002 (equal)" in told
    assert "intervals at the 97.5 % level by Holm's rule" in told
    assert (
        "Scale: L 128 (paper 1,024), longest 1,024 (paper 8,192), steps 350 (paper 1,200)" in told
    )
    assert told.endswith("; 5 seeds.")
    assert sentence(not_tested("J-K8", "no clips")) == "J-K8, not tested: no clips."


def test_scale_reads_cards_of_all_kinds():
    assert Scale.of(made([1.0])) == Scale(128, 1024, None, 350, "toy")
    card = {"settings": {"length": 64, "spans": [1, 8], "steps": 9}, "data": []}
    assert Scale.of(Result([], card), parameters=10) == Scale(64, 512, 10, 9, None)
    assert Scale(1, 2).beside(Scale(1, None)) == ""


def said(outcome, name="x"):
    if outcome in OUTCOMES[4:]:
        return Verdict("P-L5", outcome, f"{name} says so")
    evidence = Evidence((measured(name, 1.0),), Scale(length=len(name)), seeds=len(name))
    return Verdict("P-L5", outcome, f"{name} says so", evidence)


@pytest.mark.parametrize(
    ("outcomes", "together"),
    [
        (["reproduced"], "reproduced"),
        (["reproduced", "reproduced"], "reproduced"),
        (["reproduced", "reproduced in part"], "reproduced in part"),
        (["reproduced", "not at this scale"], "reproduced in part"),
        (["contradicted", "not at this scale"], "contradicted"),
        (["not at this scale", "undecided", "not tested"], "not at this scale"),
        (["undecided", "not tested"], "undecided"),
        (["not tested", "not tested"], "not tested"),
        ([], "not tested"),
    ],
)
def test_verdicts_of_several_experiments_join(outcomes, together):
    verdicts = {f"exp{i}": said(o, f"exp{i}") for i, o in enumerate(outcomes)}
    for id in ("J-K2", "P-F4", "P-L5"):
        joined = combine(CLAIMS[id], verdicts)
        assert joined.outcome == together and joined.claim == id
        decided = [o for o in outcomes if o in OUTCOMES[:4]]
        assert len(joined.evidence.findings) == len(decided)


def test_opposite_verdicts_are_told_in_one_line():
    verdicts = {"one": said("reproduced", "one"), "other": said("not at this scale", "other")}
    joined = combine(CLAIMS["P-L5"], verdicts)
    assert joined.because == (
        "the experiments test different models, and differ: one (reproduced): one says so; "
        "other (not at this scale): other says so"
    )
    assert joined.evidence.seeds == 3 and joined.evidence.scale.length == 5
    joined = combine(CLAIMS["P-F4"], verdicts)
    assert joined.because.startswith("1 of 2 benchmarks reproduce it whole; one (reproduced)")


@pytest.mark.parametrize("claim", ["P-S4a", "P-S4b"])
def test_the_grid_that_learns_at_the_protocols_rate_decides(claim):
    other, main = said("contradicted", "other"), said("reproduced", "main")
    joined = combine(CLAIMS[claim], {"teacher_sequences": other, "teacher_sequences/inits": main})
    assert joined.outcome == "reproduced" and joined.evidence == main.evidence
    assert "other says so" in joined.because
    silent = said("undecided", "main")
    joined = combine(CLAIMS[claim], {"teacher_sequences": other, "teacher_sequences/inits": silent})
    assert joined.outcome == "contradicted" and joined.evidence == other.evidence


def test_a_claim_that_nothing_speaks_to_says_why():
    assert combine(CLAIMS["J-K8"], {}).because.startswith("no record reads audio tokens")
    assert "has a rule for it yet" in combine(CLAIMS["J-K1"], {}).because


def test_outcomes_of_the_spec():
    assert Counter(OUTCOMES) == Counter(
        [
            "reproduced",
            "reproduced in part",
            "not at this scale",
            "contradicted",
            "undecided",
            "not tested",
        ]
    )
    assert undecided("J-K4", [lead([0.1])], Evidence()).outcome == "undecided"
