"""Random layers and batches for chains that are never built."""

import math
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

Weights = Literal["gaussian", "uniform", "asymmetric"]
State = Float64[Tensor, "chains width directions"]
ROOT3 = math.sqrt(3.0)  # a uniform law on an interval of length 2√3 has unit variance


def random_numbers(generator: torch.Generator | None) -> np.random.Generator:
    """NumPy's SFC64, seeded by one number of `generator` (torch's global one when there is none).

    In float64 it is more than twice as fast as torch's own generator, and random numbers are most
    of what a chain costs.
    """
    seed = torch.randint(2**63 - 1, (1,), generator=generator, dtype=torch.int64)
    return np.random.Generator(np.random.SFC64(int(seed)))


def random_weights(
    shape: tuple[int, ...], weights: Weights, numbers: np.random.Generator
) -> Float64[Tensor, "..."]:
    """Independent weights of unit variance.

    Args:
        shape: Of the result.
        weights: `"gaussian"`, `"uniform"` on `[-√3, √3)`, `"asymmetric"` on `[0, 2√3)`.
        numbers: From `random_numbers`.
    """
    if weights == "gaussian":
        return torch.from_numpy(numbers.standard_normal(shape))
    low = -ROOT3 if weights == "uniform" else 0.0
    return torch.from_numpy(numbers.random(shape)).mul_(2 * ROOT3).add_(low)


def product(H: State, weights: Weights, numbers: np.random.Generator) -> State:
    """`W H` for new weights of every chain, without more random numbers than it takes.

    Rows of a Gaussian `W H` are independent with covariance `Hᵀ H = Rᵀ R`, so that a narrow
    Gaussian times `R` has their law. A uniform law is shifted and scaled after the product.
    """
    chains, width, directions = H.shape
    if weights == "gaussian":
        if 2 * directions <= width:
            H = torch.linalg.qr(H, mode="r")[1]
        return torch.from_numpy(numbers.standard_normal((chains, width, H.shape[1]))) @ H
    drawn = torch.from_numpy(numbers.random((chains, width, width))) @ H
    if weights == "uniform":
        drawn -= H.sum(1, keepdim=True) / 2
    return drawn.mul_(2 * ROOT3)


def start(
    inputs: Tensor | None, shape: tuple[int, int, int], numbers: np.random.Generator
) -> State:
    """The first state `[chains, width, samples]`: the batch given, or a Gaussian one each."""
    if inputs is None:
        return torch.from_numpy(numbers.standard_normal(shape))
    chains, width, samples = shape
    if inputs.shape != (samples, width) or not bool(inputs.isfinite().all()):
        raise ValueError(
            f"`inputs` must be finite rows of {width} numbers, one for each of {samples} samples, "
            f"got shape {tuple(inputs.shape)}. Rows are samples."
        )
    return inputs.double().mT.expand(chains, -1, -1).contiguous()


def frame(chains: int, width: int, count: int | None, numbers: np.random.Generator) -> State:
    """Random directions of every chain: `count` of them, or as many as the width."""
    return torch.from_numpy(numbers.standard_normal((chains, width, count or width)))
