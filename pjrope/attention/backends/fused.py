"""torch's attention kernel, kept on its fused path and differentiable as often as one likes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from .loop import transformed

_FLASH: Any = SDPBackend.FLASH_ATTENTION


def fused_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """``scaled_dot_product_attention`` of channels that may differ in number.

    torch computes all N x N weights at once where values are narrower or wider than keys, as they
    are when a kernel returns more channels than it got: empty channels keep it from that.

    Args:
        q, k: ``(B, H, Q, D)`` and ``(B, H, K, D)``.
        v: ``(B, H, K, Dv)``.
        options: of the torch function; ``scale`` must be among them.

    Returns:
        ``(B, H, Q, Dv)``.
    """
    width = max(q.shape[-1], v.shape[-1])
    q, k, w = (x if x.shape[-1] == width else pad(x, (0, width - x.shape[-1])) for x in (q, k, v))
    return _attention(q, k, w, **options)[..., : v.shape[-1]]


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    options: dict[str, Any] = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale}
    wanted = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    by_torch = torch.compiler.is_compiling() or q.device.type != "cpu" or transformed()
    if not wanted or by_torch or torch._fused_sdp_choice(q, k, v, **options) != int(_FLASH):
        return scaled_dot_product_attention(q, k, v, **options)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = attn_mask.new_zeros((), dtype=q.dtype).masked_fill(~attn_mask, -torch.inf)
    found: Tensor = _Flash.apply(q, k, v, attn_mask, is_causal, scale)
    return found


class _Flash(torch.autograd.Function):
    """torch's CPU kernel, whose gradient torch itself cannot differentiate in turn."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        run = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, sums = run(q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale)
        ctx.save_for_backward(q, k, v, mask, out, sums)
        ctx.is_causal, ctx.scale = is_causal, scale
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, mask, out, sums = ctx.saved_tensors
        options: dict[str, Any] = {"attn_mask": mask, "scale": ctx.scale}
        if not torch.is_grad_enabled():
            run = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
            return *run(grad, q, k, v, out, sums, 0.0, ctx.is_causal, **options), None, None, None
        # The gradient is to be differentiated in turn: the same attention with its weights stored.
        with sdpa_kernel(SDPBackend.MATH):
            again = scaled_dot_product_attention(q, k, v, is_causal=ctx.is_causal, **options)
        wanted = [x for x in (q, k, v) if x.requires_grad]
        found = iter(torch.autograd.grad(again, wanted, grad, create_graph=True))
        return *(next(found) if x.requires_grad else None for x in (q, k, v)), None, None, None


def near_rows(rows: int, keys: int, like: Tensor, far: int = 0) -> Tensor:
    """Mask of a block of queries, last one first, whose last one sees all ``keys`` but the first.

    Row r hides the last r keys, so all rows are windows of one line of zeros that ends in -inf: a
    fused kernel reads the view as fast as no mask, which it does not do with a boolean one.

    Args:
        rows: queries of the block.
        keys: keys up to the last one that its last query sees.
        like: gives number type and device.
        far: leading keys that the last query does not see; each row before it sees one more.

    Returns:
        ``(rows, keys)``, to be added to the logits of the block in reverse order.
    """
    line = pad(like.new_zeros(keys - far), (far, rows - 1), value=-torch.inf)
    return line.unfold(0, keys, 1)
