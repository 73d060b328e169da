"""Every theorem, listed by hand."""

from collections.abc import Collection, Iterator

from sigmascope.probes import Subject
from sigmascope.theory.bounds import Bound, Check
from sigmascope.theory.daneshmand2020 import (
    GradientCollinearity,
    RankParticipation,
    SoftRank,
    SoftRankAnyScale,
)

THEOREMS: tuple[type[Bound], ...] = (
    RankParticipation,
    SoftRank,
    SoftRankAnyScale,
    GradientCollinearity,
)


def check(subject: Subject, *, only: Collection[str] | None = None) -> Iterator[Check]:
    """Check every theorem that has something to say about the subject.

    Args:
        subject: What the facts are measured on.
        only: Names of the theorems wanted; all when None.

    Raises:
        ValueError: If a name is not in the catalogue.
    """
    names = [theorem.name for theorem in THEOREMS]
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        raise ValueError(
            f"`only` must name theorems of the catalogue, got {unknown}. "
            f"There are: {', '.join(names)}."
        )
    return (
        bound.check()
        for theorem in THEOREMS
        if only is None or theorem.name in only
        for bound in theorem.facts(subject)
    )
