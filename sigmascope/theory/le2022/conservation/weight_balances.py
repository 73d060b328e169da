"""Balances between two dense layers, from their weights alone."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor


def neuron_balance(
    W1: Float[Tensor, "h a"], W2: Float[Tensor, "c h"], b1: Float[Tensor, " h"] | None = None
) -> Float64[Tensor, " h"]:
    """`Σ in² [+ b²] - Σ out²` of each hidden unit between two dense layers.

    Args:
        W1: In-weights; rows are units.
        W2: Out-weights; columns are units.
        b1: Biases of the units, which are in-weights from a constant.

    Source:
        Le & Jegelka 2022, (4).
    """
    bias = 0.0 if b1 is None else b1.double().square()
    return W1.double().square().sum(1) + bias - W2.double().square().sum(0)


def gram_balance(
    W1: Float[Tensor, "h a"], W2: Float[Tensor, "c h"], b1: Float[Tensor, " h"] | None = None
) -> Float64[Tensor, "h h"]:
    """`W2ᵀ W2 - W1 W1ᵀ [- b bᵀ]` between two dense layers.

    Args:
        W1: In-weights; rows are units.
        W2: Out-weights; columns are units.
        b1: Biases of the units.

    Source:
        Le & Jegelka 2022, (6).
    """
    W1, W2 = W1.double(), W2.double()
    found = W2.mT @ W2 - W1 @ W1.mT
    return found if b1 is None else found - torch.outer(b1.double(), b1.double())


def equal_pattern_mask(preactivations: Float[Tensor, "n h"]) -> Bool[Tensor, "h h"]:
    """Pairs of units that are active on the same samples, and on none exactly at zero.

    Args:
        preactivations: A row a sample.

    Source:
        Le & Jegelka 2022, Lemma 2 (5); at pre-activation 0 the slope is not defined.
    """
    active, clear = preactivations > 0, (preactivations != 0).all(0)
    alike = (active[:, :, None] == active[:, None]).all(0)
    return alike & clear[:, None] & clear[None]
