"""What the factors decide: gates' start and rate, what happens to frequencies, and GRAPE's rows."""

from __future__ import annotations

from typing import Any

from ...analysis.statistics import summary, verdict
from ...analysis.words import listed
from ..training import SMALLEST_EFFECT
from .compare import JETS, ONE_RATE, Rows, beats, gap, mean, pick, said

SHARP = 16.0  # lambda of the attention teacher beside the signed ones
INIT_TEACHERS = (("affine", SHARP), *((jet, None) for jet in JETS), ("lc_core", None))


def _compared(difference: Any) -> str:
    return f"{said(difference)} ({verdict(difference, SMALLEST_EFFECT, 'higher')})"


def gates_said(rows: Rows) -> list[str]:
    """On how many teachers each start names the right sector, and what the start costs.

    "Names" is a mean lead of at least 0.03 whose 95 % interval lies above 0.
    """
    told, costs = [], []
    for gates in ("uniform", "right", "wrong"):
        named = {"gate_lead": 0, "sector_lead": 0}
        for teacher, sharpness in INIT_TEACHERS:
            here = {"teacher": teacher, "sharpness": sharpness, "times": 1, "method": "full"}
            found = pick(rows, gates=gates, **here)
            for value in named:
                named[value] += beats(summary(row[value] for row in found))
        told.append(
            f"from {gates} gates the gate names the teacher's sector for {named['gate_lead']} and "
            f"its function for {named['sector_lead']}"
        )
    for teacher, sharpness in INIT_TEACHERS:
        here = {"teacher": teacher, "sharpness": sharpness, "times": 1, "method": "full"}
        cost = gap(pick(rows, gates="wrong", **here), pick(rows, gates="right", **here))
        costs.append(f"{teacher} {_compared(cost)}")
    return [
        f"`full`, {len(INIT_TEACHERS)} teachers: {'; '.join(told)}.",
        f"Accuracy at the training length, wrong start minus right start: {'; '.join(costs)}.",
    ]


def rates_said(rows: Rows) -> list[str]:
    """What gates and order weights at one rate with everything else change (added after a record).

    Rate 1 minus rate 10, at the training length, from the uniform and from the right start.
    """
    told = []
    for gates in ("uniform", "right"):
        for jet in JETS:
            here = {"teacher": jet, "sharpness": None, "times": 1, "method": "full", "gates": gates}
            slow, fast = pick(rows, gate_lr=ONE_RATE, **here), pick(rows, **here)
            told.append(
                f"{jet} from {gates} gates accuracy {_compared(gap(slow, fast))}, lead of the order "
                f"by mass {mean(slow, 'mass_lead')} instead of {mean(fast, 'mass_lead')}"
            )
    return [
        "`full`, gates and order weights at the rate of everything else minus at ten times it: "
        f"{'; '.join(told)}."
    ]


def frequencies_said(rows: Rows) -> list[str]:
    """What held, given, slow and trained frequencies do beyond the training length."""
    said_of = []
    for teacher, method in (*((jet, "fj") for jet in JETS), ("lc_core", "lc_affine")):
        here = {"teacher": teacher, "sharpness": None, "times": 4, "method": method}
        held = pick(rows, omega="frozen", **here)
        words = [
            f"{omega} {_compared(gap(pick(rows, omega=omega, **here), held))}"
            for omega in ("given", "slow", "trained")
        ]
        said_of.append(f"{teacher} with {method} {mean(held)} held, {listed(words)}")
    return [f"Frequencies, accuracy at 4 L and differences to held ones: {'; '.join(said_of)}."]


def options_said(rows: Rows) -> list[str]:
    """Free q and k, the median threshold and a fast learning rate against their defaults."""
    told = []
    for factor, value, what in (
        ("qk", "free", "free q and k"),
        ("threshold", "median", "the batch's median as threshold"),
        ("position_lr", 10.0, "position parameters ten times as fast"),
    ):
        words = []
        for teacher, sharpness in (("affine", SHARP), ("first_jet", None)):
            here = {"teacher": teacher, "sharpness": sharpness, "times": 1, "method": "full"}
            changed = gap(pick(rows, **here, **{factor: value}), pick(rows, **here))
            words.append(f"{teacher} {_compared(changed)}")
        told.append(f"{what}: {', '.join(words)}")
    return [f"`full` at the training length against the defaults; {'; '.join(told)}."]


def grape_said(rows: Rows) -> list[str]:
    """RoPE proper beside the bias of order 0, and Fourier jets beside both; q and k free."""
    told = []
    for teacher in ("phase", "first_jet"):
        for times in (1, 4):
            here = {"teacher": teacher, "sharpness": None, "times": times, "qk": "free"}
            by = {m: pick(rows, method=m, **here) for m in ("rope", "rope_given", "order0", "fj")}
            told.append(
                f"signed {teacher} at {times} L: rope {mean(by['rope'])}, rope_given "
                f"{mean(by['rope_given'])}, order0 {mean(by['order0'])}, fj {mean(by['fj'])}; order0 "
                f"against rope_given {_compared(gap(by['order0'], by['rope_given']))}, fj against "
                f"it {_compared(gap(by['fj'], by['rope_given']))}"
            )
    here = {"teacher": "affine", "sharpness": None, "times": 1, "qk": "free"}
    slopes = {m: pick(rows, method=m, **here) for m in ("none", "affine", "affine_signed")}
    return [
        *(f"{text[0].upper()}{text[1:]}." for text in told),
        "The signed affine teacher prefers far keys, at the training length: none "
        f"{mean(slopes['none'])}, a slope that cannot change sign {mean(slopes['affine'])}, one "
        f"that can {mean(slopes['affine_signed'])}.",
    ]
