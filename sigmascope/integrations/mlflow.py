"""Looks in MLflow."""

import re
import time
from typing import Any, final

try:
    import mlflow
    from mlflow.entities import Metric, RunTag
except ImportError as error:
    raise ImportError(
        "Looks in MLflow need mlflow. `pip install 'sigmascope[mlflow]'`, or take "
        "`sigmascope.integrations.tables.CSV`, which needs nothing."
    ) from error

from sigmascope.core.guard import Refusal
from sigmascope.integrations.names import alarm_name, numbers
from sigmascope.watching import Look

MOST = 1000  # metrics that MLflow takes in one call
LONGEST = 5000  # characters of a tag


@final
class MLflow:
    """A sink that logs the numbers of every look to a run of MLflow, and alarms as tags, too.

    MLflow takes letters, digits and ` _-./` in names: sites in parentheses begin with a dot
    (`loss/.loss`), any other character is `..` with its code and a dot (`#` is `..23.`), which no
    name of a layer holds. It has no histograms; singular values are left out.

    Args:
        run_id: Of the run; of the active one if it is None. It is not ended here.

    Raises:
        Refusal: If no run is named and none is active.
    """

    def __init__(self, run_id: str | None = None) -> None:
        active = mlflow.active_run()
        if run_id is None and active is None:
            raise Refusal(
                "`MLflow` needs a run, got none. Make it inside of `with mlflow.start_run():`, or "
                "give `run_id`."
            )
        self._run_id = run_id if active is None or run_id is not None else active.info.run_id
        self._client: Any = mlflow.MlflowClient()

    def write(self, look: Look) -> None:
        """Log one look; it is at the server when this returns."""
        now = int(time.time() * 1000)
        metrics = [Metric(_allowed(n), v, now, look.step) for n, v in numbers(look).items()]
        tags = [
            RunTag(_allowed(alarm_name(f)), f"step {look.step}: {f.says}"[:LONGEST])
            for f in look.findings
        ]
        for start in range(0, max(len(metrics), 1), MOST):
            self._client.log_batch(self._run_id, metrics=metrics[start : start + MOST])
        for tag in tags:
            self._client.set_tag(self._run_id, tag.key, tag.value)

    def close(self) -> None:
        """Nothing is held: the run is its maker's to end."""


def _allowed(name: str) -> str:
    *groups, site = name.split("/", 2 if name.startswith("alarm/") else 1)
    if site.startswith("(") and site.endswith(")"):
        site = f".{site[1:-1]}"
    return "/".join((*groups, re.sub(r"[^\w.\- ]", lambda c: f"..{ord(c[0]):x}.", site)))
