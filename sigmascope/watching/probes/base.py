"""What every probe does, in the order in which it is asked to."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from sigmascope.records import Reading, SiteSpectrum
from sigmascope.watching.columns import Column

Found = Column | SiteSpectrum | Reading


class Probe(ABC):
    """Something that is read at one step now and then.

    A probe is opened before a step, told when gradients are there and when the optimiser has
    stepped, asked for its part of what is summed over processes, and read from the sum. Only the
    first process reads.

    Attributes:
        name: What it reads, in words.
        share: Of the time that watching may take.
        first: The first step at which it may be read.
        every: It is not read more often than at each so many steps.
        seconds: That this turn has taken so far.
        idle: Whether there is nothing for it in this model.
    """

    name: ClassVar[str]
    share: ClassVar[float]
    first: ClassVar[int] = 1
    every: ClassVar[int] = 1
    seconds: float = 0.0
    idle: bool = False

    def expected(self) -> float:
        """Seconds that a turn takes, before one was measured."""
        return 1e-3

    def spent(self, seconds: float) -> None:
        """Some time was spent on this turn."""
        self.seconds += seconds

    def open(self) -> None:  # noqa: B027 (most need not)
        """The step that follows is read."""

    def before(self, optimizer: Optimizer) -> None:  # noqa: B027 (most need not)
        """Gradients are there, and this optimiser has not stepped."""

    def stepped(self, optimizer: Optimizer) -> None:  # noqa: B027 (most need not)
        """This optimiser has stepped."""

    @abstractmethod
    def local(self) -> Tensor:
        """This process' part of the sums, as long as in all others; then it is closed."""

    @abstractmethod
    def read(self, total: Tensor) -> Iterator[Found]:
        """What the sum says."""

    def close(self) -> None:  # noqa: B027 (most need not)
        """Take away what was attached for a step that is read no more."""


def nothing() -> Tensor:
    """No part of any sum."""
    return torch.zeros(0, dtype=torch.float64)
