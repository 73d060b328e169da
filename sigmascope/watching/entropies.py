"""Entropies of attention, from the arguments of the functions that make it.

Over the entropy of as many equal keys as are in sight, so that 1 is attention to all alike and 0 to
one alone.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

QUERIES = 8  # of a sample, evenly spaced
HIDDEN = -6e4  # scores below it are those of masks, in half precision too


def of_products(
    out: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    **_: Any,
) -> Tensor | None:
    """Of `scaled_dot_product_attention`, whose arguments these are; some queries of each sample."""
    if query.ndim != 4 or key.shape[-2] < 2:
        return None
    q, k = query.detach().float(), key.detach().float()
    if enable_gqa:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    at = _some(q.shape[-2], q.device)
    scores = q[:, :, at] @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        later = torch.arange(k.shape[-2], device=q.device) > at[:, None]
        scores = scores.masked_fill(later, -math.inf)
    if attn_mask is not None:
        added = _added(attn_mask.detach(), hidden=False)
        scores = scores + (added[..., at, :] if added.shape[-2] > 1 else added)
    return _entropy(scores.softmax(-1), scores > HIDDEN)


def of_heads(
    out: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    *_: Any,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    **__: Any,
) -> Tensor | None:
    """Of `multi_head_attention_forward`, as `nn.MultiheadAttention` calls it, with one weight."""
    if in_proj_weight is None or query.ndim != 3 or key.shape[0] < 2:
        return None
    d = embed_dim_to_check
    biases = (None, None) if in_proj_bias is None else (in_proj_bias[:d], in_proj_bias[d : 2 * d])
    weights = (in_proj_weight[:d], in_proj_weight[d : 2 * d])
    pairs = zip((query, key), weights, biases, strict=True)
    q, k = (
        F.linear(x, w, b).unflatten(-1, (num_heads, -1)).permute(1, 2, 0, 3) for x, w, b in pairs
    )
    mask = None
    if attn_mask is not None:
        mask = _added(attn_mask, hidden=True)
        mask = mask.unflatten(0, (-1, num_heads)) if mask.ndim == 3 else mask
    if key_padding_mask is not None:
        padding = _added(key_padding_mask, hidden=True)[:, None, None]
        mask = padding if mask is None else mask + padding
    return of_products(out, q, k, k, mask)


def _added(mask: Tensor, *, hidden: bool) -> Tensor:
    """What is added to scores; a mask of yes and no is true where keys are hidden, or where not."""
    if mask.dtype != torch.bool:
        return mask.float()
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(mask == hidden, -math.inf)


def of_softmax(
    out: Tensor, input: Tensor, dim: int | None = None, *_: Any, **__: Any
) -> Tensor | None:
    """Of a softmax over the keys of `[batch, heads, queries, keys]`."""
    scores = input
    if out.ndim != 4 or dim not in (-1, 3) or out.shape[-1] < 2:
        return None
    at = _some(out.shape[-2], out.device)
    scores = scores.detach().float()[:, :, at]
    return _entropy(out.detach().float()[:, :, at], scores > HIDDEN)


def _entropy(p: Tensor, seen: Tensor) -> Tensor:
    """Over that of as many equal keys as are in sight; nan where that is one, or none."""
    keys = seen.expand_as(p).sum(-1).float()
    entropy = -(p * p.clamp_min(1e-38).log()).sum(-1)
    return torch.where(keys > 1, entropy / keys.log(), math.nan)


def _some(count: int, device: torch.device) -> Tensor:
    return torch.linspace(0, count - 1, min(QUERIES, count), device=device).round().long()


ENTROPIES: Mapping[Any, Callable[..., Tensor | None]] = MappingProxyType(
    {
        F.scaled_dot_product_attention: of_products,
        F.multi_head_attention_forward: of_heads,
        F.softmax: of_softmax,
        torch.softmax: of_softmax,
        Tensor.softmax: of_softmax,
    }
)
