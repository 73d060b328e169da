"""What it costs to draw a function of one dimension through many points: Theorem 10."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.gate import Refusal
from sigmascope.records import Estimate

STARTS = 4  # tours that are tried


@final
@dataclass(frozen=True, slots=True)
class RankOneFit:
    """A function of rank one through some points, run at one speed along the shortest path.

    Attributes:
        length: Of that path; `low` from nearest neighbours, `high` that of a path that was found.
        correction: `2 log ‖Jf‖` for inputs in an interval of length one: the first correction of
            the norm, at least.
        tangent: `Tr Θ / L` of a balanced network that is as steep, at large depth: `‖Jf‖²`.
    """

    length: Estimate
    correction: Estimate
    tangent: Estimate


def rank_one_fit_scaling(
    points: Float64[Tensor, "n d"], *, generator: torch.Generator | None = None
) -> RankOneFit:
    """How steep a function of one dimension must be that takes all of these values.

    N points that fill k dimensions need a path of length of the order `N^{1 - 1/k}`, so that
    underestimating the rank costs a kernel that grows with the number of samples.

    Args:
        points: Targets, a row a sample.
        generator: Chooses where tours start; from the first points without.

    Raises:
        Refusal: If there are fewer than three points, or all are the same.

    Source:
        Jacot 2023, Theorem 10: its exponents; its constant is not specified.

    Cost: of the order N² log N.
    """
    from sklearn.neighbors import NearestNeighbors

    Y = points.double().cpu()
    if len(Y) < 3 or float((Y - Y[0]).abs().max()) == 0:
        raise Refusal(
            f"`points` must be three or more that differ, got {tuple(points.shape)}. Pass the "
            "targets of a data set."
        )
    near = torch.from_numpy(
        NearestNeighbors(n_neighbors=3).fit(Y.numpy()).kneighbors(Y.numpy())[0]
    )[:, 1:]
    ends = near[:, 1].topk(2).values.sum()  # the two ends of a path have one neighbour only
    low = float(near.sum() - ends) / 2
    distance = torch.cdist(Y, Y)
    order = torch.randperm(len(Y), generator=generator) if generator else torch.arange(len(Y))
    high = min(_path(distance, int(start)) for start in order[:STARTS])
    length = Estimate(high, min(low, high), high, "2-opt tour; nearest neighbours from below")
    return RankOneFit(length, _changed(length, _twice_log), _changed(length, lambda v: v**2))


def _changed(of: Estimate, by: Callable[[float], float]) -> Estimate:
    return Estimate(by(of.value), by(of.low), by(of.high), of.how)


def _twice_log(v: float) -> float:
    return 2 * math.log(v) if v > 0 else -math.inf


def _path(distance: Tensor, start: int) -> float:
    """Length of a greedy path, with crossings taken out while that shortens it."""
    d = distance.numpy()
    order = _greedy(distance, start).numpy()
    moved = True
    while moved:
        moved = False
        for i in range(len(order) - 2):
            # reversing i+1 .. j exchanges edges (i, i+1), (j, j+1) for (i, j), (i+1, j+1)
            here, after = order[i], order[i + 1]
            froms, tos = order[i + 1 : -1], order[i + 2 :]
            gain = d[here, after] + d[froms, tos] - d[here, froms] - d[after, tos]
            best = int(gain.argmax())
            if gain[best] > 1e-9 * d[here, after]:
                j = i + 1 + best
                order[i + 1 : j + 1] = order[i + 1 : j + 1][::-1].copy()
                moved = True
    return float(d[order[:-1], order[1:]].sum())


def _greedy(distance: Tensor, start: int) -> Tensor:
    left = distance.clone()
    order = [start]
    left[:, start] = math.inf
    for _ in range(len(distance) - 1):
        order.append(int(left[order[-1]].argmin()))
        left[:, order[-1]] = math.inf
    return torch.tensor(order)
