"""Rows of the square root of a layer's Gauss-Newton matrix: gradients of outputs by its weights."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.probes.convolutions import patches
from sigmascope.probes.layers import transposed


def root_rows(module: nn.Module, x: Tensor, J: Tensor, *, biased: bool) -> Float[Tensor, "n k w"]:
    """The gradients of the outputs by the weight, and by the bias."""
    conv = isinstance(module, _ConvNd)
    rows = _convolution_rows(module, x, J) if isinstance(module, _ConvNd) else _linear_rows(x, J)
    if not biased:
        return rows
    at = tuple(range(3, J.ndim) if conv else range(2, J.ndim - 1))  # positions share the bias
    return torch.cat([rows, J.sum(at) if at else J], dim=2)


def _linear_rows(x: Float[Tensor, "n *p i"], J: Tensor) -> Float[Tensor, "n k oi"]:
    a = x.flatten(1, -2) if x.ndim > 2 else x[:, None]  # [n, p, i]
    d = J.flatten(2, -2) if J.ndim > 3 else J[:, :, None]  # [n, k, p, o]
    return torch.einsum("nkpo,npi->nkoi", d, a).flatten(2)


def _convolution_rows(module: _ConvNd, x: Tensor, J: Tensor) -> Float[Tensor, "n k w"]:
    n, k = J.shape[:2]
    groups = module.groups
    if transposed(module):  # the adjoint of a convolution: its patches are taken of what it writes
        cut = patches(module, J.flatten(0, 1)).unflatten(0, (n, k))  # [n, k, g, w, p]
        fixed = x.flatten(2).unflatten(1, (groups, -1))[:, None]  # [n, 1, g, i, p]
        return (fixed @ cut.mT).flatten(2)
    cut = patches(module, x)  # [n, g, w, p]
    moving = J.flatten(3).unflatten(2, (groups, -1)).transpose(1, 2)  # [n, g, k, o, p]
    stacked = moving.flatten(2, 3) @ cut.mT  # every output in one product
    return stacked.unflatten(2, (k, -1)).transpose(1, 2).flatten(2)


def feature_rows(module: nn.Module, x: Tensor, *, biased: bool) -> Float[Tensor, "rows inputs"]:
    """What the layer reads, one row for each position, with a one where it has a bias."""
    if transposed(module):
        Z = x.flatten(2).mT.flatten(0, 1)
    elif isinstance(module, _ConvNd):
        Z = patches(module, x).permute(0, 1, 3, 2).flatten(0, 2)
    else:
        Z = x.reshape(-1, x.shape[-1])
    return torch.cat([Z, Z.new_ones(len(Z), 1)], dim=1) if biased else Z
