"""Near-lag tables: a learned number for each of the last few tokens, or for each bucket of lags.

Functions that vanish beyond a finite lag are jets at the root 0: a power of the shift E kills them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._values import check_count, parameter, whole_lags
from .base import Claims, PositionKernel
from .characteristic import Root
from .growth import Growth, anywhere, jet_bound


class _Lookup(PositionKernel, register=False):
    """A learned table read by an integer that depends on the lag; it starts at 0."""

    claims = Claims(identity_at_zero=False)
    bias_heads: int

    def __init__(self, heads: int, entries: int, **arguments: int) -> None:
        super().__init__(heads=check_count("heads", heads), **arguments)
        self.bias_heads = heads
        self.table = parameter(torch.zeros(heads, entries, device="cpu"))

    @property
    def growth(self) -> Growth:
        return Growth(self._bound, anywhere, degree=0)

    def _bound(self, distance: float) -> float:
        return jet_bound(self.table.reshape(-1, 1), None, 0.0)


def read_table(table: Tensor, lags: Tensor) -> Tensor:
    """``table[:, |lag|]``, 0 beyond its end: ``(H, size)`` and ``(n,)`` to ``(H, n)``."""
    d, size = lags.abs().to(torch.int64), table.shape[1]
    return table[:, d.clamp(max=size - 1)] * (d < size)


class NearTable(_Lookup):
    """A free bias for each of the nearest lags, ``b_h(d) = t_h[d]`` for d < size, 0 beyond.

    Beside a kernel that knows where a token is only roughly, it tells the last few tokens apart.

    Args:
        heads: query heads H.
        size: lags 0 … size-1 have a number each; all start at 0.

    Raises:
        ValueError: a count below 1.

    Limits: root 0 of multiplicity ``size``. The shift is singular on such functions, so no channel
        action and no fold makes them: bias or convolution are the two ways to have them.

    Reference: a Toeplitz band; Shaw and others, Self-attention with relative position
        representations (2018), clip lags alike. Chapter: ch-union.
    """

    def __init__(self, heads: int, size: int) -> None:
        super().__init__(heads, check_count("size", size), size=size)
        self.size = size

    def lag_bias(self, lags: Tensor) -> Tensor:
        return read_table(self.table, whole_lags(lags))

    def roots(self) -> list[list[Root]]:
        return [[Root(0, self.size)] for _ in range(self.bias_heads or 0)]


def t5_buckets(buckets: int, far: int) -> Tensor:
    """T5's bucket of each lag 0 … far, for attention to the past.

    The first half of the buckets holds one lag each; bucket ``m + k`` of the m others begins at the
    first lag d with ``m (far/m)^(k/n) <= d``, where ``m = floor(buckets / 2)`` and ``n = buckets - m``;
    the last also holds all lags from ``far`` on.

    Args:
        buckets: how many, >= 2.
        far: lag from which all share the last bucket, above m.

    Returns:
        ``(far + 1,)`` int64, never falling.

    Raises:
        ValueError: too few buckets, or a ``far`` that leaves the logarithmic ones no room.

    Limits: compares integers, so a lag on the border of two buckets is in the farther one; code that
        takes logarithms in fp32 rounds some of them into the nearer one.

    Reference: Raffel and others, T5 (2020), and its published code with ``bidirectional=False``.
    """
    check_count("buckets", buckets, least=2)
    m = buckets // 2
    n = buckets - m
    check_count("far", far, least=m + 1)
    found, bucket = [], 0
    for d in range(far + 1):
        if d < m:
            bucket = d
        else:
            bucket = max(bucket, m)
            while bucket < buckets - 1 and d**n >= m ** (n - bucket - 1 + m) * far ** (
                bucket + 1 - m
            ):
                bucket += 1
        found.append(bucket)
    return torch.tensor(found, device="cpu")


class T5Bias(_Lookup):
    """T5's bias, ``b_h(d) = t_h[bucket(d)]``: near lags one by one, far ones in logarithmic buckets.

    Args:
        heads: query heads H.
        buckets: entries of the table; half of them are single lags. All start at 0.
        far: lag from which all share the last bucket, tokens.

    Raises:
        ValueError: counts that :func:`t5_buckets` refuses.

    Limits: constant from ``far`` on, so far keys are told apart by their content alone. As a function
        of the lag it has the root 1 once and the root 0 as often as lags lie before its last step.

    Reference: Raffel and others, T5 (2020), section 2.1. Chapter: ch-alibi.
    """

    def __init__(self, heads: int, buckets: int = 32, far: int = 128) -> None:
        of_lag = t5_buckets(buckets, far)
        super().__init__(heads, buckets, buckets=buckets, far=far)
        self.far = far
        self.last_step = int((of_lag < of_lag[-1]).sum())
        self.of_lag = (
            of_lag  # no buffer: it follows from the arguments and has no precision to lose
        )

    def lag_bias(self, lags: Tensor) -> Tensor:
        d = whole_lags(lags).clamp(max=self.far)
        return self.table[:, self.of_lag.to(d.device)[d]]

    def roots(self) -> list[list[Root]]:
        return [[Root(0, self.last_step), Root(1)] for _ in range(self.bias_heads or 0)]
