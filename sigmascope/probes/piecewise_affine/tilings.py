"""Whether polygons are the regions of a network: evaluated again, and compared."""

import numpy as np
import torch

from sigmascope.probes.piecewise_affine.certificates import disagreement, other_side
from sigmascope.probes.piecewise_affine.planes import Plane
from sigmascope.probes.piecewise_affine.polygons import Polygon

POINTS = 8  # at which a region is looked up
FILLED = 1e-9  # of the square: what slivers, which are left out, may miss
EDGE = 1e-9  # a point nearer to an edge than this is in either region
INSIDE = 0.98  # of the way from the middle to the corners: where a region must still be affine


def require_tiling(plane: Plane, regions: list[Polygon]) -> None:
    """Raise unless polygons fill the square once, and the network is affine on each."""
    area = sum(p.area for p in regions)
    if not abs(area - 4) <= 4 * FILLED:
        raise disagreement(f"polygons of an area of {area:.12g} in a square of 4")
    draw = torch.Generator().manual_seed(1)
    points = 2 * torch.rand(POINTS, 2, generator=draw, dtype=torch.float64) - 1
    for point in points:
        depths = np.array([_depth(p, point.numpy()) for p in regions])
        if (depths > EDGE).sum() > 1 or not (depths > -EDGE).any():
            raise disagreement(f"{int((depths > EDGE).sum())} polygons at one point")
        if depths.max() > EDGE:
            _require_one_region(plane, point, regions[int(depths.argmax())])
    _require_affine(plane, regions)


def _depth(p: Polygon, point: np.ndarray) -> float:
    """How far a point is inside a convex polygon; negative outside."""
    d = np.roll(p.corners, -1, 0) - p.corners
    r = point - p.corners
    return float(
        ((d[:, 0] * r[:, 1] - d[:, 1] * r[:, 0]) / np.maximum(np.hypot(*d.T), 1e-300)).min()
    )


def _require_one_region(plane: Plane, point: torch.Tensor, p: Polygon) -> None:
    middle = torch.from_numpy(p.corners.mean(0))
    left = other_side(plane.one_by_one(middle), plane.one_by_one(point))
    if left:
        raise disagreement(f"{left} on two sides in one polygon")


def _require_affine(plane: Plane, regions: list[Polygon]) -> None:
    """In the mean over its corners, an affine function is what it is at their mean."""
    middles = np.stack([p.corners.mean(0) for p in regions])
    near = [m + INSIDE * (p.corners - m) for m, p in zip(middles, regions, strict=True)]
    ends = np.cumsum([len(n) for n in near])
    inside = plane.outputs(torch.from_numpy(np.concatenate(near))).numpy()
    means = np.stack([part.mean(0) for part in np.split(inside, ends[:-1])])
    off = np.abs(means - plane.outputs(torch.from_numpy(middles)).numpy()).max(1)
    if not off.max() <= plane.noise:
        raise disagreement(f"{int((off > plane.noise).sum())} polygons on which it bends")
