"""One residual layer between activations, measured: the facts of its theorems."""

from dataclasses import dataclass

import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.records import Assumption, Estimate, Spectrum
from sigmascope.theory.riedi2022.intervals import blur, exact, ratio
from sigmascope.theory.riedi2022.random_weights.scales import (
    weight_spread,
)

REFUTED = 1e-9  # chance below which the sum of squares of Gaussian weights is not what was found


@dataclass(frozen=True, slots=True)
class ResidualLayer:
    """The facts: one residual layer between activations, with Gaussian weights.

    Attributes:
        weight: Singular values of `W`.
        plain: Of `D₁ W D`.
        skipped: Of `(D₁ W + Id) D`.
        inner: Diagonal of `D₁`.
        outer: Diagonal of `D`.
        r: Inverse scale of the weights.
        site: Which layer.
        drawn: Whether the weights were drawn from the Gaussian law (111); None where that is not
            known. Of a given matrix it can be refuted, and never proved.
    """

    weight: Spectrum
    plain: Spectrum
    skipped: Spectrum
    inner: Float64[Tensor, " n"]
    outer: Float64[Tensor, " n"]
    r: float
    site: str = "residual layer"
    drawn: bool | None = None

    @classmethod
    def of(
        cls,
        W: Float[Tensor, "n n"],
        inner: Float[Tensor, " n"],
        outer: Float[Tensor, " n"],
        *,
        r: float,
        site: str = "residual layer",
        drawn: bool | None = None,
    ) -> "ResidualLayer":
        """Measure a layer.

        Args:
            W: Its weights.
            inner: The slopes before the skip connection joins.
            outer: The slopes of the trained layer.
            r: Inverse scale of the weights.
            site: Which layer.
            drawn: True where the weights were drawn with `weight_spread(n, r)`.

        Raises:
            ValueError: If the sizes do not fit.
        """
        n = len(W)
        if W.shape != (n, n) or inner.shape != (n,) or outer.shape != (n,):
            raise ValueError(
                f"`W` must be square with two diagonals of its size, got shapes {tuple(W.shape)}, "
                f"{tuple(inner.shape)} and {tuple(outer.shape)}."
            )
        W, inner, outer = W.double(), inner.double(), outer.double()
        half = inner[:, None] * W
        skipped = (half + torch.eye(n, dtype=torch.float64)) * outer
        return cls(exact(W), exact(half * outer), exact(skipped), inner, outer, r, site, drawn)

    @property
    def n(self) -> int:
        """Width."""
        return len(self.inner)

    @property
    def off(self) -> tuple[int, int]:
        """Units that are off, before and after the layer."""
        return int((self.inner == 0).sum()), int((self.outer == 0).sum())

    @property
    def nu(self) -> float:
        """How much the two activations take together (127)."""
        before, after = self.off
        return before + after - before * after / self.n

    @property
    def rank(self) -> int:
        """Singular values of `(D₁ W + Id) D` that are not zero by construction."""
        return self.n - self.off[1]

    @property
    def gap(self) -> float:
        """Rounding of a singular value."""
        return blur(self.weight, self.plain, self.skipped)

    def gaussian(self) -> Assumption:
        """Whether the weights are Gaussian of the scale that r says; by their size, if not told."""
        met = self.drawn
        if met is None:
            size = self.weight.sigma.square().sum().item() / weight_spread(self.n, self.r) ** 2
            tails = scipy.stats.chi2.cdf(size, self.n**2), scipy.stats.chi2.sf(size, self.n**2)
            met = False if min(tails) < REFUTED else None
        return Assumption("weights are independent Gaussians of variance 1/(8 n r²)", met)

    @property
    def top(self) -> float:
        """`s₁(W)`."""
        return self.weight.sigma[0].item()

    def slopes_are(self, *allowed: float) -> bool:
        """Whether both activations have these slopes alone."""
        both = torch.cat([self.inner, self.outer])
        return bool(torch.isin(both, torch.tensor(allowed, dtype=both.dtype)).all())

    def condition(self, s: Spectrum) -> Estimate:
        """Largest over smallest of the values that are not zero by construction."""
        last = s.sigma[max(self.rank, 1) - 1].item()
        return ratio(s.sigma[0].item(), last, self.gap, s.how)
