"""How training drives the linear layers at the end of a network to rank one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg import Estimate
from sigmascope.probes import Part, Subject, Symmetry
from sigmascope.theory.bounds import Assumption, OfModels
from sigmascope.theory.le2022.invariants import SOURCE, Tensors

EPS = 2.0**-52
SHARP, PRINTED = 2, 8  # what a residual block costs, in Lemma 11 as it is sharp and as printed


@final
@dataclass(frozen=True, slots=True)
class Layer:
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

    def switch(self, block_cost: int) -> tuple[int, float]:
        """What it may cost to look at it from the other side.

        `s` and `e` of `‖inner‖² ≥ ‖outer‖² / s - e`.
        """
        turned = min(self.inner.shape[1], self.copies)
        if self.inside is None:
            return turned, 0.0
        over = max(float(torch.linalg.eigvalsh(self.inside)[-1]), 0.0)
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
    frobenius: float
    spectral: float
    S: float
    D: float

    @property
    def ratio(self) -> float:
        """`‖W‖² / ‖W‖_F²`, the inverse of the stable rank: 1 where the rank is one."""
        return self.spectral / self.frobenius if self.frobenius > 0 else 1.0

    @property
    def least(self) -> float:
        """What the ratio is at least: `(1 - D / ‖W‖_F²) / S`."""
        return (1 - self.D / self.frobenius) / self.S if self.frobenius > 0 else -math.inf

    def size_needed(self, ratio: float) -> float:
        """`‖W‖_F²` from which on the ratio is at least this; infinite from `1 / S` on."""
        left = 1 - ratio * self.S
        return self.D / left if left > 0 else math.inf


def rank_one_bound(
    layers: Sequence[Layer],
    last: Float[Tensor, "1 m"],
    *,
    balances: Sequence[Tensor] | None = None,
    block_cost: int = SHARP,
) -> tuple[RankOneBound, ...]:
    """How far each layer of a linear tail may be from rank one.

    Args:
        layers: In the order of the forward pass, without the last.
        last: The last layer: one row, channel by channel if it reads the positions of an image.
        balances: `C_j` of each layer with the next, from the beginning of training; of these
            weights if not given.
        block_cost: 2 for each residual block, which is sharp; 8 as printed.

    Raises:
        ValueError: If the last layer has more than one output, or the layers do not fit.

    Source:
        Le & Jegelka 2022, Theorem 2, (13), with the factor that is needed where convolutions meet
        dense layers.
    """
    if last.shape[0] != 1:
        raise ValueError(
            f"`last` must have one output, got shape {tuple(last.shape)}. With several outputs the "
            "last layers need not become rank one."
        )
    w = last.detach().double().cpu()
    found: list[RankOneBound] = []
    above = w.reshape(layers[-1].outer.shape[0], -1).mT if layers else w
    S, beta = float(min(above.shape)), 0.0
    for j, layer in reversed(list(enumerate(layers))):
        if above.shape[1] != len(layer.outer):
            raise ValueError(
                f"The layer after `{layer.site}` must read its {len(layer.outer)} units, got one "
                f"that reads {above.shape[1]}. List the layers in the order of the forward pass."
            )
        C = balances[j] if balances else above.mT @ above - layer.outer @ layer.outer.mT
        delta = beta + float(torch.linalg.eigvalsh(C.double().cpu())[-1])
        frobenius = float(layer.outer.square().sum())
        top = float(torch.linalg.matrix_norm(layer.outer, 2)) ** 2
        D = frobenius - float(w.square().sum()) + S * delta
        found.append(RankOneBound(layer.site, frobenius, top, S, D))
        s, e = layer.switch(block_cost)
        S, beta, above = S * s, delta / s + e, layer.inner
    return tuple(reversed(found))


@final
@dataclass(frozen=True, slots=True)
class Tail:
    """The linear layers at the end of a network.

    Attributes:
        layers: In the order of the forward pass, without the last.
        last: The weight of the last layer.
        biased: Whether one of them has a bias.
    """

    layers: tuple[Layer, ...]
    last: Float64[Tensor, "outputs m"]
    biased: bool

    @classmethod
    def of(cls, subject: Subject) -> "Tail | None":
        """The tail of a network; None where the last layer reads no linear layer.

        Args:
            subject: Its families of units all of which may be mixed are followed from the output.
        """
        parameters = {n: p.detach() for n, p in subject.model.named_parameters()}
        fixed = {f.tensor for f in subject.symmetries.fixed if f.side == "rows"}
        families = [f for f in subject.symmetries.scalings if _linear(f)]
        ends = [
            f for f in families if {p.tensor for p in _above(f)} <= fixed and len(_above(f)) == 1
        ]
        if len(ends) != 1:
            return None
        (end,) = _above(ends[0])
        assert end.frame is not None
        last = end.frame.slabs(parameters[end.tensor], "rows").double().cpu()
        layers = tuple(_walked(families, ends[0], parameters))
        biased = any(p.side == "entries" for f in families for p in f.parts)
        return cls(tuple(reversed(layers)), last, biased)


def _linear(family: Symmetry) -> bool:
    """Whether all units may be mixed, exactly."""
    return not family.slack and len(set(family.blocks.tolist())) == 1 and bool(_below(family))


def _above(family: Symmetry) -> list[Part]:
    return [p for p in family.parts if p.factor == 1 and p.side == "columns"]


def _below(family: Symmetry) -> list[Part]:
    return [p for p in family.parts if p.factor == -1 and p.side == "rows"]


def _walked(families: Sequence[Symmetry], top: Symmetry, parameters: Tensors) -> Iterator[Layer]:
    """Layers from the last but one backwards, as long as the path is linear."""
    family: Symmetry | None = top
    while family is not None:
        written = _below(family)
        names = {p.tensor for p in written}
        below = next(
            (f for f in families if f is not family and {p.tensor for p in _above(f)} & names
             and not _inside(f, names)), None,
        )  # fmt: skip
        inside = next((f for f in families if _inside(f, names)), None)
        outer = torch.cat([_slabs(p, parameters) for p in written], dim=1)
        read = [] if below is None else _above(below)
        inner = torch.cat([_slabs(p, parameters) for p in read], dim=1).mT if read else outer[:1]
        copies = max((_copies(p, parameters) for p in read if p.tensor in names), default=1)
        yield Layer(
            " + ".join(p.tensor for p in written),
            outer,
            inner,
            None if inside is None or len(names) == 1 else _balance(inside, parameters),
            copies,
        )
        family = below


def _inside(family: Symmetry, names: set[str]) -> bool:
    """Whether a family is that of the hidden units of a block, whose U is among the names."""
    above, below = ([p.tensor for p in side] for side in (_above(family), _below(family)))
    return len(names) > 1 and len(above) == 1 and above[0] in names and below[0] not in names


def _slabs(part: Part, parameters: Tensors) -> Tensor:
    return part.slabs(parameters[part.tensor]).double().cpu()


def _copies(part: Part, parameters: Tensors) -> int:
    """Entries that one unit that is read has in one row."""
    assert part.frame is not None
    return _slabs(part, parameters).shape[1] // part.frame.counts[0]


def _balance(family: Symmetry, parameters: Tensors) -> Tensor:
    above = torch.cat([_slabs(p, parameters) for p in _above(family)], dim=1)
    below = torch.cat([_slabs(p, parameters) for p in _below(family)], dim=1)
    return above @ above.mT - below @ below.mT


@dataclass(frozen=True, slots=True)
class _RankOne(OfModels):
    views: ClassVar[tuple[str, ...]] = ("balances",)
    cost: ClassVar[int]

    site: str
    bound: RankOneBound
    outputs: int
    biased: bool

    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("the network has one output", self.outputs == 1),
            Assumption("the last layers have no biases", not self.biased),
            Assumption("only linear maps between the last layers", True),
        )

    def measured(self) -> Estimate:
        value = self.bound.frobenius - self.bound.S * self.bound.spectral
        gap = 64 * EPS * self.bound.S * self.bound.frobenius
        return Estimate(value, value - gap, value + gap, "exact")

    def limit(self) -> Estimate:
        gap = 1e3 * EPS * (abs(self.bound.D) + self.bound.S * self.bound.frobenius)
        return Estimate(self.bound.D, self.bound.D - gap, self.bound.D + gap, "exact")

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["_RankOne"]:
        tail = Tail.of(subject)
        if tail is None:
            return
        row = tail.last[:1]  # with several outputs the theorem declines
        for bound in rank_one_bound(tail.layers, row, block_cost=cls.cost):
            yield cls(bound.site, bound, len(tail.last), tail.biased)


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
