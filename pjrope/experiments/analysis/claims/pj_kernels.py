"""Claims of PJ-RoPE (arXiv 2606.05345) on kernels and taught languages, typed once."""

from __future__ import annotations

from .paper_claim import PaperClaim, Scale

__all__ = ["PJ_KERNELS"]

_FIXED = Scale(length=1024, longest=8192)
_TAUGHT = Scale(96, 192, 150_482, 350, "language of a teacher kernel")
_GRAPE = Scale(length=1024, longest=32768)
_LEARNER = Scale(length=1024, longest=4096, steps=1000)
_SPAN_RULE = (
    "A basis holds a teacher if its relative error at 8 L is below 1e-9 in float64 at every "
    "frequency, and misses it if it is above 1 %. "
)

_K = (
    PaperClaim(
        id="P-K1",
        statement="Exactly the bases with cos ωd and sin ωd recover a phase.",
        where="fixed-kernel recovery",
        scale=_FIXED,
        needs=("float64", "several frequencies"),
        rule=_SPAN_RULE + "Reproduced if all with the pair hold the phase and all others miss it; "
        "in part if those with the pair only come within 1 %; contradicted otherwise.",
        written="before",
        chapter="union",
    ),
    PaperClaim(
        id="P-K2",
        statement="A jet of order r is recovered if and only if its order is in the basis.",
        where="fixed-kernel recovery",
        scale=_FIXED,
        needs=("float64", "the damping counted as part of the basis"),
        rule=_SPAN_RULE + "Reproduced if every basis with the jet among its columns holds it and "
        "all others miss it; in part if another comes near; contradicted otherwise.",
        written="before",
        chapter="union",
    ),
    PaperClaim(
        id="P-K3",
        statement="Only bases with the distance itself extrapolate a linear recency.",
        where="fixed-kernel recovery",
        scale=_FIXED,
        needs=("an undamped basis with jets of order 2 and the distance",),
        rule=_SPAN_RULE + "Reproduced if the bases with the distance hold the linear teacher, all "
        "others miss it, and none of the paper's holds recency with a weak jet; in part if the "
        "control basis shows that only a column was missing; contradicted otherwise.",
        written="before",
        chapter="union",
    ),
    PaperClaim(
        id="P-K4",
        statement="Only light-cone bases recover light-cone teachers.",
        where="fixed-kernel recovery",
        scale=_FIXED,
        needs=("float64",),
        rule=_SPAN_RULE + "Reproduced if a light-cone basis holds each light-cone teacher and all "
        "other bases miss it; in part if another comes near; contradicted otherwise.",
        written="before",
        chapter="union",
    ),
)

_FIT_RULE = "Runs whose fit failed (R² below 0.9 on d < 4 L) are excluded, counted and named. "

_G = (
    PaperClaim(
        id="P-G1",
        statement="The largest gate names the sector that the teacher is made of.",
        where="adaptive spectrum",
        scale=_LEARNER,
        needs=("uniform and wrong initial gates", "a summary free of the gauge"),
        rule=_FIT_RULE + "Reproduced if in every run that fits; in part if in every one from the "
        "protocol's own start; contradicted otherwise.",
        written="after",
        chapter="gates",
    ),
    PaperClaim(
        id="P-G2",
        statement="The order of the largest mass is the teacher's.",
        where="adaptive spectrum",
        scale=_LEARNER,
        needs=("uniform and wrong initial gates", "a mass that knows 1/r!"),
        rule=_FIT_RULE + "Reproduced if in every run that fits; in part if in every one from the "
        "protocol's own start; contradicted otherwise.",
        written="after",
        chapter="gates",
    ),
    PaperClaim(
        id="P-G3",
        statement="Leaving an order out costs something at the teacher's order alone, and its "
        "energy is the largest.",
        where="adaptive spectrum",
        scale=_LEARNER,
        needs=("uniform and wrong initial gates",),
        rule=_FIT_RULE + "Reproduced if in every run that fits both are largest at the teacher's "
        "order and no other is worth more than 5 % of it; in part if both are largest there in "
        "every one from the protocol's start; contradicted otherwise.",
        written="after",
        chapter="gates",
    ),
)

_COUNTS = "Differences count by Holm's rule from 0.03 accuracy. "

_S = (
    PaperClaim(
        id="P-S1",
        statement="Where the teacher reads by recency, recency and the union learn it and no "
        "position does not.",
        where="synthetic query language",
        scale=_TAUGHT,
        needs=("the majority vote, which learns nothing",),
        rule=_COUNTS + "At L the affine sector and the union beat no position and the majority "
        "vote: reproduced; no position alone: in part; otherwise not at this scale.",
        written="after",
        chapter="gates",
    ),
    PaperClaim(
        id="P-S2",
        statement="The narrower the teacher's support, the larger the gain over no position.",
        where="synthetic query language, support sweep",
        scale=Scale(96, 192, 150_482, 220, "language of a teacher kernel"),
        needs=("an initial slope that is not the teacher's", "the majority vote"),
        rule=_COUNTS + "The lead over no position grows from the widest to the narrowest support, "
        "from every initial slope; the lead over the vote grows too, and at the widest support no "
        "method loses to it: reproduced; the first alone: in part; otherwise not at this scale.",
        written="after",
        chapter="gates",
    ),
    PaperClaim(
        id="P-S3",
        statement="Where the teacher is a signed jet, Fourier jets learn it; recency does not.",
        where="synthetic query language",
        scale=_TAUGHT,
        needs=("frequencies trained as in the paper", "frequencies held"),
        rule=_COUNTS + "Jets beat recency and no position on all three jets at L and 2 L, with "
        "frequencies held and trained: reproduced; at L and held only: in part; otherwise not at "
        "this scale.",
        written="after",
        chapter="gates",
    ),
    PaperClaim(
        id="P-S4a",
        statement="The union finds the sector of a jet by itself.",
        where="synthetic query language, full auto",
        scale=_TAUGHT,
        needs=("uniform initial gates: the paper's start at the answer", "the rate of the gates"),
        rule="The right sector leads, by gate and by function, from uniform gates on all three "
        "jets at the protocol's rate: reproduced; at ten times the rate, or from the right start "
        "only: in part; otherwise not at this scale. A lead counts from 0.03.",
        written="after",
        chapter="gates",
    ),
    PaperClaim(
        id="P-S4b",
        statement="The union finds the order of a jet by itself.",
        where="synthetic query language, full auto",
        scale=_TAUGHT,
        needs=("uniform initial orders: the paper's start at the answer", "the rate of the orders"),
        rule="The right order leads, by mass and by function, from uniform orders on all three "
        "jets at the protocol's rate: reproduced; at ten times the rate, or from the right start "
        "only: in part; otherwise not at this scale. A lead counts from 0.03.",
        written="after",
        chapter="gates",
    ),
    PaperClaim(
        id="P-S5",
        statement="Where the teacher is a light cone, light-cone kernels carry to longer "
        "sequences and Fourier jets do not.",
        where="synthetic query language",
        scale=_TAUGHT,
        needs=("the fall of each method from its own start",),
        rule=_COUNTS + "At 4 L the light cone with recency and the union beat jets and no "
        "position, do not fall from L, and jets do: reproduced; they lead but fall too: in part; "
        "otherwise not at this scale.",
        written="after",
        chapter="gates",
    ),
)

_REST = (
    PaperClaim(
        id="P-X1",
        statement="GRAPE's special cases (RoPE, ALiBi and their sum) miss jets, which Fourier "
        "jets contain.",
        where="GRAPE appendix",
        scale=_GRAPE,
        needs=("RoPE proper beside the order-0 bias that the paper calls GRAPE-M",),
        rule="Probes: reproduced if the special cases miss a jet at 32 L and Fourier jets hold it. "
        "Trained: reproduced if jets beat the order-0 bias and RoPE proper on the jet; in part if "
        "the order-0 bias alone; otherwise not at this scale.",
        written="after",
        chapter="union",
    ),
    PaperClaim(
        id="P-R1",
        statement="Exact PJ-rotary depends on the lag alone.",
        where="exact PJ-rotary",
        scale=Scale(length=512, longest=32768),
        needs=("bf16 and fp16 beside fp32", "positions counted from the block as the cure"),
        rule="At the farthest position the error is at most ten times RoPE's in the same number "
        "type in fp64, fp32 and bf16: reproduced; in fp64, and with positions counted from the "
        "block in all: in part; otherwise contradicted.",
        written="after",
        chapter="forms",
    ),
    PaperClaim(
        id="P-N1",
        statement="NTK scaling moves the Fourier roots of RoPE along a flow whose first step is a "
        "jet.",
        where="v2, abstract",
        needs=("jets of order up to 3", "the window beyond L", "large factors"),
        rule="A first-order jet explains at least 99 % of the change at every frequency on d < L "
        "for the factor 1.1: reproduced; only where the angle moved is below 1 radian: in part; "
        "otherwise contradicted.",
        written="after",
        chapter="union",
    ),
)

PJ_KERNELS = (*_K, *_G, *_S, *_REST)
