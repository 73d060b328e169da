"""The second correction of a product: Proposition 4, where it can be checked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from jaxtyping import Float64
from torch import Tensor

from sigmascope.probes.structure import Point, Stack
from sigmascope.records import Assumption, Estimate, Spectrum
from sigmascope.theory.jacot2023.constructions.linear_maps import SOURCE
from sigmascope.theory.jacot2023.facts import OfStacks, log_volume, singular_values


@final
@dataclass(frozen=True, slots=True)
class ProductCorrection(OfStacks):
    """How irregular a product of linear layers is, is at most what its layers are together.

    The square root of the second correction is a distance from isometries, which adds up along a
    composition whose first corrections add up. Equal ranks alone do not do: a product that passes
    less than its layers keep is more irregular than they are.
    """

    name: ClassVar[str] = "product-correction"
    source: ClassVar[str] = f"{SOURCE}, Prop. 4 (1), for linear layers of one rank"
    statement: ClassVar[str] = "√R2(W_L ⋯ W_1) ≤ Σ √R2(W_l), R2(A) = 2 Σ log² s_i(A)"

    def more(self) -> tuple[Assumption, ...]:
        assert self.point is not None
        linear = Assumption("the network is linear", self.point.stack.slope == 1)
        if not linear.met:
            return (linear,)
        spectra = self.point.stack.spectra
        whole = (*spectra, self.point.spectrum)
        ranks = [len(singular_values(s)) for s in whole]
        known = all(_decided(s, k) for s, k in zip(whole, ranks, strict=True))
        said = f"the product has the rank of every layer (ranks {', '.join(map(str, ranks))})"
        alike = len(set(ranks)) == 1
        same = Assumption(said, alike if known or not alike else None)
        return (linear, same, self._additive(spectra))

    def _additive(self, spectra: Sequence[Spectrum]) -> Assumption:
        """Whether `log |A|_+` of the product is the sum of those of its layers.

        It is for certain where the rank is the width of every hidden layer, as determinants
        multiply. Elsewhere it can be refuted by numbers, and never proved by them.
        """
        assert self.point is not None
        apart = log_volume(singular_values(self.point.spectrum))
        for s in spectra:
            apart = apart - log_volume(singular_values(s))
        rank = len(singular_values(self.point.spectrum))
        hidden = [len(W) for W in self.point.stack.weights[:-1]]
        refuted = apart.low > 0 or apart.high < 0
        met = False if refuted else True if all(n == rank for n in hidden) else None
        return Assumption(
            "the pseudo-determinants of the layers multiply, R1(fg) = R1(f) + R1(g)", met
        )

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        layers = map(_distance, point.stack.spectra)
        return _distance(point.spectrum), sum(layers, Estimate.exactly(0.0))

    @classmethod
    def on(cls, stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator["ProductCorrection"]:
        """Once: a linear network is the same everywhere."""
        if stack.slope == 1 and len(rows):
            yield cls("network", stack.at(rows[0]))


def _decided(s: Spectrum, known: int) -> bool:
    """Whether the singular values that are not known are zero for certain, for there are none."""
    return known == len(s.sigma)


def _distance(s: Spectrum) -> Estimate:
    """`√R2`."""
    squares = (e.log() ** 2 for e in singular_values(s))
    return (2 * sum(squares, Estimate.exactly(0.0))).sqrt()
