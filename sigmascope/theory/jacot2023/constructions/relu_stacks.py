"""ReLU networks that represent linear maps at the cost of linear ones."""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.probes.structure import Stack
from sigmascope.theory.jacot2023.constructions.linear_maps import positive
from sigmascope.theory.jacot2023.constructions.positivity import complete_positivity


def identity_stack(points: Float[Tensor, "n d"], depth: int) -> Stack:
    """A ReLU network that is the identity on some points, of squared norm exactly `k L`.

    `W_1 = O`, projections on the image of O, and `W_L = Oᵀ`, for the embedding O of the points in a
    positive orthant; k is the dimension of their span.

    Args:
        points: A row a point; completely positive.
        depth: L, from 2.

    Raises:
        ValueError: If no embedding is found, or the depth is below 2.

    Source:
        Jacot 2023, Prop. 5.
    """
    _require_depth(depth)
    embedding = _embedding(points, "the points")
    project = embedding @ embedding.mT
    return _stack([embedding, *[project] * (depth - 2), embedding.mT])


def linear_stack(A: Float[Tensor, "m d"], points: Float[Tensor, "n d"], depth: int) -> Stack:
    """A ReLU network that is a linear map on some points, at the cost `k L + 2 log|A|_+ + O(1/L)`.

    Its representations go from those of the input to those of the output: `B_l` stacks the two
    embeddings with weights `√(1 - l/L)` and `√(l/L)`, and `W_l = B_l B_{l-1}⁺`.

    Args:
        A: The linear map.
        points: A row a point; their projections on the row space of A, and their images, are
            completely positive and span k dimensions.
        depth: L, from 2.

    Raises:
        ValueError: If no embedding is found, or the depth is below 2.

    Source:
        Jacot 2023, Theorem 3 (3), with the interpolation in the direction that works.
    """
    _require_depth(depth)
    A, X = A.detach().double().cpu(), points.detach().double().cpu()
    rank = len(positive(A))
    rows = torch.linalg.svd(A, full_matrices=False)[2][:rank]
    into = _embedding(X @ rows.mT @ rows, "their projections on the row space")
    out = _embedding(X @ A.mT, "their images") @ A
    step = lambda t: torch.cat([(1 - t) ** 0.5 * into, t**0.5 * out])
    frames = [step(layer / depth) for layer in range(1, depth)]
    weights = [frames[0]]
    weights += [B @ torch.linalg.pinv(C) for C, B in pairwise(frames)]
    return _stack([*weights, A @ torch.linalg.pinv(frames[-1])])


def _require_depth(depth: int) -> None:
    if depth < 2:
        raise ValueError(f"`depth` must be 2 or more, got {depth}. One layer is the map itself.")


def _embedding(points: Tensor, what: str) -> Tensor:
    found = complete_positivity(points)
    if found.embedding is None:
        said = "they have a negative inner product" if found.answer == "no" else "none was found"
        raise ValueError(
            f"`points` must be completely positive, but for {what} {said}. Shift or restrict them "
            "so that all angles are acute."
        )
    return found.embedding


def _stack(weights: list[Tensor]) -> Stack:
    biases = tuple(torch.zeros(len(W), dtype=W.dtype) for W in weights)
    sites = tuple(f"layer {i}" for i in range(1, len(weights) + 1))
    return Stack(sites, tuple(weights), biases, 0.0, biased=False)
