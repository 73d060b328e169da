"""Looks in Weights & Biases."""

from typing import Any, final

try:
    import wandb
except ImportError as error:
    raise ImportError(
        "Looks in Weights & Biases need wandb. `pip install 'sigmascope[wandb]'`, or take "
        "`sigmascope.integrations.tables.CSV`, which needs nothing."
    ) from error

from sigmascope.core.guard import Refusal
from sigmascope.integrations.names import everything
from sigmascope.watching import Look

AXIS = "optimizer step"


@final
class WandB:
    """A sink that logs to a run, which may be offline: numbers, histograms, alarms as text.

    Every group has the axis `"optimizer step"`, whatever the run counts as its own steps, and
    nothing that the training logs itself is moved or dropped.

    Args:
        run: What `wandb.init` returned; the one in force if there is none. It is not finished here.

    Raises:
        Refusal: If there is no run.
    """

    def __init__(self, run: Any = None) -> None:
        found = wandb.run if run is None else run
        if found is None:
            raise Refusal(
                "`WandB` needs a run, got none. `run = wandb.init(project=...)` makes one, "
                "`mode='offline'` one that is kept on this machine."
            )
        self._run: Any = found
        self._groups: set[str] = set()
        self._open = False

    def write(self, look: Look) -> None:
        """Log one look."""
        values = everything(look, wandb.Histogram)
        for group in {name.partition("/")[0] for name in values} - self._groups:
            self._run.define_metric(f"{group}/*", step_metric=AXIS)
            self._groups.add(group)
        values[AXIS] = look.step
        if look.step >= self._run.step:  # joins the row of who logs at optimizer steps, too
            self._run.log(values, step=look.step)
            self._open = True
            return
        if self._open:  # a row that waits for more holds a look, which this one would replace
            self._run.log({}, commit=True)
            self._open = False
        self._run.log(values)  # the run counts something else, or goes on after a restart

    def close(self) -> None:
        """Nothing is held: the run is its maker's to finish."""
