"""How far adjacent linear layers are from aligned, and their tail from rank one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.records import Assumption, Brief, Estimate, Sense
from sigmascope.linalg.dense import EPS
from sigmascope.models import Subject
from sigmascope.theory.bounds import OfModels
from sigmascope.theory.le2022.conservation.invariants import SOURCE, Tensors
from sigmascope.theory.le2022.ranks import PRINTED, SHARP, InnerLayer, RankOneBound, rank_one_bound
from sigmascope.theory.symmetry import Part, Passed, Symmetry, symmetries_of

# ------------------------------------------------------------------------------
# The linear layers at the end of a network.


@final
@dataclass(frozen=True, slots=True, repr=False)
class LinearTail(Brief):
    """The linear layers at the end of a network.

    Attributes:
        layers: In the order of the forward pass, without the last.
        last: The weight of the last layer.
        biased: Whether one of them, the last one left out, has a bias.
        skipped: The layers at which the tail begins because an identity skip adds to what they
            write; empty where it begins for another reason.
    """

    layers: tuple[InnerLayer, ...]
    last: Float64[Tensor, "outputs m"]
    biased: bool
    skipped: str = ""

    @classmethod
    def of(cls, subject: Subject) -> "LinearTail | None":
        """The tail of a network; None where the last layer reads no linear layer.

        Args:
            subject: Its families of units all of which may be mixed are followed from the output.
        """
        parameters = {n: p.detach() for n, p in subject.model.named_parameters()}
        fixed = {f.tensor for f in symmetries_of(subject).fixed if f.side == "rows"}
        # all units of which may be mixed, exactly, and on other batches too
        mixed = [f for f in symmetries_of(subject).scalings if Passed.ACTIVATION not in f.passed]
        families = [f for f in mixed if not f.slack and f.groups == 1 and _below(f)]
        ends = [f for f in families if len(_above(f)) == 1 and _above(f)[0].tensor in fixed]
        if len(ends) != 1:
            return None
        (end,) = _above(ends[0])
        assert end.frame is not None
        last = end.frame.slabs(parameters[end.tensor], "rows").double().cpu()
        # The units between layers, from the last ones backwards, each with those before them. It
        # ends where the path is no longer linear, and at an identity skip: there nothing is
        # conserved between a layer and the next, only between all that share the stream.
        path: list[Step] = []
        skipped = ""
        family: Symmetry | None = ends[0]
        while family is not None:
            names = {p.tensor for p in _below(family)}
            if names & {p.tensor for p in _above(family)}:
                skipped = " + ".join(p.tensor for p in _below(family))
                break
            reading = (f for f in families if {p.tensor for p in _above(f)} & names)
            below = next((f for f in reading if f is not family and not _inside(f, names)), None)
            path.append((family, below))
            family = below
        # the layer that writes each family of units, which reads those before it
        layers: list[InnerLayer] = []
        for one, below in path:
            written = _below(one)
            names = {p.tensor for p in written}
            inside = next((f for f in families if _inside(f, names)), None)
            outer = torch.cat([_slabs(p, parameters) for p in written], dim=1)
            # the tensors of a residual block are those that its hidden units read too
            reach = names if inside is None else names | {p.tensor for p in _below(inside)}
            read = [] if below is None else [p for p in _above(below) if p.tensor in reach]
            slabs = [_slabs(p, parameters) for p in read]
            inner = torch.cat(slabs, dim=1).mT if read else outer[:1]
            balance = None
            if inside is not None and len(names) > 1:
                above = torch.cat([_slabs(p, parameters) for p in _above(inside)], dim=1)
                under = torch.cat([_slabs(p, parameters) for p in _below(inside)], dim=1)
                balance = above @ above.mT - under @ under.mT
            # entries that one unit that is read has in one row
            copies = [
                slab.shape[1] // p.frame.counts[0]
                for p, slab in zip(read, slabs, strict=True)
                if p.tensor in names and p.frame is not None
            ]
            says = " + ".join(p.tensor for p in written)
            layers.append(InnerLayer(says, outer, inner, balance, max(copies, default=1)))
        biased = any(p.side == "entries" for f, _ in path for p in f.parts)
        return cls(tuple(reversed(layers)), last, biased, skipped)


def _above(family: Symmetry) -> list[Part]:
    return [p for p in family.parts if p.factor == 1 and p.side == "columns"]


def _below(family: Symmetry) -> list[Part]:
    return [p for p in family.parts if p.factor == -1 and p.side == "rows"]


Step = tuple[Symmetry, Symmetry | None]


def _inside(family: Symmetry, names: set[str]) -> bool:
    """Whether a family is that of the hidden units of a block, whose U is among the names."""
    above, below = ([p.tensor for p in side] for side in (_above(family), _below(family)))
    return len(names) > 1 and len(above) == 1 and above[0] in names and below[0] not in names


def _slabs(part: Part, parameters: Tensors) -> Tensor:
    return part.slabs(parameters[part.tensor]).double().cpu()


ROUNDINGS = 8  # of a scalar product and of a squared cosine


def alignment(below: Float[Tensor, "h a"], above: Float[Tensor, "c h"]) -> Estimate:
    """`⟨v, u⟩²`: v the first right singular vector of a layer, u the first left one below it.

    Args:
        below: The layer whose rows are the shared units.
        above: The layer whose columns they are.

    Returns:
        Between 0 and 1; all of it where a first singular value is not single.

    Source:
        Le & Jegelka 2022, Theorem 2 and (15).
    """
    return Pair.of(below, above).alignment


def alignment_lower_bound(
    below: Float[Tensor, "h a"],
    above: Float[Tensor, "c h"],
    balance: Float[Tensor, "h h"] | None = None,
) -> float:
    """What the conserved `C = W₂ᵀW₂ - W₁W₁ᵀ` forces `⟨v, u⟩²` to be at least.

    `(s₁(W₂)² - vᵀCv - s₂(W₁)²) / (s₁(W₁)² - s₂(W₁)²)`.

    Args:
        below: `W₁`.
        above: `W₂`.
        balance: C; of these weights if not given. From the beginning of training it tells what
            the weights of today must obey.

    Returns:
        At most 1; negative where it says nothing, minus infinity where `s₁ = s₂`.

    Source:
        Le & Jegelka 2022, (15), at finite time.
    """
    return Pair.of(below, above).least(balance).value


@final
@dataclass(frozen=True, repr=False)
class Pair(Brief):
    """Two adjacent linear layers, by what they do to the units between.

    Attributes:
        below: Gram matrix `W₁W₁ᵀ` (with the bias, if there is one).
        above: Gram matrix `W₂ᵀW₂`.
        rounding: How far from the true ones they may be, in the spectral norm.
    """

    below: Float64[Tensor, "h h"]
    above: Float64[Tensor, "h h"]
    rounding: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, below: Float[Tensor, "h a"], above: Float[Tensor, "c h"]) -> "Pair":
        """Of two weights."""
        W1, W2 = below.detach().double().cpu(), above.detach().double().cpu()
        return cls.joined([W1], [W2.mT])

    @classmethod
    def joined(
        cls, below: Sequence[Float64[Tensor, "h _"]], above: Sequence[Float64[Tensor, "h _"]]
    ) -> "Pair":
        """Of all that comes in at each unit, and all that goes out, a row a unit."""
        sides: list[tuple[Tensor, float]] = []
        for slabs in (below, above):
            # the sum of Gram matrices, and what forming it rounded
            terms = sum(s.shape[1] for s in slabs) + len(slabs)
            size = sum(float(s.square().sum()) for s in slabs)
            sides.append(
                (sum((s @ s.mT for s in slabs), torch.zeros(())), (terms + 2) * EPS * size)
            )
        return cls(sides[0][0], sides[1][0], (sides[0][1], sides[1][1]))

    @cached_property
    def _tops(self) -> tuple["Top", "Top"]:
        return Top.of(self.below, self.rounding[0]), Top.of(self.above, self.rounding[1])

    @property
    def alignment(self) -> Estimate:
        """`⟨v, u⟩²`, with what rounding of the two vectors may do."""
        below, above = self._tops
        value = min(float(below.vector @ above.vector) ** 2, 1.0)
        if max(below.turn, above.turn) >= 1:
            return Estimate(value, 0.0, 1.0, "a first singular value is not single")
        # the sines are below 1, and an angle is below π/2 of its sine
        reach = math.pi / 2 * (below.turn + above.turn) + len(below.vector) * EPS
        angle = math.acos(math.sqrt(value))
        low, high = angle + reach, max(angle - reach, 0.0)
        least = 0.0 if low >= math.pi / 2 else math.cos(low) ** 2
        ends = max(least - ROUNDINGS * EPS, 0.0), min(math.cos(high) ** 2 + ROUNDINGS * EPS, 1.0)
        return Estimate(value, min(ends[0], value), max(ends[1], value), "exact")

    def least(self, balance: Tensor | None = None) -> Estimate:
        """The lower bound, with a balance of an earlier time if one is given.

        The balance of these weights is not formed: `s₁(W₂)² - vᵀCv` is `vᵀW₁W₁ᵀv`, without what
        cancels where the layer above is the larger one.
        """
        below, above = self._tops
        if balance is None:
            over = _form(self.below, above, error=self.rounding[0])
        else:
            C = balance.double().cpu()
            over = above.first - _form(C, above, error=0.0)
        gap = below.gap
        if gap.low <= 0:
            return Estimate(-math.inf, -math.inf, 1.0, "the first singular value is not single")
        return ((over - below.second) / gap).at_most(1.0)

    @property
    def gap(self) -> Estimate:
        """Distance of the first two eigenvalues below."""
        return self._tops[0].gap


@final
@dataclass(frozen=True, slots=True)
class Top:
    """The first eigenvector of a Gram matrix, and how far rounding may have turned it.

    Attributes:
        vector: Of norm one.
        first: Its eigenvalue.
        second: The next one; 0 where there is none.
        turn: At least the sine of the angle to the true one (Davis & Kahan 1970); 1 and more
            where it is not determined.
    """

    vector: Float64[Tensor, " h"]
    first: Estimate
    second: Estimate
    turn: float

    @classmethod
    def of(cls, gram: Float64[Tensor, "h h"], rounding: float) -> "Top":
        """Of a matrix that is known up to an error of this norm."""
        lam, U = torch.linalg.eigh(gram)
        error = rounding + 16 * len(lam) * EPS * float(lam.abs().max())
        first = Estimate.within(float(lam[-1]), error)
        second = Estimate.within(float(lam[-2]), error) if len(lam) > 1 else Estimate.exactly(0.0)
        gap = first.value - float(lam[-2]) - error if len(lam) > 1 else math.inf
        turn = 0.0 if len(lam) < 2 else 2 * error / gap if gap > 0 else math.inf
        return cls(U[:, -1], first, second, turn)

    @property
    def gap(self) -> Estimate:
        """How far the second eigenvalue is below the first."""
        return self.first - self.second


def _form(A: Tensor, top: Top, *, error: float) -> Estimate:
    """`vᵀ A v` for the true first eigenvector; A is known up to an error of this norm."""
    v, turn = top.vector, min(top.turn, 1.0)
    norm = float(A.norm())
    turned = 2 * turn * float((A @ v).norm()) + 2 * turn**2 * norm
    return Estimate.within(float(v @ A @ v), error + turned + 4 * len(v) * EPS * norm)


def linear_pairs(subject: Subject) -> Iterator[tuple[str, str, Pair]]:
    """Adjacent layers with nothing but linear maps between: names of the tensors, and the pair.

    Args:
        subject: Whose units all of which may be mixed.
    """
    parameters = dict(subject.model.named_parameters())
    for family in symmetries_of(subject).scalings:
        if family.slack or family.groups > 1 or family.units < 2:
            continue
        if Passed.ACTIVATION in family.passed:  # linear on this batch, where no unit is off
            continue
        # of what comes in and goes out; nothing where the factors are not all one
        below, above = (
            [
                p.slabs(parameters[p.tensor].detach()).double().cpu()
                for p in family.parts
                if p.factor * sign > 0
            ]
            if all(abs(p.factor) == 1 for p in family.parts if p.factor * sign > 0)
            else []
            for sign in (-1, 1)
        )
        if below and above:
            yield _names(family, -1), _names(family, 1), Pair.joined(below, above)


def _names(family: Symmetry, sign: int) -> str:
    parts = [p for p in family.parts if p.factor * sign > 0 and p.side != "entries"]
    return " + ".join(dict.fromkeys(p.tensor for p in parts))


@final
@dataclass(frozen=True, slots=True, repr=False)
class Alignment(OfModels, Brief):
    """Adjacent linear layers are as aligned as their balance forces them to be."""

    name: ClassVar[str] = "alignment"
    source: ClassVar[str] = f"{SOURCE}, Eq. (15), at finite time"
    statement: ClassVar[str] = "⟨v,u⟩² ≥ (s₁(W₂)² - vᵀCv - s₂(W₁)²) / (s₁(W₁)² - s₂(W₁)²)"
    sense: ClassVar[Sense] = "at least"
    views: ClassVar[tuple[str, ...]] = ("balances",)

    site: str
    pair: Pair
    balance: Float64[Tensor, "h h"] | None = None

    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("the layers meet with linear maps only between them", True),
            Assumption(
                "the first singular value below is single, beyond rounding", self.pair.gap.low > 0
            ),
        )

    def always(self) -> tuple[float, float]:
        return 0.0, 1.0

    def measured(self) -> Estimate:
        return self.pair.alignment

    def limit(self) -> Estimate:
        return self.pair.least(self.balance).at_least(0.0)

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["Alignment"]:
        for below, above, pair in linear_pairs(subject):
            yield cls(f"{below} ~ {above}", pair)


# ------------------------------------------------------------------------------
# Theorem 2 on a model.


@dataclass(frozen=True, slots=True)
class _RankOne(OfModels):
    """How far a layer is from rank one, against the constant that training started with.

    Of one set of weights alone the inequality is an identity: `D` follows from the weights. It says
    something of weights that were trained, with the `D` from before; see `since`.

    Attributes:
        site: The layer.
        now: The layer's singular values, and the D that follows from its weights of today.
        start: The D of the start of training; None where it is not known.
        outputs: Of the network.
        biased: Whether a layer of the tail has a bias.
    """

    views: ClassVar[tuple[str, ...]] = ("balances",)
    cost: ClassVar[int]

    site: str
    now: RankOneBound | None
    start: Estimate | None
    outputs: int
    biased: bool

    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("only linear maps between the last layers", self.now is not None),
            Assumption("the network has one output", self.outputs == 1),
            Assumption("the last layers have no biases", not self.biased),
            Assumption(
                "D is that of the start of training (`RankOne.since`)",
                None if self.start is None else True,
            ),
        )

    def measured(self) -> Estimate:
        assert self.now is not None  # else the theorem does not apply
        return self.now.excess

    def limit(self) -> Estimate:
        assert self.now is not None
        today = self.now.D
        if self.start is None:
            return Estimate(today.value, -math.inf, today.high, "of these weights")
        # steps of finite size change the balances, and D with them: so much higher it may be
        most = max(self.start.high, today.high)
        return Estimate(self.start.value, self.start.low, most, "of the start")

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["_RankOne"]:
        yield from cls._of(LinearTail.of(subject), None)

    @classmethod
    def since(cls, start: Subject, now: Subject) -> Iterator["_RankOne"]:
        """The theorem for weights that were trained.

        Args:
            start: The model before training.
            now: The same model after it.
        """
        yield from cls._of(LinearTail.of(now), LinearTail.of(start))

    @classmethod
    def _of(cls, tail: LinearTail | None, before: LinearTail | None) -> Iterator["_RankOne"]:
        if tail is None:
            return
        known = {} if before is None else {b.site: b.D for b in _bounds(before, cls.cost)}
        ends = len(tail.last), tail.biased
        for bound in _bounds(tail, cls.cost):
            yield cls(bound.site, bound, known.get(bound.site), *ends)
        if tail.skipped:
            yield cls(f"{tail.skipped} (an identity skip)", None, None, *ends)


def _bounds(tail: LinearTail, cost: int) -> tuple[RankOneBound, ...]:
    row = tail.last[:1]  # with several outputs the theorem declines
    return rank_one_bound(tail.layers, row, block_cost=cost)


@final
@dataclass(frozen=True, slots=True)
class RankOne(_RankOne):
    """What balances leave a linear tail of rank above one stays bounded as its weights grow."""

    name: ClassVar[str] = "rank-one"
    source: ClassVar[str] = f"{SOURCE}, Theorem 2 (13), with the sharp constants"
    statement: ClassVar[str] = "‖W_j‖_F² - S_j ‖W_j‖² ≤ D_j, with 2 for each residual block"
    cost: ClassVar[int] = SHARP


@final
@dataclass(frozen=True, slots=True)
class RankOnePrinted(_RankOne):
    """The same with the constants as printed, and the factor they lack where needed."""

    name: ClassVar[str] = "rank-one-printed"
    source: ClassVar[str] = f"{SOURCE}, Theorem 2 (13)"
    statement: ClassVar[str] = "‖W_j‖_F² - S_j ‖W_j‖² ≤ D_j, with 8 for each residual block"
    cost: ClassVar[int] = PRINTED
