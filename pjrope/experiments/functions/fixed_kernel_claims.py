"""Claims P-K1 to P-K4 and P-X1 from the fits, by rules written before any fit was made here.

A basis *holds* a teacher if its relative error far out (8 L; 32 L in the GRAPE grid) is below
1e-9 in fp64 at every frequency, *comes near* if it is below 1 % at every frequency, and *misses*
it if it is above 1 % at every frequency. The protocol's own figures were known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..analysis.claims import Outcome, Verdict
from ..analysis.words import listed
from .least_squares import Fits, error_of, format_error

__all__ = ["RULES", "grape_claim", "grape_sentences", "kernel_sentences"]

Pair = tuple[str, str]

JETS = tuple(f"jets_{r}" for r in (1, 2, 3))
DAMPED = tuple(f"damped_{r}" for r in (1, 2, 3))
DAMPED_AFFINE = tuple(f"damped_affine_{r}" for r in (1, 2, 3))
LIGHTCONE = ("lightcone", "lightcone_asinh")
PAPER = ("rope", "alibi", "asinh", "rope_alibi", *JETS, *DAMPED, *DAMPED_AFFINE, *LIGHTCONE)
WAVES = ("rope", "rope_alibi", *JETS, *DAMPED, *DAMPED_AFFINE)
LINEAR = ("alibi", "rope_alibi", *DAMPED_AFFINE)
CONTROL, WEAK = "jets_affine_2", "recency_weak_jet"
SPANNED = {  # by construction: which of the fifteen have a jet teacher among their columns
    "first_jet": JETS,
    "second_jet": (*DAMPED[1:], *DAMPED_AFFINE[1:]),
    "third_jet": (DAMPED[2], DAMPED_AFFINE[2]),
}
SPECIAL = ("grape_m", "grape_a", "grape_ma")


@dataclass(frozen=True)
class Cases:
    """Pairs of a teacher and a basis: which should be held and which missed, and which are.

    Args:
        fits: of one run.
        inside, outside: pairs that should be held, and missed.
        told: how to call the bases inside, those outside and the teachers.
    """

    fits: Fits
    inside: Sequence[Pair]
    outside: Sequence[Pair]
    told: tuple[str, str, str] = ("", "", "")

    @classmethod
    def of(
        cls,
        fits: Fits,
        wanted: Mapping[str, Sequence[str]],
        told: tuple[str, str, str] = ("", "", ""),
        others: Sequence[str] = PAPER,
    ) -> Cases:
        """Teacher → bases that should hold it; of the others, all should miss it."""
        inside = [(t, m) for t, bases in wanted.items() for m in bases]
        outside = [(t, m) for t, bases in wanted.items() for m in others if m not in bases]
        return cls(fits, inside, outside, told)

    @property
    def held(self) -> int:
        return sum(bool(self.fits.held(t, [m])) for t, m in self.inside)

    @property
    def near(self) -> int:
        return sum(bool(self.fits.near(t, [m])) for t, m in self.inside)

    @property
    def missed(self) -> int:
        return sum(bool(self.fits.missed(t, [m])) for t, m in self.outside)

    @property
    def false(self) -> int:
        """Outside, and held."""
        return sum(bool(self.fits.held(t, [m])) for t, m in self.outside)

    def verdict(self, claim: str, fair: bool, whole: bool, more: str = "") -> Verdict:
        """Contradicted unless fair, in part unless whole; with the worst errors."""
        outcome: Outcome = "reproduced" if whole else "reproduced in part"
        ours, theirs, teacher = self.told
        because = f"{self.held} of {len(self.inside)} {ours} hold {teacher} to {self.fits.far}, "
        because += f"{self.missed} of {len(self.outside)} {theirs} miss it{more}"
        found = (
            error_of("largest error inside", max(self.fits.error(*p) for p in self.inside)),
            error_of("smallest outside", min(self.fits.error(*p) for p in self.outside)),
        )
        outcome = outcome if fair else "contradicted"
        return Verdict(claim, outcome, because, self.fits.evidence(*found))

    def exact(self, claim: str) -> Verdict:
        """Contradicted if a basis inside does not hold or one outside does; in part if one comes near."""
        fair = self.held == len(self.inside) and not self.false
        return self.verdict(claim, fair, self.missed == len(self.outside))


def phase_claim(fits: Fits) -> Verdict:
    """P-K1: bases with cos wd and sin wd hold the phase, others do not.

    Rule: *reproduced* if all of them hold it and all others miss it; *in part* if all of them come
    near and all others miss it; *contradicted* otherwise.
    """
    cases = Cases.of(
        fits, {"phase": WAVES}, ("bases with cos ωd and sin ωd", "without", "the phase")
    )
    fair = cases.near == len(cases.inside) and cases.missed == len(cases.outside)
    return cases.verdict("P-K1", fair, cases.held == len(cases.inside))


def jets_claim(fits: Fits) -> Verdict:
    """P-K2: a jet of order r is held if and only if its order, with its damping, is in the basis.

    Rule: every basis that has the teacher among its columns must hold it, or P-K2 is
    *contradicted*. It is *reproduced* if all others miss it; *in part* if some do not miss it but
    none of them holds it.
    """
    told = ("bases with the jet among their columns", "others", "it")
    return Cases.of(fits, SPANNED, told).exact("P-K2")


def affine_claim(fits: Fits) -> Verdict:
    """P-K3: only bases with x carry a distance beyond L; recency with a weak jet is in none.

    Rule: *reproduced* if every basis with x holds the linear teacher, all others miss it, and none
    of the fifteen holds recency_weak_jet; *in part* if, besides, the control (jets to order 2
    without damping, and x) holds recency_weak_jet, so that only the list of bases lacked it;
    *contradicted* otherwise.
    """
    cases = Cases.of(fits, {"linear": LINEAR}, ("bases with x", "without", "it"))
    weak = fits.held(WEAK, PAPER)
    control = bool(fits.held(WEAK, [CONTROL]))
    fair = cases.held == len(cases.inside) and cases.missed == len(cases.outside) and not weak
    more = f"; {WEAK} is held by {len(weak)} of the fifteen, and by the control" * control
    return cases.verdict("P-K3", fair, not control, more)


def lightcone_claim(fits: Fits) -> Verdict:
    """P-K4: light-cone teachers are held by light-cone bases alone.

    Rule: *reproduced* if both light-cone bases hold lc_core, the one with asinh x holds lc_affine,
    and every other of the fifteen misses them (the light cone without asinh x must miss lc_affine
    too); *in part* if none of the others holds them, but some do not miss; *contradicted*
    otherwise.
    """
    wanted = {"lc_core": LIGHTCONE, "lc_affine": LIGHTCONE[1:]}
    told = ("light-cone bases", "others", "a light-cone teacher")
    return Cases.of(fits, wanted, told).exact("P-K4")


def grape_claim(fits: Fits) -> Verdict:
    """P-X1, on lag functions: RoPE, ALiBi and their sum miss jets that Fourier jets hold.

    Rule: *reproduced* if at 32 L the three special cases miss both jets and Fourier jets of the
    jet's order or higher hold them; *in part* if one of the special cases comes near a jet without
    holding it; *contradicted* otherwise.
    """
    wanted = {"jet_1": ("jets_1", "jets_2"), "jet_2": ("jets_2",)}
    told = ("bases of Fourier jets", "special cases", "a jet")
    return Cases.of(fits, wanted, told, SPECIAL).exact("P-X1")


RULES = {"P-K1": phase_claim, "P-K2": jets_claim, "P-K3": affine_claim, "P-K4": lightcone_claim}


def _range(errors: Sequence[float]) -> str:
    """The smallest and the largest; a single one stands alone."""
    return " to ".join(dict.fromkeys((format_error(min(errors)), format_error(max(errors)))))


def _smallest(fits: Fits, targets: Sequence[str], methods: Sequence[str]) -> str:
    told = "; ".join(f"{t} {fits.smallest(t, methods)}" for t in targets)
    return f"Smallest basis that holds a teacher (columns beside the constant): {told}."


def kernel_sentences(fits: Fits) -> list[str]:
    """What comes near without holding, the smallest exact bases, precision and conditioning."""
    methods = (*PAPER, CONTROL)
    targets = list(dict.fromkeys(row["target"] for row in fits.result.rows))
    short = {m: fits.error("phase", m) for m in WAVES if not fits.held("phase", [m])}
    outside = Cases.of(fits, SPANNED).outside
    close = {(t, m): fits.error(t, m) for t, m in outside if not fits.missed(t, [m])}
    undamped = {t: min(fits.error(t, m) for m in JETS) for t in ("second_jet", "third_jet")}
    weak = fits.ranking(WEAK, PAPER)[0]
    exact = [(t, m) for t in targets for m in fits.held(t, methods)]
    narrow = max(max(fits.errors(t, m, field="fp32")) for t, m in exact)
    condition = {m: max(fits.errors("phase", m, "L", field="condition")) for m in methods}
    worst = max(condition, key=lambda m: condition[m])
    cone = LIGHTCONE[0]
    return [
        "Damped waves are not waves; largest relative error at 8L: "
        + (", ".join(f"{m} {format_error(error)}" for m, error in short.items()) or "none")
        + ".",
        "Without the jet among its columns, and not missing it: "
        + listed([f"{m} on {t} ({format_error(e)})" for (t, m), e in close.items()] or ["none"])
        + ".",
        "Order alone is not enough: without damping, orders up to 3 leave at least "
        + " and ".join(f"{format_error(e)} of the variance of {t}" for t, e in undamped.items())
        + " at 8L.",
        f"Closest to {WEAK} of the fifteen is {weak}, relative error "
        f"{format_error(fits.error(WEAK, weak))} at 8L; the control {CONTROL} has "
        f"{format_error(fits.error(WEAK, CONTROL))}.",
        f"Far out nothing stands in for a missing asinh x: over the frequencies {cone} leaves "
        f"{_range(fits.errors('lc_affine', cone, 'L'))} of lc_affine's variance on d < L and "
        f"{_range(fits.errors('lc_affine', cone))} on d < 8L.",
        _smallest(fits, targets, methods),
        f"Where fp64 holds a teacher, fp32 leaves at most {format_error(narrow)} of its variance at "
        f"8L. The largest condition number is {condition[worst]:.0f}, of {worst}.",
    ]


def grape_sentences(fits: Fits) -> list[str]:
    """What the special cases explain near and far, and the smallest exact bases."""
    near, far = (1 - min(fits.error("jet_1", m, span) for m in SPECIAL) for span in ("L", "32L"))
    methods = (*SPECIAL, "jets_1", "jets_2", "lightcone")
    return [
        f"On d < L the best special case still explains {near:.3f} of x cos ωd, and {far:.3f} on "
        "d < 32L.",
        "Light-cone jets do not hold the phase either: relative error "
        f"{format_error(fits.error('phase', 'lightcone'))} at 32L.",
        _smallest(fits, ("phase", "recency", "jet_1", "jet_2", "lc_core"), methods),
    ]
