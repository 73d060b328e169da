"""Profiles of the model on a batch that stays the same, as it trains."""

from collections.abc import Collection, Iterator

from torch import Tensor, nn

from sigmascope.quantities import View
from sigmascope.records import Reading
from sigmascope.survey import profile
from sigmascope.watching.probes.base import Found, Probe, nothing
from sigmascope.watching.probes.sharpness import ProbeBatch


class Profiles(Probe):
    """What `profile` reads of the model, in some of its views.

    The dearest of all: its turns come as far apart as the budget asks for.

    Args:
        model: The user's own module.
        probe: What it is measured on.
        views: Of `profile`.
    """

    name = "profile"
    share = 0.25
    first = 2

    def __init__(self, model: nn.Module, probe: ProbeBatch, views: Collection[View]) -> None:
        self._model, self._probe, self._views = model, probe, tuple(views)
        self._found: tuple[Reading, ...] = ()

    def expected(self) -> float:
        return 0.3

    def local(self) -> Tensor:
        """Measured here: every process has the same weights and the same probe batch."""
        of = {"targets": self._probe.targets, "loss": self._probe.loss}
        self._found = profile(self._model, self._probe.batch, views=self._views, **of).readings
        return nothing()

    def read(self, total: Tensor) -> Iterator[Found]:
        found, self._found = self._found, ()
        yield from found
