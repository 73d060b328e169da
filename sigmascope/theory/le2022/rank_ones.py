"""Theorem 2 on a model."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from sigmascope.probes import Subject
from sigmascope.records import Assumption, Estimate
from sigmascope.theory.bounds import OfModels
from sigmascope.theory.le2022.conservation.invariants import SOURCE
from sigmascope.theory.le2022.ranks import PRINTED, SHARP, RankOneBound, rank_one_bound
from sigmascope.theory.le2022.tails import Tail


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
        yield from cls._of(Tail.of(subject), None)

    @classmethod
    def since(cls, start: Subject, now: Subject) -> Iterator["_RankOne"]:
        """The theorem for weights that were trained.

        Args:
            start: The model before training.
            now: The same model after it.
        """
        yield from cls._of(Tail.of(now), Tail.of(start))

    @classmethod
    def _of(cls, tail: Tail | None, before: Tail | None) -> Iterator["_RankOne"]:
        if tail is None:
            return
        known = {} if before is None else {b.site: b.D for b in _bounds(before, cls.cost)}
        ends = len(tail.last), tail.biased
        for bound in _bounds(tail, cls.cost):
            yield cls(bound.site, bound, known.get(bound.site), *ends)
        if tail.skipped:
            yield cls(f"{tail.skipped} (an identity skip)", None, None, *ends)


def _bounds(tail: Tail, cost: int) -> tuple[RankOneBound, ...]:
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
