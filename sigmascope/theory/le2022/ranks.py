"""How training drives the linear layers at the end of a network to rank one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief, Estimate
from sigmascope.linalg import spectral_norm
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.spectra import spectrum
from sigmascope.models.layers import plain
from sigmascope.models.samples import Batch
from sigmascope.theory.piecewise_affine import activation_patterns

# ------------------------------------------------------------------------------
# Whether training has reached the regime of stable signs and stable activations.


@final
@dataclass(frozen=True, slots=True)
class Stability:
    """What changed its sign since the first look.

    Attributes:
        changed: Share of the entries whose sign differs from the first look, in [0, 1].
        flipped: Share that changed since the look before.
        since: The look from which on nothing changed; the last one if something just did.
    """

    changed: float
    flipped: float
    since: int


@final
class SignRecord:
    """Signs of weights and sides of activations, look by look.

    Le & Jegelka call it the stable sign regime when no weight changes its sign any more; then the
    tree network of their Lemma 1 is fixed.

    Source:
        Le & Jegelka 2022, Assumptions 1 and 2.
    """

    def __init__(self) -> None:
        self._first: dict[str, Tensor] = {}
        self._last: dict[str, Tensor] = {}
        self._since: dict[str, int] = {}

    def look(
        self, model: nn.Module, batch: Batch | None = None, *, step: int
    ) -> Mapping[str, Stability]:
        """Compare with the looks before.

        Args:
            model: Left as it was found.
            batch: Where given, the sides of activations on it are compared too; always the same.
            step: Of training.

        Returns:
            By name of the parameter (two or more dimensions), or `"relu #3"` for the third call
            of an activation.
        """
        now = {n: plain(p).sign().to(torch.int8) for n, p in model.named_parameters() if p.ndim > 1}
        if batch is not None:
            now.update(activation_patterns(model, batch))
        found = {}
        for name, signs in now.items():
            first = self._first.setdefault(name, signs)
            last = self._last.get(name, signs)
            flipped = float((signs != last).double().mean())
            if flipped > 0 or name not in self._since:
                self._since[name] = step
            found[name] = Stability(
                float((signs != first).double().mean()), flipped, self._since[name]
            )
        self._last = now
        return found


SHARP, PRINTED = 2, 8  # what a residual block costs, in Lemma 11 as it is sharp and as printed


# ------------------------------------------------------------------------------
# How near to rank one the layers before the last are.


@final
@dataclass(frozen=True, slots=True, repr=False)
class InnerLayer(Brief):
    """One linear layer before the last, as its two neighbours see it.

    Attributes:
        site: Its name.
        outer: A row for each unit that it writes.
        inner: A column for each unit that it reads; the same entries otherwise arranged.
        inside: `UᵀU - YYᵀ` of a residual block `UY + Z` with free Z, which is conserved; then
            `outer` is `[U Z]` and `inner` is `[Y; Z]`.
        copies: Entries of one output that each unit that is read has: taps, or positions.
    """

    site: str
    outer: Float64[Tensor, "units rest"]
    inner: Float64[Tensor, "other read"]
    inside: Float64[Tensor, "k k"] | None = None
    copies: int = 1

    def switch(self, block_cost: int) -> tuple[int, Estimate]:
        """What it may cost to look at it from the other side.

        `s` and `e` of `‖inner‖² ≥ ‖outer‖² / s - e`.
        """
        turned = min(self.inner.shape[1], self.copies)
        if self.inside is None:
            return turned, Estimate.exactly(0.0)
        # its terms are parts of what this layer writes and reads
        size = float(self.outer.square().sum()) + float(self.inner.square().sum())
        terms = self.outer.shape[1] + self.inner.shape[0]
        over = _largest_eigenvalue(self.inside, rounding=terms * EPS * size).at_least(0.0)
        return block_cost * turned, over / (block_cost * turned)


@final
@dataclass(frozen=True, slots=True)
class RankOneBound:
    """How far a layer may be from rank one: `‖W‖_F² - S ‖W‖² ≤ D`.

    Attributes:
        site: The layer.
        frobenius: `‖W‖_F²`.
        spectral: `‖W‖²`.
        S: 1 for a tail of dense layers.
        D: Fixed by the balances.
    """

    site: str
    frobenius: Estimate
    spectral: Estimate
    S: float
    D: Estimate

    @property
    def excess(self) -> Estimate:
        """`‖W‖_F² - S ‖W‖²`."""
        return self.frobenius - self.S * self.spectral

    @property
    def ratio(self) -> float:
        """`‖W‖² / ‖W‖_F²`, the inverse of the stable rank: 1 where the rank is one."""
        size = self.frobenius.value
        return self.spectral.value / size if size > 0 else 1.0

    @property
    def least(self) -> float:
        """What the ratio is at least: `(1 - D / ‖W‖_F²) / S`."""
        size = self.frobenius.value
        return (1 - self.D.value / size) / self.S if size > 0 else -math.inf

    def size_needed(self, ratio: float) -> float:
        """`‖W‖_F²` from which on the ratio is at least this; infinite from `1 / S` on."""
        left = 1 - ratio * self.S
        return self.D.value / left if left > 0 else math.inf


def rank_one_bound(
    layers: Sequence[InnerLayer],
    last: Float[Tensor, "1 m"],
    *,
    block_cost: int = SHARP,
) -> tuple[RankOneBound, ...]:
    """How far each layer of a linear tail may be from rank one.

    Args:
        layers: In the order of the forward pass, without the last.
        last: The last layer: one row, channel by channel if it reads the positions of an image.
        block_cost: 2 for each residual block, which is sharp; 8 as printed.

    Raises:
        Refusal: If the last layer has more than one output, or the layers do not fit.

    Source:
        Le & Jegelka 2022, Theorem 2, (13), with the factor that is needed where convolutions meet
        dense layers.
    """
    if last.shape[0] != 1:
        raise Refusal(
            f"`last` must have one output, got shape {tuple(last.shape)}. With several outputs the "
            "last layers need not become rank one."
        )
    w = last.detach().double().cpu()
    found: list[RankOneBound] = []
    above = w.reshape(layers[-1].outer.shape[0], -1).mT if layers else w
    S, beta = float(min(above.shape)), Estimate.exactly(0.0)
    row = Estimate.sum_of_squares(w)
    for layer in reversed(layers):
        if above.shape[1] != len(layer.outer):
            raise Refusal(
                f"The layer after `{layer.site}` must read its {len(layer.outer)} units, got one "
                f"that reads {above.shape[1]}. List the layers in the order of the forward pass."
            )
        C = above.mT @ above - layer.outer @ layer.outer.mT
        frobenius = Estimate.sum_of_squares(layer.outer)
        size = frobenius.high + float(above.square().sum())
        terms = above.shape[0] + layer.outer.shape[1]
        delta = beta + _largest_eigenvalue(C.double().cpu(), rounding=terms * EPS * size)
        top = spectral_norm(spectrum(layer.outer, route="exact")) ** 2
        D = frobenius - row + S * delta
        found.append(RankOneBound(layer.site, frobenius, top, S, D))
        s, e = layer.switch(block_cost)
        S, beta, above = S * s, delta / s + e, layer.inner
    return tuple(reversed(found))


def _largest_eigenvalue(C: Tensor, *, rounding: float) -> Estimate:
    """Of a symmetric matrix that is known up to an error of this norm."""
    lam = torch.linalg.eigvalsh(C)
    gap = 16 * len(lam) * EPS * float(lam.abs().max()) + rounding
    return Estimate.within(float(lam[-1]), gap)
