"""Networks that are affine in pieces: breakpoints, regions, polygons."""

from sigmascope.probes.piecewise_affine.affine_map import AffineMap, jacobian, local_affine
from sigmascope.probes.piecewise_affine.partitions import Partition, partition
from sigmascope.probes.piecewise_affine.regions import Crossings, region_distance, regions_along
from sigmascope.probes.piecewise_affine.sides import activation_patterns

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
]
