"""What gradient flow conserves in a network, and the entries that it does not."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, final

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from sigmascope.theory.symmetry import Part, Passed, StepSums, StillSum, Symmetries, Symmetry

SOURCE = "Le & Jegelka 2022"
Kind = Literal["neuron", "pair", "matrix", "layer", "norm", "column sum", "no gradient"]
SLACKS = 100.0  # times a normaliser's share of eps that a rate may reach
Tensors = Mapping[str, Tensor]


@final
@dataclass(frozen=True, slots=True)
class Invariant:
    """Numbers that gradient flow leaves as they are.

    `Q_uv = Σ factor * (slab of u) · (slab of v)` over the parts of a scaling, for the pairs (u, v)
    of its mask; or the sum of a parameter over some axes.

    Attributes:
        kind: `"neuron"`: each unit on its own; `"pair"`: pairs of units with equal activation
            patterns too; `"matrix"`: all pairs, or all of a head or a group; `"layer"`: one number
            for whole layers; `"norm"`: sizes that a normaliser forgets; `"column sum"` and
            `"no gradient"`: what is linear in one parameter.
        what: A scaling of units, or sums of a gradient that vanish.
        rate: `dQ/dt` measured on the example, relative to the sizes of its terms.
        exactness: How far from zero rounding of the terms may move it.
        noise: How much further, where the gradient itself is what rounding left of larger numbers.
    """

    kind: Kind
    what: Symmetry | StillSum
    rate: float = 0.0
    exactness: float = 0.0
    noise: float = 0.0

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the parameters."""
        if isinstance(self.what, StillSum):
            return (self.what.tensor,)
        return tuple(dict.fromkeys(p.tensor for p in self.what.parts))

    @property
    def slack(self) -> float:
        """How far from exact the symmetry is, relatively: 0 but for a normaliser's `eps`."""
        return 0.0 if isinstance(self.what, StillSum) else self.what.slack

    @property
    def tolerance(self) -> float:
        """How far from zero rounding and a normaliser's `eps` may move the rate."""
        return self.exactness + self.noise + SLACKS * self.slack

    @property
    def count(self) -> int:
        """How many different numbers are conserved; for sums, how many sums."""
        if isinstance(self.what, StillSum):
            return self.what.count
        return (int(self.what.mask.sum()) + self.what.units) // 2

    @property
    def diagonal(self) -> bool:
        """Whether each unit is on its own, so that values are vectors."""
        return isinstance(self.what, StillSum) or self.kind in ("neuron", "layer", "norm")

    def alone(self) -> "Invariant":
        """What it says of each unit by itself: the diagonal, which costs no products of units."""
        if self.diagonal or isinstance(self.what, StillSum):
            return self
        return replace(self, kind="neuron", what=self.what.apart())

    def value(self, parameters: Tensors) -> Float64[Tensor, "..."]:
        """The conserved numbers.

        Args:
            parameters: The model's, by name; a state dict will do.

        Returns:
            One number a unit, or `[units, units]` with zeros outside the mask.

        Source:
            Le & Jegelka 2022, (4), (5), (6) and (7).
        """
        return self.form(parameters, parameters)

    def matrix(self, parameters: Tensors) -> Float64[Tensor, "units units"]:
        """The same for every pair of units, whether it is conserved or not."""
        assert isinstance(self.what, Symmetry), "sums have no pairs"
        return self._bilinear(parameters, parameters, diagonal=False)

    def change(self, parameters: Tensors, gradients: Tensors) -> Float64[Tensor, "..."]:
        """`dQ/dt = -2 θᵀ S ∇L` along gradient flow, for the conserved numbers.

        Args:
            parameters: By name.
            gradients: Of the loss, by the same names.
        """
        if isinstance(self.what, StillSum):
            return -self.form(gradients, gradients)
        return -2 * self.form(parameters, gradients)

    def form(self, left: Tensors, right: Tensors) -> Float64[Tensor, "..."]:
        """The symmetric bilinear form whose square is the value; of sums, the sum of `left`.

        Args:
            left: By name; what is not there counts as zero.
            right: By name.
        """
        if isinstance(self.what, StillSum):
            tensor = left[self.what.tensor].detach().double()
            return tensor.sum(self.what.axes) if self.what.axes else tensor
        found = self._bilinear(left, right, diagonal=self.diagonal)
        return found if self.diagonal else found * self.what.mask.to(found.device)

    def squares(self, sums: StepSums) -> Float64[Tensor, " units"]:
        """The form of one step with itself, for units by themselves.

        Args:
            sums: Of the step's tensors.
        """
        assert isinstance(self.what, Symmetry)
        total = torch.zeros(self.what.units, dtype=torch.float64)
        for part in (p for p in self.what.parts if p.tensor in sums.tensors):
            total.add_(sums.of(part), alpha=part.factor)
        return total

    def reach(self, sums: StepSums) -> float:
        """Largest product of norms that a term of the same form has; as `size`.

        Args:
            sums: Of the step's tensors.
        """
        assert isinstance(self.what, Symmetry)
        here = [p for p in self.what.parts if p.tensor in sums.tensors]
        return max((abs(p.factor) * float(sums.of(p).max()) for p in here), default=0.0)

    def _bilinear(self, left: Tensors, right: Tensors, *, diagonal: bool) -> Tensor:
        assert isinstance(self.what, Symmetry)
        units = self.what.units
        total = torch.zeros(units if diagonal else (units, units), dtype=torch.float64)
        for part in (p for p in self.what.parts if p.tensor in left):
            a = left[part.tensor].detach()
            b = a if left is right else right[part.tensor].detach()
            if diagonal:
                total += part.factor * part.dots(a, b).to(total)
            else:
                rows = part.slabs(a).double()
                product = rows @ (rows if a is b else part.slabs(b).double()).mT
                total += part.factor * ((product + product.mT) / 2).to(total)
        return total

    def size(self, left: Tensors, right: Tensors) -> float:
        """Largest product of norms that a term of the form can reach."""
        if isinstance(self.what, StillSum):
            return float(left[self.what.tensor].detach().double().abs().max())
        found = 0.0
        for part in (p for p in self.what.parts if p.tensor in left):
            a, b = (
                part.dots(t, t) for t in (left[part.tensor].detach(), right[part.tensor].detach())
            )
            norms = (a * b).sqrt()
            found = max(found, abs(part.factor) * float(norms.max()))
        return found


def claims(found: Symmetries) -> list[Invariant]:
    """What the symmetries of a forward pass make conserved, not yet measured."""
    claimed: list[Invariant] = []
    for what in found.scalings:
        kind: Kind = "pair" if Passed.ACTIVATION in what.passed else "matrix"
        if len({p.factor > 0 for p in what.parts}) == 1:
            kind = "norm"
        elif what.units == 1 and any(part.index.shape[1] > 1 for part in what.parts):
            kind = "layer"  # of several units that have one scale
        elif what.groups == what.units:
            kind = "neuron"
        claimed.append(Invariant(kind, what))
    sums = [Invariant("column sum" if s.axes else "no gradient", s) for s in found.sums]
    return claimed + sums


# ------------------------------------------------------------------------------
# A balance in words: its formula, and why it is conserved.


REASONS = {
    Passed.ACTIVATION: "an activation with two slopes",
    Passed.POOLING: "pooling that takes the largest",
    Passed.GAIN: "a gain of each unit",
    Passed.DATA: "numbers that differ by unit (a mask, a gate, a rotation)",
    Passed.NORMALISER: "a normaliser",
}


def formula(invariant: Invariant) -> str:
    """What is conserved, for each unit u; for pairs (u, v) as products.

    Args:
        invariant: From `invariants`.

    Source:
        Le & Jegelka 2022, (4)-(7).

    Example:
        >>> import torch
        >>> from sigmascope.theory.le2022.conservation import invariants
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        >>> formula(invariants(net, torch.ones(1, 3))[0])
        'W₂ᵀW₂ - W₁W₁ᵀ - bbᵀ with W₂ = 1.weight, W₁ = 0.weight, b = 0.bias'
    """
    what = invariant.what
    if isinstance(what, StillSum):
        axes = f" summed over axes {list(what.axes)}" if what.axes else ", every entry"
        return f"{what.tensor}{axes}"
    if invariant.diagonal:
        of = {"rows": "‖{}[u]‖²", "columns": "‖{}[:, u]‖²", "entries": "{}[u]²"}
        return _signed([(p.factor, of[p.side].format(_where(p, what))) for p in what.parts])
    names: dict[str, str] = {}
    terms: list[tuple[float, str]] = []
    for p in what.parts:
        letter, place = {"rows": "W₁", "columns": "W₂", "entries": "b"}[p.side], _where(p, what)
        while names.get(letter, place) != place:
            letter += "'"
        names[letter] = place
        square = f"{letter}ᵀ{letter}" if p.side == "columns" else f"{letter}{letter}ᵀ"
        terms.append((p.factor, square))
    where = ", ".join(f"{letter} = {name}" for letter, name in names.items())
    return f"{_signed(terms)} with {where}"


def _where(part: Part, what: Symmetry) -> str:
    """The parameter, with its rows where there are others: queries, keys and values in one."""
    first, end = int(part.index.min()), int(part.index.max()) + 1
    alone = all(p is part or (p.tensor, p.side) != (part.tensor, part.side) for p in what.parts)
    if part.index.size != end - first or (alone and first == 0):
        return part.tensor
    return f"{part.tensor}[{':, ' if part.side == 'columns' else ''}{first}:{end}]"


def _signed(terms: list[tuple[float, str]]) -> str:
    words = ""
    for factor, term in terms:
        sign = ("" if factor > 0 else "-") if not words else (" + " if factor > 0 else " - ")
        size = "" if abs(factor) == 1 else f"{abs(factor):g} "
        words += f"{sign}{size}{term}"
    return words


def reason(invariant: Invariant) -> str:
    """Why it is conserved, and for which pairs of units.

    Args:
        invariant: From `invariants`.

    Source:
        Le & Jegelka 2022, Lemma 2 and Theorem 1.
    """
    what = invariant.what
    if isinstance(what, StillSum):
        return "what is added along these axes is subtracted again by a softmax or a mean"
    blocks = what.groups
    words = [text for flag, text in REASONS.items() if flag in what.passed]
    between = " and ".join(words) if words else "only linear maps"
    if invariant.kind == "norm":
        said = "a common factor is divided out again"
    elif invariant.kind == "layer":
        said = "all units share one factor, which the next weights divide out"
    elif blocks == what.units:
        said = f"{between} between: a factor of each unit passes to the next weights"
    elif invariant.kind == "pair":
        said = f"{between} between: units in {blocks} groups of equal patterns on these examples"
    elif blocks > 1:
        each = "head" if Passed.HEADS in what.passed else "group"
        said = f"linear within each of {blocks} {each}s: any mixing there passes on"
    else:
        said = f"{between} between: any mixing of units passes to the next weights"
    return said + ("; up to the eps of a normaliser" if what.slack else "")


def shown(what: Symmetry | StillSum) -> str:
    """How many units, and in how many blocks they mix."""
    if isinstance(what, StillSum):
        return f"{what.count}"
    blocks = what.groups
    return f"{what.units}" if blocks in (1, what.units) else f"{what.units} ({blocks} groups)"


# ------------------------------------------------------------------------------
# Where whole blocks of a balance are conserved.


def equal_pattern_mask(preactivations: Float[Tensor, "n h"]) -> Bool[Tensor, "h h"]:
    """Pairs of units that are active on the same samples, and on none exactly at zero.

    Args:
        preactivations: A row a sample.

    Source:
        Le & Jegelka 2022, Lemma 2 (5); at pre-activation 0 the slope is not defined.
    """
    active, clear = preactivations > 0, (preactivations != 0).all(0)
    alike = (active[:, :, None] == active[:, None]).all(0)
    return alike & clear[:, None] & clear[None]
