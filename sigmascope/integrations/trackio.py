"""Looks in Trackio."""

from typing import Any, final

try:
    import trackio
except ImportError as error:
    raise ImportError(
        "Looks in Trackio need trackio. `pip install 'sigmascope[trackio]'`, or take "
        "`sigmascope.integrations.tables.CSV`, which needs nothing."
    ) from error

from sigmascope.integrations.names import everything
from sigmascope.watching import Look


@final
class Trackio:
    """A sink that logs to a run of Trackio: numbers, histograms, alarms as text.

    Steps are those of the optimizer; what else is logged to the run should name its step, too, as
    Trackio counts on from the largest.

    Args:
        run: What `trackio.init` returned. It is not finished here.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    def write(self, look: Look) -> None:
        """Log one look; Trackio sends it when it gets to it."""
        values = everything(look, trackio.Histogram)
        self._run.log(values, step=look.step)

    def close(self) -> None:
        """Nothing is held: the run is its maker's to finish."""
