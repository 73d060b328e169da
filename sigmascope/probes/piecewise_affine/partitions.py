"""The regions of a piecewise-affine network on a plane through input space, as exact polygons.

What enters an activation is affine in every region of the activations before it. It is evaluated
strictly inside the region, where every unit is on one side beyond doubt, and continued to the
corners: at the corners themselves a dead unit is zero up to rounding, so that a window of dead
units would have a winner by chance, and what jumps has two values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.piecewise_affine.planes import Met, Plane
from sigmascope.probes.piecewise_affine.polygons import Polygon
from sigmascope.probes.piecewise_affine.tilings import require_tiling

REGIONS = 20_000  # polygons at most
SLIVER = 1e-14  # of the whole area: below this a piece is rounding


Cuts = list[tuple[np.ndarray, int]]


@dataclass(frozen=True, slots=True)
class Partition:
    """The regions that a plane through input space meets.

    Attributes:
        polygons: Their corners on the plane, counterclockwise, from -1 to 1 on either axis.
        outputs: What the network gives at the centre of each.
        cuts: Pieces of boundary, each from one point to another.
        by: Which activation, in the order of calls, made each cut.
        counts: Regions after each activation.
        names: Functions of the activations.
    """

    polygons: tuple[Float64[Tensor, "_ 2"], ...]
    outputs: Float64[Tensor, "regions m"]
    cuts: Float64[Tensor, "cuts 2 2"]
    by: Int64[Tensor, " cuts"]
    counts: tuple[int, ...]
    names: tuple[str, ...]


def partition(
    model: nn.Module,
    centre: Float[Tensor, "1 *sample"],
    across: Float[Tensor, "1 *sample"],
    along: Float[Tensor, "1 *sample"],
) -> Partition:
    """Cut the square `centre + s across + t along`, `|s|, |t| <= 1`, where the network bends.

    In a region of the activations before it, what enters an activation is affine, so that the zeros
    of its units are lines, known from values inside the region. Activation by activation, every
    region is cut by every unit whose zero passes through it. At the end the polygons must fill the
    square, and the network must be affine on each.

    Args:
        model: As for `local_affine`, with kinks that are known; samples must not be mixed.
        centre: One sample, with its batch dimension.
        across: The first axis, as long as half the side of the square.
        along: The second one.

    Raises:
        Refusal: If shapes differ or the axes are parallel, if the network is not piecewise affine,
            or mixes samples, if there are more than 20 000 regions, or if the polygons are not the
            regions when the network is evaluated again.

    Source:
        Balestriero, Cosentino, Aazhang & Baraniuk 2019; Riedi et al. 2022, section 2.3 and Fig. 3.

    Cost: one forward pass of all corners for each activation, of a copy in float64.
    """
    plane = Plane.through(model, centre, across, along)
    regions = [plane.square()]
    cuts: Cuts = []
    counts: list[int] = []
    for index in range(len(plane.names)):
        regions = _cut(plane, regions, index, cuts)
        counts.append(len(regions))
    require_tiling(plane, regions)
    centres = torch.from_numpy(np.stack([p.corners.mean(0) for p in regions]))
    ends = np.stack([c for c, _ in cuts]) if cuts else np.zeros((0, 2, 2))
    return Partition(
        tuple(torch.from_numpy(p.corners) for p in regions),
        plane.outputs(centres),
        torch.from_numpy(ends),
        torch.tensor([i for _, i in cuts], dtype=torch.int64),
        tuple(counts),
        plane.names,
    )


def _cut(plane: Plane, regions: list[Polygon], index: int, cuts: Cuts) -> list[Polygon]:
    """What one activation leaves of the regions of those before it."""
    after: list[Polygon] = []
    for met in plane.met(regions, index):
        after += islice(_pieces(met, index, cuts), REGIONS + 1 - len(after))
        if len(after) > REGIONS:
            raise Refusal(
                f"The plane must meet at most {REGIONS} regions, got more at activation "
                f"{index + 1} of {len(plane.names)}. Take shorter axes, or a narrower network."
            )
    return after


def _pieces(met: Met, index: int, cuts: Cuts) -> Iterator[Polygon]:
    polygon = met.polygon
    if met.window:
        pieces = _by_window(polygon, met.window, index, cuts)
    else:
        pieces = _by_height(polygon, index, cuts)
    return (p for p in pieces if p.area > 4 * SLIVER)


def _by_height(polygon: Polygon, index: int, cuts: Cuts) -> Iterator[Polygon]:
    waiting = [polygon]
    while waiting:
        piece = waiting.pop()
        for unit in piece.crossed().tolist():
            low, high = piece.split(unit)
            if low is not None and high is not None:
                edge = high.edge_on(unit)
                cuts += [] if edge is None else [(edge, index)]
                waiting += [low, high]
                break
        else:
            yield piece


def _by_window(polygon: Polygon, size: int, index: int, cuts: Cuts) -> list[Polygon]:
    pieces = [polygon]
    for first in range(0, polygon.values.shape[1], size):
        columns = np.arange(first, first + size)
        columns = columns[np.isfinite(polygon.values[:, columns]).all(0)]
        here = polygon.values[:, columns]
        if _one_wins(here):
            continue
        after = []
        for piece in pieces:
            parts = list(piece.won_by(columns))
            if len(parts) > 1:
                cuts += [(edge, index) for part in parts for edge in _inner_edges(part, piece)]
            after += parts
        pieces = after
    return pieces


def _one_wins(here: np.ndarray) -> bool:
    """Whether one function is the largest at every corner, and so everywhere between."""
    return bool((here >= here.max(1, keepdims=True)).all(0).any())


def _inner_edges(part: Polygon, whole: Polygon) -> Iterator[np.ndarray]:
    """Edges of a part that are not on the border of the whole."""
    d = np.roll(whole.corners, -1, 0) - whole.corners
    for a, b in zip(part.corners, np.roll(part.corners, -1, 0), strict=True):
        r = (a + b) / 2 - whole.corners
        off = np.abs(d[:, 0] * r[:, 1] - d[:, 1] * r[:, 0]) / np.maximum(np.hypot(*d.T), 1e-300)
        if off.min() > 1e-9:
            yield np.stack([a, b])
