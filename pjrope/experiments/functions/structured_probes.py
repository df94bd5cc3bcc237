"""Do the bases hold drifts, growing seasons, envelopes and spacings of motifs?"""

from __future__ import annotations

from .kernel_probes import CONTROLS, PAPER, SHOWN
from .kernel_probes import EXPERIMENT as KERNEL_PROBES
from .probe_fits import Fits, probe, said

TARGETS = ("phase_drift", "seasonal_trend", "damped_wave", "rhythm_envelope", "motif_spacing")
FITTED = 0.01  # relative error


def structure_claim(fits: Fits) -> list[str]:
    """Sentences on K2: the coupled basis also fits structured targets.

    Rule: *reproduced* if the relative error of jordan_exact is below 1 % on every target at L and
    at 8 L, and there below those of rope and direct_sum; *with a caveat* if only the first half,
    at L, holds; *not reproduced* otherwise. Ridge 1e-4.
    """
    exact = "jordan_exact"

    def ahead_of(*rivals: str) -> list[str]:
        return [t for t in TARGETS if fits.ranking(t, (exact, *rivals))[0] == exact]

    def errors(method: str) -> str:
        return ", ".join(f"{t} {said(fits.error(t, method))}" for t in TARGETS)

    near, far = ([t for t in TARGETS if fits.error(t, exact, s) < FITTED] for s in ("L", "8L"))
    ahead = ahead_of("rope", "direct_sum")
    whole = len(TARGETS)
    word = "reproduced" if len(far) == len(ahead) == whole else "reproduced with a caveat"
    bounded = min(fits.error(t, "jordan_bounded") for t in TARGETS[1:])
    split = [t for t in TARGETS if t not in ahead_of("rope_split2")]
    return [
        f"K2, {word if len(near) == whole else 'not reproduced'}: the relative error of {exact} is "
        f"below 1 % on {len(near)} of {whole} targets at L and on {len(far)} at 8L "
        f"({', '.join(far) or 'none'}); at 8L it is below those of rope and direct_sum on "
        f"{len(ahead)} ({', '.join(ahead) or 'none'}).",
        f"Relative error at 8L of {exact}: {errors(exact)}; of rope: {errors('rope')}.",
        f"With the target's own damping: {errors('jordan_matched')}; the span of order 2 holds "
        "neither phase_drift nor motif_spacing.",
        f"With the saturating lag, jordan_bounded has {said(bounded)} or more at 8L on the four "
        "targets whose amplitude changes.",
        f"RoPE with as many columns, rope_split2, is below {exact} at 8L on {len(split)} "
        f"({', '.join(split) or 'none'}).",
    ]


EXPERIMENT = probe(
    name="structured_probes",
    question="Does the coupled basis also hold a drifting phase, a growing season, an envelope and "
    "the spacing of motifs?",
    claim="J-K2",
    presets=tuple(KERNEL_PROBES.presets.values()),
    targets=TARGETS,
    methods=(*PAPER, *CONTROLS),
    shown=SHOWN,
    rule=structure_claim,
)
