"""How much arithmetic in float64 the spectra took, for whoever wants to know."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Work:
    """What was counted so far.

    Attributes:
        operations: Additions and multiplications in float64, by the leading terms of the counts.
    """

    operations: float = 0.0


COUNTING: ContextVar[Work | None] = ContextVar("COUNTING", default=None)


@contextmanager
def counted() -> Iterator[Work]:
    """Count what the spectra that are asked for inside of the block take; blocks may nest.

    Source:
        Golub & Van Loan 2013, sections 8.3 and 8.6, for what each takes.
    """
    outer, mine = COUNTING.get(), Work()
    token = COUNTING.set(mine)
    try:
        yield mine
    finally:
        COUNTING.reset(token)
        if outer is not None:
            outer.operations += mine.operations


def spent(shape: tuple[int, int], *, exact: bool, count: int = 1) -> None:
    """Count the spectra of matrices of one shape.

    Args:
        shape: Of each.
        exact: By bidiagonalisation, and not by the eigenvalues of the smaller Gram matrix.
        count: How many.

    Source:
        Golub & Van Loan 2013, sections 8.3 and 8.6.
    """
    work = COUNTING.get()
    if work is not None:
        long, short = max(shape), min(shape)
        gram = long * short**2 + 4 / 3 * short**3
        each = 4 * long * short**2 - 4 / 3 * short**3 if exact else gram
        work.operations += count * each
