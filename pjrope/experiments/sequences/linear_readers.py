"""What a linear read-out of one frequency can score on the lag languages, worked out on paper.

A reader who forms ``sum_d w(d) s(d)`` agrees in sign with ``sum_d K(d) s(d)`` with probability
``1 - arccos(rho) / pi``, where rho is the cosine between w and K: both sums are nearly normal. A
guide and no bound: softmax layers multiply what they add up in a logit, and so can do better.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...positions.coordinates import bounded_shear
from .language import lag_weights

# Span of a kernel of one frequency: order of its block, shear time, and c of its damping e^(-cd/L).
SPANS: dict[str, tuple[int, str, float]] = {
    "rope": (1, "exact", 0.0),
    "damped_c1": (1, "exact", 1.0),
    "damped_c01": (1, "exact", 0.1),
    "lag": (2, "lag", 0.0),
    "stabilized": (2, "stabilized", 0.0),
    "exact": (2, "exact", 0.0),
    "exact_order3": (3, "exact", 0.0),
    "scaled_c1": (2, "exact", 1.0),
    "scaled_c01": (2, "exact", 0.1),
}


def readout_accuracy(target: Tensor, columns: Tensor) -> float:
    """Largest ``1 - arccos(rho) / pi`` over the span of columns.

    Args:
        target: ``(n,)`` K at each lag.
        columns: ``(n, k)`` of full rank, k <= n.

    Returns:
        Between 1/2, for a target orthogonal to the span, and 1, for one inside it.
    """
    basis = torch.linalg.qr(columns.double()).Q
    rho = float((basis.T @ target.double()).norm() / target.double().norm())
    return 1 - math.acos(min(1.0, rho)) / math.pi


def span(name: str, longest: int, length: int, omega: float) -> Tensor:
    """Lag functions that a kernel of one frequency offers to the last token.

    Args:
        name: one of ``SPANS``.
        longest: last lag, tokens.
        length: L, tokens.
        omega: radians per token.

    Returns:
        ``(longest, 2 order)`` fp64 at the lags 1 … longest:
        ``e^(-cd/L) t^k cos(omega d)`` and ``… sin(omega d)``, k < order.

    Raises:
        ValueError: an unknown name.
    """
    if name not in SPANS:
        raise ValueError(f"span {name!r}: there are {', '.join(SPANS)}")
    order, form, c = SPANS[name]
    lags = torch.arange(1, longest + 1, dtype=torch.float64)
    if form == "exact":
        time = lags / length
    elif form == "lag":
        time = bounded_shear(lags, length) / length
    else:  # the last token stands at position `longest`, a key of lag d at `longest - d`
        ends = torch.tensor([longest], dtype=torch.float64)
        time = (bounded_shear(ends, length) - bounded_shear(longest - lags, length)) / length
    damping, phase = torch.exp(-c * lags / length), omega * lags
    waves = [damping * phase.cos(), damping * phase.sin()]
    return torch.stack([time**k * wave for k in range(order) for wave in waves], dim=1)


def readout_ceiling(target: str, name: str, times: int, length: int, omega: float) -> float:
    """Accuracy of the best linear read-out in a span at ``times`` the training length.

    Args:
        target: one of ``LAG_FUNCTIONS``.
        name: one of ``SPANS``.
        times: T / L.
        length: L, tokens.
        omega: radians per token, of target and span.
    """
    longest = times * length - 1
    return readout_accuracy(
        lag_weights(target, longest, length, omega), span(name, longest, length, omega)
    )
