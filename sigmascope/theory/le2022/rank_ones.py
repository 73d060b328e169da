"""Theorem 2 on a model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from sigmascope.linalg import Estimate
from sigmascope.probes import Subject
from sigmascope.theory.bounds import Assumption, OfModels
from sigmascope.theory.le2022.invariants import SOURCE
from sigmascope.theory.le2022.ranks import PRINTED, SHARP, RankOneBound, rank_one_bound
from sigmascope.theory.le2022.tails import Tail

EPS = 2.0**-52


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
