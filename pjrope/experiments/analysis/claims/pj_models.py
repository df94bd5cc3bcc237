"""Claims of PJ-RoPE (arXiv 2606.05345) on language and music, typed once."""

from __future__ import annotations

from .paper_claim import PaperClaim, Scale

__all__ = ["PJ_MODELS"]

_TEXT = Scale(512, 8192, 199_408, None, "Tiny Shakespeare, WikiText-2")
_LONG = Scale(1024, 32768, 199_408, None, "Tiny Shakespeare, WikiText-2, War and Peace")
_MUSIC = Scale(512, 32768, 199_408, 420, "MAESTRO, MusicNet as byte text")
_NATS = "Differences count by Holm's rule from 0.01 nats per byte or token. "
_NO_CHANGE = "no record follows gates and masses from their start on text yet"

_L = (
    PaperClaim(
        id="P-L1",
        statement="On text the affine gate of the union dominates.",
        where="byte language models, gates",
        scale=_TEXT,
        needs=(
            "uniform initial gates: the paper's begin at .96 affine",
            "the change from the start, at two rates",
            "what leaving the sector out costs",
        ),
        rule="From uniform and from affine gates the affine sector ends with the largest gate and "
        "costs most when left out: reproduced; from affine gates only: contradicted as a finding, "
        "since the gate reports its start.",
        written="before",
        chapter="language",
        untested=_NO_CHANGE,
    ),
    PaperClaim(
        id="P-L2",
        statement="On text the mass of higher orders is small.",
        where="byte language models, masses",
        scale=_TEXT,
        needs=("the mass at the start", "what leaving an order out costs"),
        rule="Leaving orders 2 and 3 out costs less than 0.01 nats, and their mass does not grow "
        "from its start: reproduced; the mass grows but costs nothing: in part.",
        written="before",
        chapter="language",
        untested=_NO_CHANGE,
    ),
    PaperClaim(
        id="P-L3",
        statement="NTK-scaled RoPE with affine recency is best at long contexts of text.",
        where="byte language models, long contexts",
        scale=_LONG,
        needs=("ALiBi proper", "slopes that start on ALiBi's ladder", "a static NTK factor"),
        rule=_NATS + "At the longest context it beats every published method, ALiBi and the "
        "controls: reproduced; every published method: in part; worse or equal somewhere: not at "
        "this scale; unresolved: undecided.",
        written="after",
        chapter="alibi",
    ),
    PaperClaim(
        id="P-L4",
        statement="Plain RoPE rises beyond its training length; PI, NTK and YaRN rise less.",
        where="byte language models, length curves",
        scale=_TEXT,
        needs=("a static NTK factor", "PI and YaRN"),
        rule=_NATS + "RoPE rises from the shortest to the longest context and each extension is "
        "below it there: reproduced; at twice the training length only, or for some of the three: "
        "in part; otherwise not at this scale.",
        written="before",
        chapter="alibi",
    ),
    PaperClaim(
        id="P-L5",
        statement="Recency, the light cone with recency, and the union are flat in length.",
        where="byte language models, length curves",
        scale=_LONG,
        needs=("the paper's affine start of the gates and rate 1", "ALiBi proper"),
        rule="The change from the shortest to the longest context is equal within 0.01 nats for "
        "all three: reproduced; for some: in part; rises for all: not at this scale. What starts "
        "from other gates than the paper's says so.",
        written="before",
        chapter="alibi",
    ),
    PaperClaim(
        id="P-L6",
        statement="The order of the jets (R = 0, 1, 3) changes little on text.",
        where="byte language models, order ablation",
        scale=_LONG,
        needs=("several starts of the gates", "both rates"),
        rule=_NATS + "Orders 0, 1 and 3 are equal within 0.01 nats at L and at the longest "
        "context: reproduced; at L only: in part; otherwise contradicted.",
        written="before",
        chapter="language",
        untested="no record varies the order of the jets on text yet",
    ),
)

_M = (
    PaperClaim(
        id="P-M1",
        statement="On music the light cone with recency is best or near the best at 32,768.",
        where="music-token models",
        scale=_MUSIC,
        needs=("ALiBi proper", "a length L that can see the shortest return of a motif"),
        rule=_NATS + "It is equal to or better than every other method at the longest context of "
        "each of two corpora: reproduced; of one: in part; worse than another on all: not at this "
        "scale; unresolved: undecided.",
        written="before",
        chapter="music",
    ),
    PaperClaim(
        id="P-M2",
        statement="NTK-scaled RoPE with affine recency no longer wins on music.",
        where="music-token models",
        scale=_MUSIC,
        needs=("a static NTK factor", "ALiBi proper"),
        rule=_NATS + "Another method beats it at the longest context of each of two corpora: "
        "reproduced; of one: in part; it beats all others: contradicted; no method beats it: not at "
        "this scale; unresolved: undecided.",
        written="before",
        chapter="music",
    ),
    PaperClaim(
        id="P-M3",
        statement="On music the mass of higher orders is not zero and larger than on text.",
        where="music-token models, masses",
        scale=_MUSIC,
        needs=("the mass at the start, which is not zero either", "what leaving it out costs"),
        rule="The ratio of the mass of orders 2 and 3 to its start, in the union from the paper's "
        "start, is larger on music than on text with both intervals apart, and leaving one of them "
        "out costs at least 0.01 nats: reproduced; the first alone: in part; else not at this scale.",
        written="before",
        chapter="music",
    ),
    PaperClaim(
        id="P-M4",
        statement="The ranking of methods is the same for MAESTRO's splits and for two choices of "
        "MusicNet.",
        where="music-token models",
        scale=_MUSIC,
        needs=("official splits read whole", "five seeds"),
        rule="No pair of methods that is resolved on two choices of pieces is ordered differently "
        "at the longest shared context: reproduced, in part where only one corpus was read; a pair "
        "is: contradicted; fewer than half of the pairs resolved twice: undecided.",
        written="before",
        chapter="music",
    ),
    PaperClaim(
        id="P-M5",
        statement="Models gain on music whose motifs return, over the same music shuffled.",
        where="music-token models, generated corpus",
        scale=Scale(512, 8192, 199_408, 420, "generated motifs, 3.2 MB"),
        needs=("returns that fit into L", "the same bytes in both corpora"),
        rule=_NATS + "Every method loses less on the structured corpus at the longest context: "
        "reproduced; some: in part; none: not at this scale; unresolved: undecided.",
        written="before",
        chapter="music",
    ),
    PaperClaim(
        id="P-M6",
        statement="Exact PJ-rotary is among the best at the training length and collapses far out.",
        where="byte and music-token models",
        scale=_MUSIC,
        needs=("rope_trunc, which has its frequencies without the shear",),
        rule=_NATS + "At L it is equal to or better than RoPE or recency, and its loss rises by "
        "at least 1 nat to the longest context: reproduced; one of the two: in part.",
        written="after",
        chapter="lightcone",
    ),
)

PJ_MODELS = (*_L, *_M)
