"""Oracles: every kernel once more, one pair and one number at a time, in Python's own floats.

Slow on purpose and free of torch arithmetic, so that a shared mistake cannot hide. Tests compare
the kernels with these; nothing else imports them.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence


def rope_ladder(dim: int, base: float = 10_000.0) -> list[float]:
    """``base^(-2k/D)`` for k = 0 … D/2-1."""
    return [base ** (-2 * k / dim) for k in range(dim // 2)]


def rope_rotate(
    x: Sequence[float], position: int, omega: Sequence[float], layout: str = "interleaved"
) -> list[float]:
    """One token's channels turned by ``+omega_k position``, as complex numbers."""
    n = len(omega)
    pairs = [(2 * k, 2 * k + 1) if layout == "interleaved" else (k, k + n) for k in range(n)]
    out = list(x)
    for (re, im), w in zip(pairs, omega, strict=True):
        z = complex(x[re], x[im]) * cmath.exp(1j * w * position)
        out[re], out[im] = z.real, z.imag
    return out


def rope_score(q: Sequence[float], k: Sequence[float], lag: int, omega: Sequence[float]) -> float:
    """``Re sum_k conj(q_k) k_k e^{-i omega_k lag}``, interleaved channels."""
    total = 0.0
    for n, w in enumerate(omega):
        a, b = complex(q[2 * n], q[2 * n + 1]), complex(k[2 * n], k[2 * n + 1])
        total += (a.conjugate() * b * cmath.exp(-1j * w * lag)).real
    return total


def alibi_slope(head: int, heads: int) -> float:
    """Slope of one head by the paper's recursive rule."""
    below = 2 ** math.floor(math.log2(heads))
    if head < below:
        return 2.0 ** (-8.0 * (head + 1) / below)
    return alibi_slope(2 * (head - below), 2 * below)


def t5_bucket(lag: int, buckets: int, far: int) -> int:
    """T5's bucket of a lag into the past, by the published formula with logarithms.

    ``lag`` itself below ``m = floor(buckets / 2)``, else ``m + floor(log(lag/m) / log(far/m)
    (buckets - m))``, at most ``buckets - 1``; borders of buckets are rounded to 12 digits first.
    """
    m = buckets // 2
    if lag < m:
        return lag
    share = math.log(lag / m) / math.log(far / m)
    return min(buckets - 1, m + math.floor(round(share * (buckets - m), 12)))


def fourier_jet(
    lag: int, length: float, omega: float, damping: float, order: int, zeta: complex
) -> float:
    """``Re zeta (d/L)^r / r! e^{-c d/L} e^{i omega d}`` at one lag."""
    x = lag / length
    amplitude = x**order / math.factorial(order) * math.exp(-damping * x)
    return (zeta * amplitude * cmath.exp(1j * omega * lag)).real


def light_cone(lag: int, length: float, omega: float, order: int, zeta: complex) -> float:
    """``Re zeta beta^r e^{i omega L asinh(d/L)}`` at one lag."""
    beta = lag / math.hypot(lag, length)
    return (zeta * beta**order * cmath.exp(1j * omega * length * math.asinh(lag / length))).real


def jordan_score(
    q: Sequence[float],
    k: Sequence[float],
    lag: int,
    omega: float,
    gamma: float,
    shear: float,
    order: int,
) -> float:
    """``Re sum_{r<=c} conj(q_r) k_c e^{-(gamma + i omega) lag} shear^(c-r)/(c-r)!``, one block.

    Args:
        shear: eta times the shear time of this pair, no unit.
    """
    a = [complex(q[2 * r], q[2 * r + 1]) for r in range(order)]
    b = [complex(k[2 * r], k[2 * r + 1]) for r in range(order)]
    total = 0j
    for r in range(order):
        for c in range(r, order):
            total += a[r].conjugate() * b[c] * shear ** (c - r) / math.factorial(c - r)
    return (total * cmath.exp(-(gamma + 1j * omega) * lag)).real


def pj_rotary_score(
    q: Sequence[float],
    k: Sequence[float],
    lag: int,
    length: float,
    order: int = 2,
    eta: float = 1.0,
    base: float = 10_000.0,
) -> float:
    """``Re sum_b e^{-i w_b lag} sum_{s<=r} conj(q_r) k_{r-s} (eta lag/L)^s/s!``, a whole head."""
    size, total = 2 * order, 0j
    blocks = len(q) // size
    for b in range(blocks):
        a, c = q[b * size : (b + 1) * size], k[b * size : (b + 1) * size]
        turn = cmath.exp(-1j * base ** (-b / blocks) * lag)
        for r in range(order):
            for s in range(r + 1):
                left = complex(a[2 * r], -a[2 * r + 1])
                right = complex(c[2 * (r - s)], c[2 * (r - s) + 1])
                total += turn * left * right * (eta * lag / length) ** s / math.factorial(s)
    return total.real


def lightcone_jordan_score(
    q: Sequence[float],
    k: Sequence[float],
    i: int,
    j: int,
    length: float,
    omega: Sequence[float],
    order: int,
    c: float,
    eta: float,
    parts: str,
) -> float:
    """A Jordan block turned by ``L asinh(p/L)``, damped and sheared by ``beta(p)``, or one of both.

    ``Re sum_b e^{-c u - i omega_b t} sum_{r<=s} conj(q_r) k_s (eta u)^{s-r}/(s-r)!`` with the
    differences of the two coordinates, t and u, from query to key.
    """
    turn = (
        (i - j)
        if parts == "amplitude"
        else length * (math.asinh(i / length) - math.asinh(j / length))
    )
    beta = [p / math.sqrt(p * p + length * length) for p in (i, j)]
    u = (i - j) / length if parts == "phase" else beta[0] - beta[1]
    total = 0j
    for b, w in enumerate(omega):
        a, x = (side[2 * order * b : 2 * order * (b + 1)] for side in (q, k))
        for r in range(order):
            for s in range(r, order):
                left, right = complex(a[2 * r], -a[2 * r + 1]), complex(x[2 * s], x[2 * s + 1])
                shear = (eta * u) ** (s - r) / math.factorial(s - r)
                total += cmath.exp(-1j * w * turn) * left * right * shear
    return math.exp(-c * u) * total.real


def jordan_matrix_score(
    q: Sequence[float],
    k: Sequence[float],
    lag: int,
    omega: float,
    gamma: float,
    eta: float,
    order: int,
    terms: int = 60,
) -> float:
    """``q^T exp(d J) k`` with the real ``2m x 2m`` matrix J, by scaling and squaring a power series.

    ``J = (-gamma - i omega) I + eta N`` on (re, im) pairs. Independent of any closed form.
    """
    n = 2 * order
    generator = [[0.0] * n for _ in range(n)]
    for r in range(order):
        for part in range(2):
            generator[2 * r + part][2 * r + part] = -gamma
            if r + 1 < order:
                generator[2 * r + part][2 * r + 2 + part] = eta
        generator[2 * r][2 * r + 1], generator[2 * r + 1][2 * r] = omega, -omega
    halvings = max(0, math.ceil(math.log2(max(1e-9, abs(lag) * (omega + gamma + eta)))) + 1)
    step = [[lag * g / 2**halvings for g in row] for row in generator]
    power = total = [[float(i == j) for j in range(n)] for i in range(n)]
    for term in range(1, terms):
        power = [[x / term for x in row] for row in _product(power, step)]
        total = [
            [x + y for x, y in zip(a, b, strict=True)] for a, b in zip(total, power, strict=True)
        ]
    for _ in range(halvings):
        total = _product(total, total)
    return sum(q[i] * total[i][j] * k[j] for i in range(n) for j in range(n))


def _product(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    return [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)]
        for row in a
    ]


def softmax(values: Sequence[float]) -> list[float]:
    """Plain softmax of a few numbers."""
    exponentials = [math.exp(v - max(values)) for v in values]
    return [e / sum(exponentials) for e in exponentials]


def softplus(value: float) -> float:
    """``ln(1 + e^x)``."""
    return math.log1p(math.exp(-abs(value))) + max(value, 0.0)


def pj_bias(lag: int, length: float, parameters: dict[str, list], head: int) -> float:
    """PJ-bias of one head at one lag, all three sectors, from raw parameter lists."""
    p = {name: values[head] for name, values in parameters.items()}
    g_fj, g_affine, g_lc = softmax(p["gate_logits"])
    c, s = softplus(p["raw_fj_damping"]), softplus(p["raw_affine_slope"])
    total = -g_affine * s * lag / length
    for r, (a, b) in enumerate(
        zip(softmax(p["fj_alpha_logits"]), softmax(p["lc_alpha_logits"]), strict=True)
    ):
        fj = complex(p["fj_zeta_re"][r], p["fj_zeta_im"][r])
        lc = complex(p["lc_zeta_re"][r], p["lc_zeta_im"][r])
        total += g_fj * fourier_jet(lag, length, p["omega"], c, r, a * fj)
        total += g_lc * light_cone(lag, length, p["omega"], r, b * lc)
    return total


def attention(
    q: Sequence[Sequence[float]],
    k: Sequence[Sequence[float]],
    v: Sequence[Sequence[float]],
    logit_bias: Sequence[Sequence[float]],
    keep: Sequence[Sequence[bool]],
    scale: float,
) -> list[list[float]]:
    """Softmax attention of one head, row by row; a row that may see nothing gives zeros."""
    out = []
    for i, query in enumerate(q):
        logits = [
            scale * sum(a * b for a, b in zip(query, key, strict=True)) + logit_bias[i][j]
            for j, key in enumerate(k)
            if keep[i][j]
        ]
        values = [v[j] for j in range(len(k)) if keep[i][j]]
        weights = softmax(logits) if logits else []
        out.append(
            [sum(w * x[c] for w, x in zip(weights, values, strict=True)) for c in range(len(v[0]))]
        )
    return out
