"""`sigmascope export`."""

from pathlib import Path
from typing import Literal

from sigmascope.cli.outputs import HEALTHY, require_targets, wrote

Format = Literal["parquet", "csv", "json"]
Table = Literal["readings", "spectra", "checks", "findings", "skipped", "layers", "environment"]


def export(run: Path, *, to: Format, out: Path | None = None, table: Table = "readings") -> int:
    """Write a table of a run file as Parquet, CSV or JSON.

    Example: sigmascope export mlp.run --to csv --table spectra

    Args:
        run: The run file.
        to: The form.
        out: Where to write; beside the run file, with the table's name, if not given.
        table: Which table.
    """
    from sigmascope import gate, sources, store

    if not run.name:
        raise sources.Refusal("`export` needs the name of a run file, got an empty one.")
    target = out or run.with_name(f"{run.stem}-{table}.{to}")
    require_targets(out=target, inputs=(run,))
    gate.require_target(target, mark=store.MARKS[to])
    try:
        store.export(run, to=to, path=target, table=table)
    except (ValueError, OSError, ImportError) as error:
        raise sources.Refusal(str(error)) from error
    wrote(target)
    return HEALTHY
