"""A kernel's bias as plain numbers: a tensor for torch's attention, an array for NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..conventions import as_positions
from ..kernels.base import PositionKernel
from ..positions.lags import lags as lags_between


def needs_bias(kernel: PositionKernel) -> None:
    """Raise unless all that a kernel does is to add a bias.

    Raises:
        ValueError: a kernel that acts on channels or defines whole scores, or one without a bias.
    """
    if kernel.rotates or kernel.scored:
        what = "acts on the channels" if kernel.rotates else "defines whole scores"
        raise ValueError(
            f"{type(kernel).__name__} {what}, and a bias alone fits here: use pjrope.attend"
        )
    if not kernel.biases:
        raise ValueError(f"{type(kernel).__name__} has no bias: use one such as ALiBi(heads)")


def bias_tensor(
    kernel: PositionKernel,
    queries: int,
    keys: int | None = None,
    *,
    q_pos: Tensor | None = None,
    k_pos: Tensor | None = None,
    causal: bool = True,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """The bias of every pair, to be given to ``scaled_dot_product_attention`` as ``attn_mask``.

    Args:
        kernel: a kernel that does nothing but bias.
        queries: Q.
        keys: K, default Q.
        q_pos: ``(Q,)`` integers, tokens; default the last Q of ``0 … K-1``.
        k_pos: ``(K,)`` integers, tokens; default ``0 … K-1``.
        causal: keys ahead of their query, by position, get minus infinity.
        dtype: of the result, that of the queries it is for; default fp32.

    Returns:
        ``(1, H, Q, K)`` on the kernel's device.

    Raises:
        ValueError: a kernel that does more than bias, or fewer keys than queries.

    Limits: Q x K numbers a head; :func:`pjrope.attend` needs one number a lag and head. A query that sees
    nothing has a row of minus infinity, of which torch's attention makes zeros.
    """
    needs_bias(kernel)
    keys = queries if keys is None else keys
    if not 0 < queries <= keys:
        raise ValueError(f"{queries} queries and {keys} keys: 1 <= queries <= keys is needed")
    device = next((x.device for x in (*kernel.parameters(), *kernel.buffers())), None)
    rows, columns = torch.arange(keys - queries, keys), torch.arange(keys)
    q_pos = rows if q_pos is None else as_positions(q_pos, "q_pos")
    k_pos = columns if k_pos is None else as_positions(k_pos, "k_pos")
    if q_pos.shape != (queries,) or k_pos.shape != (keys,):
        raise ValueError(
            f"q_pos {tuple(q_pos.shape)} and k_pos {tuple(k_pos.shape)}: ({queries},) and "
            f"({keys},) are needed"
        )
    pairs = lags_between(q_pos.to(device), k_pos.to(device))
    known, where = torch.unique(pairs, return_inverse=True)
    values = kernel.lag_bias(known)
    assert values is not None  # needs_bias has seen that there is one
    found = values.to(torch.float32 if dtype is None else dtype)[:, where]
    if causal:
        found = found.masked_fill(pairs < 0, float("-inf"))
    return found[None]


def to_numpy(kernel: PositionKernel, lags: Any) -> np.ndarray:
    """The bias of a kernel at some lags, as a NumPy array.

    Args:
        kernel: any kernel with a bias; what it does to channels is left out.
        lags: integers, tokens; a number, a list or an array of any shape.

    Returns:
        ``(H, *shape of lags)`` fp64.

    Raises:
        ValueError: a kernel without a bias, or lags that are no integers.
    """
    if not kernel.biases:
        raise ValueError(f"{type(kernel).__name__} has no bias: use one such as ALiBi(heads)")
    at = np.asarray(lags)
    if not np.issubdtype(at.dtype, np.integer):
        raise ValueError(f"lags are {at.dtype}, whole tokens are needed: use integers")
    device = next((x.device for x in (*kernel.parameters(), *kernel.buffers())), None)
    with torch.no_grad():
        found = kernel.lag_bias(torch.as_tensor(at.reshape(-1), dtype=torch.int64, device=device))
    assert found is not None  # it says that it biases
    return found.double().cpu().numpy().reshape(-1, *at.shape)
