"""Every claim of Jordan-RoPE (arXiv 2605.04217), typed once."""

from __future__ import annotations

from .paper_claim import PaperClaim, Scale

__all__ = ["JORDAN"]

_PROBE = Scale(length=1024, longest=8192)

JORDAN = (
    PaperClaim(
        id="J-K1",
        statement="Of all bases, the exact Jordan basis fits (d/L) cos ωd with the least error.",
        where="v1, fixed-kernel probe",
        scale=_PROBE,
        needs=(
            "float64 without a ridge",
            "a basis whose damping is the target's",
            "bases with as many columns or frequencies",
        ),
        rule="Reproduced if the basis with the target's damping holds the target at 8 L (relative "
        "error below 1e-9) and the paper's own, whose damping is another, is below all bases "
        "without a coupled block; in part if it takes another damping or a smaller ridge than the "
        "paper's; contradicted if a basis without a coupled block holds it, or none does.",
        written="after",
        chapter="forms",
    ),
    PaperClaim(
        id="J-K2",
        statement="The coupled basis also fits a drifting phase, a growing season, an envelope and "
        "the spacing of motifs, and a trained model can act as such a filter.",
        where="v1, structured benchmarks and signal regression",
        scale=Scale(length=1024, longest=8192, steps=300, parameters=394_368),
        needs=("the same frequencies for all bases", "RoPE on the truncated grid", "R², not error"),
        rule="Probes: reproduced if the basis with the target's damping holds all five targets at "
        "8 L and RoPE none; in part if only those of the Jordan family. Trained: reproduced if the "
        "coupled model beats RoPE, the truncated grid and the direct sum that owns the frequency, "
        "in R² at 8 L.",
        written="after",
        chapter="forms",
    ),
    PaperClaim(
        id="J-K3",
        statement="A chain of order m spans exactly d^r e^{iωd} for r < m.",
        where="v2, high-jet probe",
        scale=_PROBE,
        needs=("float64 without a ridge", "the target's damping", "a bounded variant out of range"),
        rule="Reproduced if at 8 L the relative error of order m is below 1e-9 for each r < m and "
        "above 0.01 for each r >= m, m = 1 … 4; in part if the paper's ridge of 1e-4 spoils one; "
        "contradicted otherwise.",
        written="after",
        chapter="forms",
    ),
    PaperClaim(
        id="J-K4",
        statement="A trained Transformer uses the coupled mode: on the distance-modulated phase "
        "language it beats RoPE and the direct sum far beyond the training length.",
        where="v1, synthetic language model",
        figure="accuracy at 8,192: stabilized 0.906, RoPE 0.781, direct sum 0.500",
        scale=Scale(1024, 8192, 394_496, 1200, "distance-modulated phase language"),
        needs=(
            "RoPE on the truncated grid (rope_trunc)",
            "a direct sum that owns the target frequency (direct_sum_grid)",
            "a learned shear of at least 1 over L: below it the treatment is not applied",
            "at least 256 test sequences a length",
        ),
        rule="At the longest exam the coupled model beats RoPE, the direct sum and both controls: "
        "reproduced; only the published two: in part; not the published two: not at this scale. "
        "Where the learned shear over L stays below 1 the coupling is hardly applied: not tested. "
        "Runs with a training loss above a coin's are excluded; three seeds of each are needed. "
        "Differences count by Holm's rule from 0.03 accuracy.",
        written="after",
        chapter="phase_language",
    ),
    PaperClaim(
        id="J-K5",
        statement="A higher order helps where the answer hangs on a higher jet.",
        where="v2, high-jet language model",
        scale=Scale(256, 1024, 886_656, 600, "high-jet phase language"),
        needs=("the same frequencies for all orders", "a damped twin without shear", "10 seeds"),
        rule="At the longest exam order r + 1 beats every lower order on both targets: reproduced; "
        "only the damped twin: in part; equal or worse: not at this scale; unresolved: undecided. "
        "Differences count by Holm's rule from 0.03 accuracy.",
        written="after",
        chapter="phase_language",
    ),
    PaperClaim(
        id="J-K6",
        statement="On text the scaled-exact form with c = 1 is the best of the Jordan family, "
        "RoPE + ALiBi is best of all, and a larger forced shear harms long contexts.",
        where="v1, WikiText-103 byte model",
        figure="loss: scaled-exact c = 1 1.869, damped RoPE 1.884, RoPE + ALiBi 1.796 "
        "(length not known to us)",
        scale=Scale(1024, 8192, 10_720_512, 1000, "WikiText-103"),
        needs=("damped RoPE of the same c (η ≡ 0)", "rope_trunc", "slopes halved and doubled"),
        rule="Scaled-exact beats its η ≡ 0 twin and damped RoPE, RoPE + ALiBi beats both, and a "
        "larger shear is worse at the longest length: reproduced; without the twin: in part.",
        written="before",
        chapter="language",
        untested="no record trains the Jordan family on text yet",
    ),
    PaperClaim(
        id="J-K7",
        statement="Weak jet corrections beside ALiBi are at least as good as RoPE + ALiBi on text.",
        where="v2, WikiText-103 byte model",
        scale=Scale(512, 8192, 935_424, 1000, "WikiText-103, first 1 %"),
        needs=("damped RoPE of the same c with ALiBi (η ≡ 0)", "rope_trunc with ALiBi"),
        rule="Jordan + ALiBi is equal to or better than RoPE + ALiBi at every length and beats its "
        "η ≡ 0 twin: reproduced; equal to the twin: in part, as the jets are not the cause.",
        written="before",
        chapter="language",
        untested="no record trains jets with ALiBi on text yet",
    ),
    PaperClaim(
        id="J-K8",
        statement="The scaled-exact chain of order 3 wins on MusicNet tokens and carries over to "
        "FMA, MAESTRO and a mixture.",
        where="v2, audio tokens",
        scale=Scale(256, 2048, 935_424, 800, "MusicNet, 13 clips of 10 s"),
        needs=("RoPE + ALiBi", "damped RoPE of the same c", "rope_trunc", "more than three clips"),
        rule="Order 3 beats the controls on MusicNet and on each other corpus: reproduced; on "
        "MusicNet alone: in part.",
        written="before",
        chapter="music",
        untested="no record reads audio tokens; the archives (FMA 7 GB, MusicNet 11 GB of sound) "
        "are out of reach here",
    ),
    PaperClaim(
        id="J-K9",
        statement="The Jordan mode of a trained model survives a quantised key-value cache.",
        where="v2 code, cache diagnostics",
        scale=Scale(1024, 8192, 394_496, 300, "distance-modulated phase language"),
        needs=("the controls rounded alike", "a signal-to-noise ratio in one unit", "honest bits"),
        rule="The lead over both controls at 4 bits or more, in plain coordinates, is still at "
        "least 0.03 and loses at most 0.03: reproduced; in rotated coordinates or with more bits "
        "only: in part; no rounding: contradicted; no lead to survive: undecided. Runs with a training "
        "loss above a coin's are excluded.",
        written="after",
        chapter="codes",
    ),
)
