"""Networks that are affine in pieces: breakpoints, regions, polygons."""

from sigmascope.theory.piecewise_affine.regions import (
    Crossings,
    Partition,
    partition,
    region_distance,
    regions_along,
)
from sigmascope.theory.piecewise_affine.segments import (
    AffineMap,
    activation_patterns,
    jacobian,
    local_affine,
    sample_affine,
)

__all__ = [
    "AffineMap",
    "Crossings",
    "Partition",
    "activation_patterns",
    "jacobian",
    "local_affine",
    "partition",
    "region_distance",
    "regions_along",
    "sample_affine",
]
