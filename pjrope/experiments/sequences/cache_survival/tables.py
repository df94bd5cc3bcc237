"""The tables of ``cache_survival``: what `pjrope show` prints."""

from __future__ import annotations

from typing import Any

from ...analysis.claims import SMALLEST_EFFECT
from ...engine.spec import Table
from .serving import PLAIN, ROTATED

__all__ = ["BUCKETS", "SHEARED", "survival_tables"]

BUCKETS = {"near": (0, 1), "middle": (1, 4), "far": (4, 8)}  # lags, low < d/L <= high
SHEARED = ["direct_sum_grid", "stabilized", "exact"]


def survival_tables() -> tuple[Table, ...]:
    """Accuracies first, then what rounding does inside, the reference's column below the fair one."""
    both, rough = ("basis", "bits"), {"form": "scientific", "digits": 1}
    everything: dict[str, Any] = {"store": ["nothing", "keys, values"]}
    keys: dict[str, Any] = {"store": ["keys", "content keys"]}
    clean: dict[str, Any] = {"store": "nothing"}
    coupled: dict[str, Any] = {"store": "keys", "basis": PLAIN, "method": SHEARED}
    tables = [
        Table(
            f"Accuracy at {times} L, keys and values rounded to so many bits (0: not rounded)",
            f"accuracy_x{times}",
            columns=both,
            where=everything,
            better="higher",
            smallest_effect=SMALLEST_EFFECT["accuracy"],
        )
        for times in (8, 4, 2, 1)
    ]
    tables += [
        Table(
            f"Fall of accuracy at {times} L when {what} are rounded",
            f"drop_x{times}",
            columns=both,
            where={"store": store},
        )
        for times, store, what in (
            (8, "keys, values", "keys and values"),
            (4, "keys, values", "keys and values"),
            (4, "keys", "keys, after the position action,"),
            (4, "content keys", "keys, before the position action,"),
            (4, "values", "values"),
        )
    ]
    tables += [
        *(
            Table(f"Loss at {times} L, nats", f"loss_x{times}", columns=both, where=everything)
            for times in (8, 4)
        ),
        Table(
            "Bits a number with its share of an fp16 step, by bits",
            "storage",
            columns="bits",
            where={"store": "keys, values", "basis": PLAIN},
            digits=2,
        ),
        Table(
            "Relative error of the logits at 8 L, plain coordinates",
            "logit_error",
            columns=("store", "bits"),
            where={**keys, "basis": PLAIN},
        ),
        Table(
            "Relative error of the logits at 8 L, rotated coordinates",
            "logit_error",
            columns=("store", "bits"),
            where={**keys, "basis": ROTATED},
        ),
        Table(
            "KL of attention rows at 8 L, nats, keys after the action",
            "attention_kl",
            columns=both,
            where={"store": "keys"},
            digits=4,
        ),
        Table("Norm of keys at the end over that at the start of 8 L", "key_growth", where=clean),
        Table("The same of what the action does to a key", "action_growth", where=clean),
        Table(
            "Accuracy at 4 L of the same weights without shear, keys and values rounded",
            "unsheared_x4",
            columns="bits",
            where={**everything, "basis": PLAIN, "method": SHEARED},
        ),
        Table("Learned shear over the training length", "shear", where=clean),
        Table(
            "Share of the mode in the power of logits beyond L",
            "mode_share",
            where={**clean, "method": SHEARED},
        ),
    ]
    tables += [
        Table(title, value, columns="bits", where=coupled, **rough)
        for bucket, (low, high) in BUCKETS.items()
        for title, value in (
            (f"SNR_J, lags of {low} L to {high} L", f"snr_{bucket}"),
            (f"SNR_J as the reference has it, lags of {low} L to {high} L", f"paper_snr_{bucket}"),
        )
    ]
    tables += [
        Table(title, value, where={**clean, "method": SHEARED}, **rough)
        for title, value in (
            ("Largest error of base + shear over the rms logit", "split_error"),
            ("The same of the reference's split", "paper_split_error"),
        )
    ]
    return tuple(tables)
