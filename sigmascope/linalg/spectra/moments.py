"""Sufficient statistics of rows seen in pieces."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.dense import EPS, lower_gram, power_of_two, roots
from sigmascope.linalg.refusals import require_matrix
from sigmascope.records import Spectrum


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean and centred scatter of rows; enough for any covariance spectrum.

    Attributes:
        count: Rows seen.
        mean: Their mean.
        scatter: `Σ (x - mean)(x - mean)ᵀ / scale²`; over `count`, the covariance.
        scale: A power of two, 1 unless float64 rows are so large or so small that their squares
            would leave float64.
        pieces: Batches that were added up; each addition rounds.
    """

    count: int
    mean: Float64[Tensor, " d"]
    scatter: Float64[Tensor, "d d"]
    scale: float = 1.0
    pieces: int = 1

    @classmethod
    def of(cls, rows: Float[Tensor, "n d"]) -> "Moments":
        """Moments of one batch, centred before squaring so that a large mean costs nothing.

        Raises:
            TypeError: If `rows` are not real floating point.
            ValueError: If `rows` are not a non-empty finite matrix.
        """
        require_matrix(rows, name="rows")
        X = rows.detach().double()
        scale = _scale(X)
        X = X / scale
        mean = X.mean(0)
        centred = X - mean
        lower = lower_gram(centred[None], torch.ones_like(mean[:1]))[0].tril()
        scatter = lower + lower.tril(-1).mT
        return cls(len(rows), (mean * scale).cpu(), scatter.cpu(), scale)

    def __add__(self, other: "Moments") -> "Moments":
        """Moments of both sets of rows together.

        Raises:
            ValueError: If the rows are of different lengths.

        Source:
            Chan, Golub & LeVeque 1979, Eq. 2.1.
        """
        if len(self.mean) != len(other.mean):
            raise ValueError(
                f"Moments add over rows of one length, got {len(self.mean)} and "
                f"{len(other.mean)}. Keep one `Moments` per layer."
            )
        count = self.count + other.count
        scale = max(self.scale, other.scale)
        gap = other.mean / scale - self.mean / scale
        scatter = (
            self.scatter * (self.scale / scale) ** 2
            + other.scatter * (other.scale / scale) ** 2
            + gap.outer(gap) * (self.count * (other.count / count))
        )
        mean = self.mean / scale + gap * (other.count / count)
        return Moments(count, mean * scale, scatter, scale, self.pieces + other.pieces)

    def spectrum(self, *, centred: bool) -> Spectrum:
        """Singular values of the matrix of all rows, less their mean or as they came.

        Args:
            centred: Whether the mean is taken off every row first.

        Returns:
            All `min(count, d)` values, with the intervals of the Gram route; they widen with the
            mean, whose rounding is all that a large mean costs.

        Source:
            Chan, Golub & LeVeque 1979.

        Example:
            >>> rows = torch.tensor([[3.0, 1.0], [3.0, -1.0]])
            >>> Moments.of(rows).spectrum(centred=True).sigma.round(decimals=6)
            tensor([1.4142, 0.0000], dtype=torch.float64)
        """
        mean = self.mean / self.scale
        gram = self.scatter
        if not centred:
            gram = gram + mean.outer(mean) * self.count
        ends = roots(gram[None], inner=self.count, pieces=self.pieces, extra=self._drift(mean))
        d = len(self.mean)
        kept = min(self.count, d)
        how = f"moments(centred={centred})"
        sigma, low, high = (self.scale * end[0, :kept] for end in ends)
        return Spectrum(sigma, (self.count, d), how, low, high)

    def _drift(self, mean: Tensor) -> float:
        """How far the rounding of the means moves the scatter.

        A mean is off by about `e = 4 eps ‖mean‖`: each merge puts `2 ‖gap‖ e nm/(n+m)` in the
        scatter, together at most `4 e √(count tr)`, and the centre itself `count e²`.
        """
        energy = self.scatter.diagonal().sum().item()
        size = torch.linalg.vector_norm(mean).item() + math.sqrt(energy / self.count)
        error = 4 * EPS * size
        return 4 * error * math.sqrt(self.count * energy) + self.count * error**2


def _scale(X: Float64[Tensor, "n d"]) -> float:
    largest = X.abs().amax().item()
    return 1.0 if largest == 0 or 1e-100 < largest < 1e100 else power_of_two(largest)
