"""How the eigenvalues of a symmetric operator are distributed, by stochastic Lanczos quadrature."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.krylov.lanczos import Krylov, krylov_space
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.refusals import require_between, require_samples, require_symmetric
from sigmascope.records import Estimate

ROUNDINGS = 1024  # of a sum of weights, which are squares of entries of eigenvectors


@dataclass(frozen=True, slots=True)
class Density:
    """The distribution of the eigenvalues of an `n`-dimensional symmetric map.

    Attributes:
        nodes: Where each sample puts its mass, in ascending order; one row if all are known.
        weights: The mass there; each row sums to 1.
        size: `n`.
        rounding: How far a node may be from where exact arithmetic had put it.
        how: The route.
        risk: Chance that an interval misses, each for itself.
    """

    nodes: Float64[Tensor, "samples k"]
    weights: Float64[Tensor, "samples k"]
    size: int
    rounding: float
    how: str
    risk: float

    def below(self, threshold: float) -> Estimate:
        """Share of the eigenvalues that are at most `threshold`, between 0 and 1.

        The quadrature of each sample bounds its share from both sides. The share of a uniform
        direction in a fixed space has a beta law; the ends are the smallest and the largest number
        of eigenvalues with which the mean of so many shares is not too unlikely.
        """
        if self.risk == 0:
            counts = (
                int((self.nodes <= threshold + gap).sum())
                for gap in (-self.rounding, 0.0, self.rounding)
            )
            low, value, high = (count / self.size for count in counts)
            return Estimate(value, low, high, self.how)
        value = min(_mean(torch.where(self.nodes <= threshold, self.weights, 0.0).sum(1)), 1.0)
        low, high = (_mean(share) for share in self._enclosed(threshold))
        draws, rounding = len(self.nodes), ROUNDINGS * 2.0**-52
        least = _fewest(low - rounding, self.size, draws=draws, risk=self.risk / 2)
        most = self.size - _fewest(1 - high - rounding, self.size, draws=draws, risk=self.risk / 2)
        low, high = min(value, least / self.size), max(value, most / self.size)
        return Estimate(value, low, high, self.how, self.risk)

    def _enclosed(self, threshold: float) -> tuple[Tensor, Tensor]:
        """Least and greatest share below the threshold that each sample's moments allow.

        Between two nodes a measure with these moments has all of the mass of the nodes further
        left, and none of that of the nodes further right (Chebyshev, Markov, Stieltjes).
        """
        zero = self.weights.new_zeros(len(self.weights), 1)
        total = torch.cat([zero, self.weights.cumsum(1)], dim=1)  # total[:, i]: of the first i
        last = self.weights.shape[1]
        left = (self.nodes <= threshold - self.rounding).sum(1)
        right = (self.nodes <= threshold + self.rounding).sum(1)
        low = total.gather(1, (left - 1).clamp_min(0)[:, None])[:, 0]
        high = total.gather(1, (right + 1).clamp_max(last)[:, None])[:, 0]
        return low, high.clamp_max(1.0)


def spectral_density(
    A: Float[Tensor, "n n"] | Operator | Sequence[Krylov],
    *,
    samples: int = 10,
    steps: int = 64,
    risk: float = 0.05,
    generator: torch.Generator | None = None,
) -> Density:
    """Distribution of the eigenvalues of a symmetric `A`.

    Args:
        A: A symmetric matrix, solved; an operator; or some of its Krylov spaces of equally many
            steps, each from a start of its own.
        samples: Random starts.
        steps: Products for each; with as many as columns, all eigenvalues are found once.
        risk: Chance that the interval of a share misses.
        generator: Source of the random starts.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        ValueError: If `A` is not square or finite, a tensor not symmetric, `samples` below 2, or
            `risk` not in (0, 1).

    Source:
        Ubaru, Chen & Saad 2017; the enclosure is that of Chebyshev, Markov and Stieltjes (Szegő
        1939, Theorem 3.41.1), the tail that of Pinelis 1998.

    Cost: `samples` × `steps` products.

    Example:
        >>> spectral_density(torch.diag(torch.tensor([1.0, 2.0, 3.0]))).below(2.5).value
        0.6666666666666666
    """
    require_between(risk, 2.0**-52, 1, name="risk", instead="It is a chance, e.g. 0.05.")
    if isinstance(A, Tensor):
        require_symmetric(A, name="A")
        A = Operator.of(A.detach().double().cpu())
        steps = A.shape[0]
    if isinstance(A, Operator):
        require_samples(samples)
        many = 1 if steps >= A.shape[0] else samples
        A = [krylov_space(A, steps=steps, generator=generator) for _ in range(many)]
    return _density(A, risk)


def _density(spaces: Sequence[Krylov], risk: float) -> Density:
    n, steps = spaces[0].basis.shape
    if not spaces[0].complete and any(s.random < 1 or s.basis.shape != (n, steps) for s in spaces):
        raise ValueError(
            "The spaces must have equally many steps from random starts, got "
            f"{[(s.steps, s.random) for s in spaces]} (steps, random share). Begin them without "
            "`towards` and with `tolerance=0`."
        )
    whole = spaces[0].complete
    spaces = spaces[:1] if whole else spaces
    require_samples(2 if whole else len(spaces))
    found = [space.ritz() for space in spaces]
    nodes = torch.stack([values for values, _, _ in found])
    weights = torch.stack([vectors[0].square() for _, vectors, _ in found])
    if whole:
        weights = torch.full_like(nodes, 1 / n)
    rounding = max(space.rounding for space in spaces)
    how = "exact" if whole else f"lanczos quadrature(samples={len(spaces)}, steps={steps})"
    return Density(nodes, weights, n, rounding, how, 0.0 if whole else risk)


def _mean(values: Float64[Tensor, " samples"]) -> float:
    return values.mean().item()


def _fewest(share: float, size: int, *, draws: int, risk: float) -> int:
    """Fewest of `size` directions of which random ones may have this share on average.

    The mean of `draws` shares of m directions is, in convex order, below a beta variable with
    `draws` times the parameters: weight the shares with independent chi squares, the lengths that
    the directions had, and that is its law. Its tail is then at most e times that of the beta
    variable, whose density is log-concave (Pinelis 1998, with convex functions of order 1).
    """
    slack = 1.0 if draws == 1 else math.e
    if share <= 0:
        return 0

    def likely(m: int) -> bool:
        if m in (0, size):
            return m == size
        tail = scipy.special.betainc(draws * (size - m) / 2, draws * m / 2, 1 - min(share, 1.0))
        return slack * float(tail) > risk

    return bisect_left(range(size), True, key=likely)
