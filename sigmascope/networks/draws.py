"""Random layers and batches for chains that are never built."""

import math
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

Weights = Literal["gaussian", "uniform", "asymmetric"]
State = Float64[Tensor, "chains width directions"]
ROOT3 = math.sqrt(3.0)  # a uniform law on an interval of length 2√3 has unit variance


def start(
    inputs: Tensor | None, shape: tuple[int, int, int], *, generator: torch.Generator | None
) -> State:
    """The first state `[chains, width, samples]`: the batch given, or a Gaussian one each."""
    if inputs is None:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)
    chains, width, samples = shape
    if inputs.shape != (samples, width) or not bool(inputs.isfinite().all()):
        raise ValueError(
            f"`inputs` must be finite rows of {width} numbers, one for each of {samples} samples, "
            f"got shape {tuple(inputs.shape)}. Rows are samples."
        )
    return inputs.double().mT.expand(chains, -1, -1).contiguous()


def random_weights(
    shape: tuple[int, ...], weights: Weights, *, generator: torch.Generator | None
) -> Float64[Tensor, "..."]:
    """Independent weights of unit variance."""
    W = torch.empty(shape, dtype=torch.float64)
    if weights == "gaussian":
        return W.normal_(generator=generator)
    low = -ROOT3 if weights == "uniform" else 0.0
    return W.uniform_(low, low + 2 * ROOT3, generator=generator)


def product(H: State, weights: Weights, *, generator: torch.Generator | None) -> State:
    """`W H` for new weights.

    Rows of a Gaussian `W H` are independent with covariance `Hᵀ H = Rᵀ R`, so that a narrow
    Gaussian times `R` has their law, from fewer random numbers.
    """
    chains, width, directions = H.shape
    if weights != "gaussian" or 2 * directions > width:
        return random_weights((chains, width, width), weights, generator=generator) @ H
    R = torch.linalg.qr(H, mode="r")[1]
    return random_weights((chains, width, directions), weights, generator=generator) @ R


def frame(
    chains: int, width: int, count: int | None, *, generator: torch.Generator | None
) -> State:
    """Random directions of every chain: `count` of them, or as many as the width."""
    shape = (chains, width, count or width)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)
