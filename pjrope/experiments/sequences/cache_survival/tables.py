"""The tables of ``cache_survival``: what `pjrope show` prints."""

from __future__ import annotations

from typing import Any

from ...analysis.claims import SMALLEST_EFFECT
from ...engine.spec import Table
from .serving import PLAIN, ROTATED

BUCKETS = {"near": (0, 1), "middle": (1, 4), "far": (4, 8)}  # lags, low < d/L <= high
SHEARED = ["direct_sum_grid", "stabilized", "exact"]

BY_BITS = ("basis", "bits")
ROUGH: dict[str, Any] = {"form": "scientific", "digits": 1}
BOTH: dict[str, Any] = {"store": ["nothing", "keys, values"]}
CLEAN: dict[str, Any] = {"store": "nothing"}
MODE: dict[str, Any] = {**CLEAN, "method": SHEARED}
FALLS = (
    (8, "keys, values", "keys and values"),
    (4, "keys, values", "keys and values"),
    (4, "keys", "keys, after the position action,"),
    (4, "content keys", "keys, before the position action,"),
    (4, "values", "values"),
)


def _accuracy() -> list[Table]:
    title = "Accuracy at {} L, keys and values rounded to so many bits (0: not rounded)"
    return (
        [
            Table(
                title.format(times),
                f"accuracy_x{times}",
                columns=BY_BITS,
                where=BOTH,
                better="higher",
                smallest_effect=SMALLEST_EFFECT["accuracy"],
            )
            for times in (8, 4, 2, 1)
        ]
        + [
            Table(
                f"Fall of accuracy at {times} L when {what} are rounded",
                f"drop_x{times}",
                columns=BY_BITS,
                where={"store": store},
            )
            for times, store, what in FALLS
        ]
        + [
            Table(f"Loss at {times} L, nats", f"loss_x{times}", columns=BY_BITS, where=BOTH)
            for times in (8, 4)
        ]
    )


def _inside() -> list[Table]:
    bits, keys = {"store": "keys, values", "basis": PLAIN}, ["keys", "content keys"]
    return [
        Table(
            "Bits a number with its share of an fp16 step, by bits",
            "storage",
            columns="bits",
            where=bits,
            digits=2,
        ),
        *(
            Table(
                f"Relative error of the logits at 8 L, {basis} coordinates",
                "logit_error",
                columns=("store", "bits"),
                where={"store": keys, "basis": basis},
            )
            for basis in (PLAIN, ROTATED)
        ),
        Table(
            "KL of attention rows at 8 L, nats, keys after the action",
            "attention_kl",
            columns=BY_BITS,
            where={"store": "keys"},
            digits=4,
        ),
        Table("Norm of keys at the end over that at the start of 8 L", "key_growth", where=CLEAN),
        Table("The same of what the action does to a key", "action_growth", where=CLEAN),
        Table(
            "Accuracy at 4 L of the same weights without shear, keys and values rounded",
            "unsheared_x4",
            columns="bits",
            where={**BOTH, "basis": PLAIN, "method": SHEARED},
        ),
        Table("Learned shear over the training length", "shear", where=CLEAN),
        Table("Share of the mode in the power of logits beyond L", "mode_share", where=MODE),
    ]


def _mode() -> list[Table]:
    """The signal-to-noise ratio of the mode, the reference's column below the fair one."""
    coupled = {"store": "keys", "basis": PLAIN, "method": SHEARED}
    return [
        Table(title, value, columns="bits", where=coupled, **ROUGH)
        for bucket, (low, high) in BUCKETS.items()
        for title, value in (
            (f"SNR_J, lags of {low} L to {high} L", f"snr_{bucket}"),
            (f"SNR_J as the reference has it, lags of {low} L to {high} L", f"paper_snr_{bucket}"),
        )
    ] + [
        Table(
            "Largest error of base + shear over the rms logit", "split_error", where=MODE, **ROUGH
        ),
        Table("The same of the reference's split", "paper_split_error", where=MODE, **ROUGH),
    ]


TABLES = (*_accuracy(), *_inside(), *_mode())
