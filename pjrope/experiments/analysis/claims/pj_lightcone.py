"""Claims of PJ-RoPE (arXiv 2606.05345) on light-cone coordinates and on growth, typed once."""

from __future__ import annotations

from .paper_claim import PaperClaim, Scale

__all__ = ["PJ_LIGHTCONE"]

_CODES = Scale(length=1024, longest=32768)

_F = (
    PaperClaim(
        id="P-F1",
        statement="Light-cone coordinates bound norms, biases, cache errors and logits.",
        where="light-cone stability, cache quantisation",
        figure="at 32,768: norm below 2 and bias below 1 (raw 5.9e12)",
        scale=_CODES,
        needs=("other bounded variants", "clean queries", "a trained model"),
        rule="Codes: norm below 2 and bias below 1 at all lengths while raw and scaled pass both. "
        "Caches: bounded keys and a lower rounding error than those that grow. Trained: keys and "
        "logits stay below twice their size at L while PJ-rotary's do not. In part where another "
        "bounded variant does the same.",
        written="after",
        chapter="lightcone",
    ),
    PaperClaim(
        id="P-F2",
        statement="The light-cone phase slows down as L / sqrt(d² + L²).",
        where="light-cone stability",
        figure="far span at 32,768: 74 radians (raw 1,709)",
        scale=_CODES,
        needs=("frequencies out of step with L",),
        rule="The last step is within 0.2 % of the formula at every length, and the far spans are "
        "those of the paper: reproduced; otherwise contradicted.",
        written="before",
        chapter="lightcone",
    ),
    PaperClaim(
        id="P-F3",
        statement="Dividing the light-cone phase by L destroys its span.",
        where="light-cone stability",
        figure="far span at 32,768: 0.07 radians",
        scale=_CODES,
        needs=("frequencies out of step with L",),
        rule="It passes less than one radian over the farther half at every length: reproduced; "
        "otherwise contradicted.",
        written="before",
        chapter="lightcone",
    ),
    PaperClaim(
        id="P-F4",
        statement="Light-cone codes resolve far lags less well than raw and scaled ones.",
        where="retrieval, pair resolution, attention read-out",
        figure="hard pairs at 16 to 32 L: light cone 0.5, raw and scaled 1.0",
        scale=_CODES,
        needs=("phase alone", "frequencies out of step with L", "noise", "clean queries"),
        rule="Each benchmark: lower than raw and than scaled in fp32 by both protocols, by Holm's "
        "rule from 0.03: reproduced; in fp32 by one protocol, or in narrow types only: in part; "
        "higher in fp32 somewhere: in part at best. The benchmarks together: reproduced if all are.",
        written="after",
        chapter="codes",
    ),
)

_U = (
    PaperClaim(
        id="P-U1",
        statement="Without the light cone the jets grow exponentially with the lag.",
        where="summary of the paper",
        scale=_CODES,
        needs=("growth from one length to twice it",),
        rule="The factor by which the norm grows from N to 2 N rises with N: reproduced; it stays "
        "near a power of two, as for a polynomial: contradicted.",
        written="after",
        chapter="lightcone",
    ),
    PaperClaim(
        id="P-U2",
        statement="Without the light cone long contexts crash.",
        where="summary of the paper",
        scale=_CODES,
        needs=("which number type overflows where", "trained models"),
        rule="A non-finite number or a failed run at or below 32,768 in fp32 or bf16 for raw or "
        "scaled: reproduced; in fp16 only: in part; nowhere: contradicted.",
        written="after",
        chapter="lightcone",
    ),
)

PJ_LIGHTCONE = (*_F, *_U)
