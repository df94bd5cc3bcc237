"""The explorer of chapter speed: what a fold's channels lose far from their origin."""

from __future__ import annotations

import math
from typing import Any

from .controls import Slider
from .figure import Curves, InteractiveFigure

BLOCK = 256  # queries that share an origin, as in the chapter
LONGEST = 32_768  # tokens
EPS = 2.0**-23  # of fp32: relative distance of neighboring numbers
FLOOR = 1e-12  # nats; smaller errors are drawn here, since no logarithm has room for zero

_FOLD_SCRIPT = """
const BLOCK = @BLOCK@, r = v.order, log10 = (x) => Math.log(x) / Math.LN10;
let factorial = 1;
for (let t = 2; t <= r; t++) factorial *= t;
const error = (u, w) => Math.max(@FLOOR@,
  2 * @EPS@ * Math.pow((Math.abs(u) + Math.abs(w)) / v.length, r) / factorial);
const far = [], near = [], allowed = [];
for (let p = BLOCK - 1; p < @LONGEST@; p += BLOCK) {
  far.push([p, log10(error(p, p - v.lag))]);
  near.push([p, log10(error(BLOCK - 1, BLOCK - 1 - v.lag))]);
  allowed.push([p, log10(@TOLERANCE@)]);
}
return {
  "one origin, at position 0": far,
  "an origin per block of 256": near,
  "what the library allows": allowed,
};
"""


def fold_error(u: float, w: float, order: int, length: float) -> float:
    """Bound on the rounding error of one folded jet ``x^r/r! cos(omega d)`` in fp32.

    Each of its products ``x_i^(r-s)/(r-s)! x_j^s/s!`` is rounded relative to its size; the sizes
    add up, by the binomial theorem, to ``2 eps (|u| + |w|)^r / (L^r r!)``.

    Args:
        u: position of the query minus the origin, tokens.
        w: position of the key minus the origin, tokens.
        order: r.
        length: L, tokens.

    Returns:
        nats.

    Limits: amplitude 1; the bias itself has rounding errors of its own.
    """
    return 2 * EPS * ((abs(u) + abs(w)) / length) ** order / math.factorial(order)


def fold_error_curves(
    length: float = 256, order: int = 2, lag: int = 8
) -> dict[str, tuple[list[int], list[float]]]:
    """:func:`fold_error` against the position of the query, for the last query of each block.

    Args:
        length: L, tokens.
        order: r.
        lag: distance of the key behind the query, tokens.

    Returns:
        label -> (positions, decimal logarithms of nats).
    """
    from ..attention.backends.fold import TOLERANCE

    order = int(order)
    at = list(range(BLOCK - 1, LONGEST, BLOCK))
    far = [math.log10(max(FLOOR, fold_error(p, p - lag, order, length))) for p in at]
    near = math.log10(max(FLOOR, fold_error(BLOCK - 1, BLOCK - 1 - lag, order, length)))
    return {
        "one origin, at position 0": (at, far),
        f"an origin per block of {BLOCK}": (at, [near] * len(at)),
        "what the library allows": (at, [math.log10(TOLERANCE)] * len(at)),
    }


def fold_errors() -> InteractiveFigure:
    """Rounding error of a fold against the position, with sliders for L, the order and the lag.

    Returns:
        A figure to end a notebook cell with.

    Chapter: speed.
    """
    from ..attention.backends.fold import TOLERANCE

    script = _FOLD_SCRIPT
    for name, value in (
        ("BLOCK", BLOCK),
        ("FLOOR", FLOOR),
        ("EPS", EPS),
        ("LONGEST", LONGEST),
        ("TOLERANCE", TOLERANCE),
    ):
        script = script.replace(f"@{name}@", str(value))

    def curves(**values: Any) -> Curves:
        return fold_error_curves(**values)

    return InteractiveFigure(
        curves,
        script,
        [
            Slider("length", "training length L (tokens)", 64, 4096, 64, 256),
            Slider("order", "order r of the jet", 0, 4, 1, 2),
            Slider("lag", "lag of the key (tokens)", 0, 255, 1, 8),
        ],
        xlabel="position of the query (tokens)",
        ylabel="rounding error (log10 nats)",
        ylim=(-12.5, 3.5),
        alt=(
            "Bound on the rounding error of a folded jet against the position of the query, on a "
            "logarithmic scale. With one origin at position 0 it grows with the position, the "
            "steeper the higher the order; with an origin per block it stays level, far below. "
            "At order 0 both are level. A third, horizontal line marks the largest error that "
            "the library allows."
        ),
        name="fold-errors",
    )
