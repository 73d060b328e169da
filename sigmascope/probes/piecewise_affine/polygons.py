"""Convex polygons that are cut by lines, with the values of affine functions at their corners.

The idea: in one region whatever enters an activation is affine, and so is known everywhere from its
values at the corners; a line is where such a function is zero, and needs no equation. The
invariant: a polygon stays convex and counterclockwise, and each of its functions is exact at every
corner but for the rounding of interpolation; heights below `ROUNDING` of the largest are zero, so
that no sliver is cut off at a corner that lies on a line already.

Source: Sutherland & Hodgman 1974 for the clipping; Balestriero et al. 2019 for what is clipped.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

ROUNDING = 1e-11  # of the largest height: what a corner on the line may be off by
TIED = 1e-12  # of the largest value: functions that differ by less are the same


@dataclass(frozen=True, slots=True)
class Polygon:
    """A convex polygon, counterclockwise.

    NumPy, whose operations on a handful of numbers cost a tenth of those of a tensor.

    Attributes:
        corners: Where.
        values: Of affine functions, at each corner.
    """

    corners: Float64[np.ndarray, "v 2"]
    values: Float64[np.ndarray, "v k"]

    @property
    def area(self) -> float:
        """By the shoelace formula, from the first corner, which loses no digits far away."""
        x, y = (self.corners - self.corners[0]).T
        return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))

    def heights(self, column: int) -> Float64[np.ndarray, " v"]:
        """One function at the corners, zero where it is by rounding."""
        h = self.values[:, column]
        return np.where(np.abs(h) <= ROUNDING * np.abs(h).max(), 0.0, h)

    def crossed(self) -> Int64[np.ndarray, " units"]:
        """The functions that change their sign."""
        return np.nonzero((self.values.min(0) < 0) & (self.values.max(0) > 0))[0]

    def split(self, column: int) -> tuple["Polygon | None", "Polygon | None"]:
        """The parts where a function is negative and where it is positive; None for an empty one.

        The new corners have all functions interpolated, which is exact for affine ones.
        """
        h = self.heights(column)
        if (h >= 0).all():
            return None, self
        if (h <= 0).all():
            return self, None
        after = np.roll(h, -1)
        (at,) = np.nonzero(h * after < 0)
        t = (h[at] / (h[at] - after[at]))[:, None]
        between = lambda v: v[at] + t * (np.roll(v, -1, 0)[at] - v[at])
        fresh = between(self.values)
        fresh[:, column] = 0.0
        corners = np.insert(self.corners, at + 1, between(self.corners), axis=0)
        values = np.insert(self.values, at + 1, fresh, axis=0)
        h = np.insert(h, at + 1, 0.0)
        return Polygon(corners[h <= 0], values[h <= 0]), Polygon(corners[h >= 0], values[h >= 0])

    def edge_on(self, column: int) -> Float64[np.ndarray, "2 2"] | None:
        """The edge along which a function is zero."""
        (on,) = np.nonzero(self.heights(column) == 0)
        return self.corners[on[[0, -1]]] if len(on) >= 2 else None

    def won_by(self, columns: Int64[np.ndarray, " k"]) -> Iterator["Polygon"]:
        """The parts in which each of some functions is the largest, the first of those that tie."""
        here = self.values[:, columns]
        tied = TIED * np.abs(here).max()
        # whoever one other function exceeds at every corner wins nowhere
        beaten = (here[:, :, None] < here[:, None] - tied).all(0).any(1)
        columns = columns[~beaten]
        for winner in columns.tolist():
            part: Polygon | None = self
            for other in columns[columns != winner].tolist():
                part = None if part is None else part._where_ahead(winner, other, tied)
            if part is not None and part.area > 0:
                yield part

    def _where_ahead(self, winner: int, other: int, tied: float) -> "Polygon | None":
        ahead = self.values[:, winner] - self.values[:, other]
        if np.abs(ahead).max() <= tied:
            return self if winner < other else None
        wide = Polygon(self.corners, np.column_stack([self.values, ahead]))
        _, kept = wide.split(wide.values.shape[1] - 1)
        return None if kept is None else Polygon(kept.corners, kept.values[:, :-1])
