"""The regions of a piecewise-affine network on a plane through input space, as exact polygons."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from sigmascope.probes.batches import as_tensor, call
from sigmascope.probes.kinks import watching
from sigmascope.probes.polygons import Polygon
from sigmascope.probes.refusals import Refusal
from sigmascope.probes.regions import require_known
from sigmascope.probes.segments import segment
from sigmascope.probes.stillness import still

REGIONS = 20_000  # polygons at most
CHUNK = 2048  # corners that run through the network at once
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
    of its units are lines, known from the values at the corners. Activation by activation, every
    region is cut by every unit whose zero passes through it.

    Args:
        model: As for `local_affine`, with kinks that are known; in float64 for exact corners.
        centre: One sample, with its batch dimension.
        across: The first axis, as long as half the side of the square.
        along: The second one.

    Raises:
        Refusal: If shapes differ or the axes are parallel, if the network is not piecewise affine,
            or if there are more than 20 000 regions.

    Source:
        Balestriero, Cosentino, Aazhang & Baraniuk 2019; Riedi et al. 2022, section 2.3 and Fig. 3.

    Cost: one forward pass of all corners for each activation.
    """
    plane = _Plane.through(model, centre, across, along)
    regions = [plane.square()]
    cuts: Cuts = []
    counts: list[int] = []
    with segment(model, centre, None, None) as (z, out, kinks):
        require_known(out, z, kinks)
        names = tuple(k.name for k in kinks)
    for index in range(len(names)):
        after: list[Polygon] = []
        for met in plane.met(regions, index):
            after += islice(_pieces(met, index, cuts), REGIONS + 1 - len(after))
            if len(after) > REGIONS:
                raise Refusal(
                    f"The plane must meet at most {REGIONS} regions, got more at activation "
                    f"{index + 1} of {len(names)}. Take shorter axes, or a narrower network."
                )
        regions = after
        counts.append(len(regions))
    centres = torch.from_numpy(np.stack([p.corners.mean(0) for p in regions]))
    ends = np.stack([c for c, _ in cuts]) if cuts else np.zeros((0, 2, 2))
    return Partition(
        tuple(torch.from_numpy(p.corners) for p in regions),
        plane.outputs(centres),
        torch.from_numpy(ends),
        torch.tensor([i for _, i in cuts], dtype=torch.int64),
        tuple(counts),
        names,
    )


@dataclass(frozen=True, slots=True)
class _Met:
    """A region, and what an activation chooses from at its corners.

    Attributes:
        polygon: With heights, or with the entries of windows, as its functions.
        window: Entries in a window, of which the largest passes; 0 for heights.
    """

    polygon: Polygon
    window: int


def _pieces(met: _Met, index: int, cuts: Cuts) -> Iterator[Polygon]:
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


@dataclass(frozen=True, slots=True)
class _Plane:
    model: nn.Module
    centre: Tensor
    axes: Float64[Tensor, "2 d"]

    @classmethod
    def through(cls, model: nn.Module, centre: Tensor, across: Tensor, along: Tensor) -> "_Plane":
        if not centre.shape == across.shape == along.shape:
            shapes = ", ".join(str(tuple(t.shape)) for t in (centre, across, along))
            raise Refusal(f"The centre and both axes must have one shape, got {shapes}.")
        axes = torch.stack([across.double().flatten(), along.double().flatten()])
        unit = axes / axes.norm(dim=1, keepdim=True)
        if not float((unit @ unit.mT).abs()[0, 1]) < 1 - 1e-9:
            raise Refusal(
                "The axes must point in two directions, got parallel ones or a zero. Choose two "
                "samples that differ, or random directions."
            )
        return cls(model, centre, axes)

    def square(self) -> Polygon:
        return Polygon(np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]]), np.zeros((4, 0)))

    def inputs(self, points: Float64[Tensor, "n 2"]) -> Tensor:
        like = next(self.model.parameters())
        flat = self.centre.double().flatten() + points @ self.axes
        return flat.reshape(len(points), *self.centre.shape[1:]).to(like)

    def outputs(self, points: Float64[Tensor, "n 2"]) -> Float64[Tensor, "n m"]:
        with still(self.model), torch.no_grad():
            parts = [
                as_tensor(call(self.model, self.inputs(chunk)))[0].flatten(1)
                for chunk in points.split(CHUNK)
            ]
        return torch.cat(parts).double().cpu()

    def met(self, regions: list[Polygon], index: int) -> Iterator[_Met]:
        """Each region with what enters an activation at its corners, some regions at a time."""
        ends = np.cumsum([len(p.corners) for p in regions])
        for group in np.split(np.arange(len(regions)), np.nonzero(np.diff(ends // CHUNK))[0] + 1):
            here = [regions[i] for i in group]
            corners = torch.from_numpy(np.concatenate([p.corners for p in here]))
            values, window = self._entering(corners, index)
            parts = np.split(values.numpy(), np.cumsum([len(p.corners) for p in here])[:-1])
            for p, part in zip(here, parts, strict=True):
                yield _Met(Polygon(p.corners, part), window)

    def _entering(self, points: Float64[Tensor, "n 2"], index: int) -> tuple[Tensor, int]:
        with still(self.model), torch.enable_grad(), watching() as kinks:
            call(self.model, self.inputs(points).requires_grad_())
        kink = kinks[index]
        chosen = kink.heights if kink.windows is None else kink.windows
        window = 0 if kink.windows is None else kink.windows.shape[-1]
        flat = chosen.detach().double().cpu().reshape(len(points), -1)
        return flat.masked_fill(flat.isinf(), torch.nan), window  # padding, which never wins
