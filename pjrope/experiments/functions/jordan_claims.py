"""Claims J-K1 to J-K3 from the probes' fits. The rules were written after the records were made."""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis.claims import Outcome, Verdict
from .least_squares import HELD, NEAR, Fits, error_of, format_error

PAPER = (  # the reference's eleven bases
    *("none", "rope", "alibi", "rope_alibi", "damped", "real_jordan", "direct_sum"),
    *("jordan_bounded", "jordan_bounded_undamped", "jordan_exact", "jordan_bounded_m3"),
)
CONTROLS = ("rope_full", "rope_fine2", "rope_split2", "jordan_undamped", "jordan_matched")
UNCOUPLED = tuple(m for m in (*PAPER, *CONTROLS) if not m.startswith("jordan_"))
FAMILY = ("seasonal_trend", "damped_wave", "rhythm_envelope")  # in the span of order 2
STRUCTURES = ("phase_drift", *FAMILY, "motif_spacing")
JETS = ("jet_1", "jet_2", "jet_3")
# One basis for each order, with the target's damping; order 1 is RoPE.
ORDERS = {1: "rope", 2: "jordan_matched", 3: "jordan_matched_m3", 4: "jordan_matched_m4"}
BOUNDED = ("jordan_bounded", "jordan_bounded_m3", "jordan_bounded_m4")
SCALED = {3: "jordan_scaled_m3", 4: "jordan_scaled_m4"}
SPLIT = {2: "rope_split2", 3: "rope_split3", 4: "rope_split4"}
EXACT, MATCHED = "jordan_exact", "jordan_matched"


def product_claim(fits: Fits) -> Verdict:
    """J-K1: the exact Jordan basis has the lowest error on x cos wd.

    Rule: *contradicted* if a basis without a coupled block holds the product at 8 L, or if the one
    with the target's damping does not. *Reproduced* if that one does with the paper's ridge of
    1e-4, and the paper's own, whose damping is another, is below all without a coupled block;
    *in part* if it takes another damping or a smaller ridge.
    """
    best = fits.ranking("mixed", UNCOUPLED)[0]
    outcome: Outcome = "contradicted"
    if fits.held("mixed", [best]):
        because = f"{best} holds the product at 8 L without a Jordan block"
    elif fits.error("mixed", MATCHED, solver="QR 1e-10") > HELD:
        because = "not even the Jordan basis with the target's damping holds the product at 8 L"
    elif not fits.held("mixed", [MATCHED]):
        outcome = "reproduced in part"
        because = "the paper's ridge of 1e-4 spoils the Jordan basis with the target's damping"
    elif fits.error("mixed", EXACT) > fits.error("mixed", best):
        outcome = "reproduced in part"
        because = "the Jordan basis with the target's damping holds the product at 8 L; with the "
        because += f"paper's damping it is behind {best}"
    else:
        outcome = "reproduced"
        because = "the Jordan basis holds the product at 8 L, and no basis without a block does"
    found = [fits.finding("mixed", method) for method in (MATCHED, EXACT, best)]
    return Verdict("J-K1", outcome, because, fits.evidence(*found))


def product_sentences(fits: Fits) -> list[str]:
    """What a foreign damping, the ridge and the number of columns do."""
    left = {m: fits.error("mixed", m) for m in (EXACT, *CONTROLS)}
    less = {m: fits.error("mixed", m, solver="QR 1e-10") for m in (EXACT, MATCHED, "rope")}
    columns = ", ".join(
        f"{m} has {format_error(left[m])}" for m in CONTROLS if m.startswith("rope")
    )
    return [
        f"{EXACT} carries a damping that the target has not: its relative error at 8L is "
        f"{format_error(left[EXACT])}, and {format_error(less[EXACT])} with ridge 1e-10, where "
        f"{MATCHED} has {format_error(less[MATCHED])} and rope {format_error(less['rope'])}.",
        f"RoPE with as many columns: {columns} at 8L.",
        f"On the plain distance -x, {EXACT} has {format_error(fits.error('linear', EXACT))} at 8L "
        f"and alibi {format_error(fits.error('linear', 'alibi'))}.",
    ]


def structure_claim(fits: Fits) -> Verdict:
    """J-K2, on lag functions: the coupled basis also fits structured targets.

    Rule: *reproduced* if at 8 L the basis with the target's damping holds all five targets and
    RoPE none; *in part* if it holds those of its family alone; *contradicted* otherwise.
    """
    held = [t for t in STRUCTURES if fits.held(t, [MATCHED])]
    rope = [t for t in STRUCTURES if fits.held(t, ["rope"])]
    outcome: Outcome = "contradicted"
    if {*FAMILY} <= {*held} and not rope:
        outcome = "reproduced" if len(held) == len(STRUCTURES) else "reproduced in part"
    missed = [t for t in STRUCTURES if t not in held]
    because = f"the basis with the target's damping holds {len(held)} of {len(STRUCTURES)} at 8 L, "
    because += f"rope {len(rope)}" + (f"; not held: {', '.join(missed)}" if missed else "")
    found = [fits.finding(target, MATCHED) for target in STRUCTURES]
    return Verdict("J-K2", outcome, because, fits.evidence(*found))


def structure_sentences(fits: Fits) -> list[str]:
    """The paper's own basis beside RoPE, and beside RoPE with as many columns."""

    def errors(method: str) -> str:
        return ", ".join(f"{t} {format_error(fits.error(t, method))}" for t in STRUCTURES)

    near, far = (sum(fits.error(t, EXACT, s) < NEAR for t in STRUCTURES) for s in ("L", "8L"))
    bounded = min(fits.error(t, "jordan_bounded") for t in STRUCTURES[1:])
    ahead = [t for t in STRUCTURES if fits.ranking(t, (EXACT, "rope_split2"))[0] != EXACT]
    return [
        f"{EXACT}, with a fixed small damping, is below 1 % on {near} of {len(STRUCTURES)} targets at "
        f"L and on {far} at 8L: {errors(EXACT)}; rope: {errors('rope')}.",
        f"With the saturating lag, jordan_bounded has {format_error(bounded)} or more at 8L on the "
        "four targets whose amplitude changes.",
        f"RoPE with as many columns, rope_split2, is below {EXACT} at 8L on {len(ahead)} "
        f"({', '.join(ahead) or 'none'}).",
    ]


def hierarchy_claim(fits: Fits) -> Verdict:
    """J-K3: the chain of order m spans d^r e^{iwd} exactly for r < m.

    Rule: at 8 L, without a ridge, the relative error of order m must be below 1e-9 for r < m and
    above 0.01 for r >= m, with m = 1 … 4 and r = 1, 2, 3. *Reproduced* if all twelve hold; *in
    part* if they do and ridge 1e-4 spoils one of r < m; *contradicted* otherwise.
    """
    inside = [(f"jet_{r}", ORDERS[m]) for m in ORDERS for r in (1, 2, 3) if r < m]
    outside = [(f"jet_{r}", ORDERS[m]) for m in ORDERS for r in (1, 2, 3) if r >= m]
    held = sum(fits.error(*pair, solver="QR") < HELD for pair in inside)
    missed = sum(fits.error(*pair, solver="QR") > NEAR for pair in outside)
    worst = {s: max(fits.error(*pair, solver=s) for pair in inside) for s in ("QR", "QR 1e-4")}
    outcome: Outcome = "reproduced in part" if worst["QR 1e-4"] > HELD else "reproduced"
    because = f"without a ridge {held} of {len(inside)} jets with r < m are held at 8 L and "
    because += f"{missed} of {len(outside)} with r >= m missed"
    if held < len(inside) or missed < len(outside):
        outcome = "contradicted"
    elif outcome != "reproduced":
        because += "; the paper's ridge of 1e-4 spoils one"
    found = [error_of(f"worst with r < m, {name}", error) for name, error in worst.items()]
    return Verdict("J-K3", outcome, because, fits.evidence(*found))


def hierarchy_sentences(fits: Fits) -> list[str]:
    """What a saturating lag, a foreign damping and split frequencies leave."""
    bounded = min(fits.error(jet, method) for jet in JETS[1:] for method in BOUNDED)

    def highest(names: Mapping[int, str], solver: str) -> str:
        """Errors of bases by order m on the highest jet of each, m - 1."""
        errors = {m: fits.error(f"jet_{m - 1}", name, solver=solver) for m, name in names.items()}
        return ", ".join(f"{format_error(e)} on jet_{m - 1} (order {m})" for m, e in errors.items())

    return [
        "With the saturating lag, for r = 2 and 3, the bases of order 2 to 4 have "
        f"{format_error(bounded)} or more at 8L.",
        "With a damping that the target has not, e^(-0.1x): "
        f"{highest(SCALED, 'QR 1e-4')} at 8L, ridge 1e-4.",
        "A Jordan block is a limit of close frequencies. RoPE with each frequency split in m: "
        f"{highest(SPLIT, 'QR 1e-10')} at 8L, ridge 1e-10.",
    ]
