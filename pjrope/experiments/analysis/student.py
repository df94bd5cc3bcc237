"""Student's t distribution for whole degrees of freedom.

Our own, as every command that shows a record needs it and must run where SciPy, which comes with
`pjrope[book]`, is not installed; a test compares it with `scipy.stats.t`.
"""

from __future__ import annotations

import math

from ..engine.plain_json import ExperimentError

__all__ = ["t_cdf", "t_quantile"]


def t_cdf(t: float, df: int) -> float:
    """Return P(T ≤ t) of Student's t for a whole number of degrees of freedom, exactly.

    With θ = atan(t/√df) and c = cos θ, P(|T| ≤ t) is sin θ (1 + c²/2 + 3c⁴/8 + …) for even df and
    2/π (θ + sin θ (c + 2c³/3 + …)) for odd df; both sums are finite.

    Reference: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    theta = math.atan(t / math.sqrt(df))
    cosine = math.cos(theta)
    odd = df % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(2 + odd, df + 1, 2):
        total += term
        term *= cosine**2 * (k - 1) / k
    inside = math.sin(theta) * total
    if odd:
        inside = (theta + inside) * 2 / math.pi
    return 0.5 + 0.5 * inside


def t_quantile(p: float, df: int) -> float:
    """Return the t with P(T ≤ t) = p of Student's t, by bisection on the exact distribution.

    Args:
        p: probability, 0 < p < 1.
        df: degrees of freedom, a whole number ≥ 1.

    Raises:
        ExperimentError: for p or df outside these.
    """
    if not 0 < p < 1 or df != int(df) or df < 1:
        raise ExperimentError(f"t_quantile({p}, {df}): allowed are 0 < p < 1 and whole df >= 1")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < p:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if t_cdf(middle, df) < p else (low, middle)
    return middle
