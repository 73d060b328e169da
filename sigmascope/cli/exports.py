"""`sigmascope export`."""

from pathlib import Path
from typing import Any, Literal

from sigmascope.cli.outputs import FOUND, HEALTHY, note, refusing, wrote

Format = Literal["parquet", "csv", "json"]
Table = Literal[
    "readings", "spectra", "checks", "findings", "skipped", "layers", "environment", "views"
]


def export(run: Path, /, *, to: Format, out: Path | None = None, table: Table = "readings") -> int:
    """Write a table of a run file as Parquet, CSV or JSON.

    Of a damaged run file it writes the steps that are whole, says which are not, and ends with
    exit code 1; with 2 if no step is whole. The run file is only read.

    Examples:
        # the spectra of a run as a table
        sigmascope export first.run --to csv --table spectra

        # its readings, for a program of your own
        sigmascope export first.run --to json --out readings.json

    Args:
        run: The run file.
        to: The form.
        out: Where to write; beside the run file, with the table's name, if not given.
        table: Which table.
    """
    from sigmascope.core import guard, store

    if not run.name:
        raise guard.Refusal("`export` needs the name of a run file, got an empty one.")
    target = out or run.with_name(f"{run.stem}-{table}.{to}")
    asked: dict[str, Any] = {"to": to, "path": target, "table": table}
    try:
        with refusing(ImportError):
            store.export(run, **asked)
    except store.Damaged as damage:
        said = store.salvage(run, **asked)
        note(f"{run} is damaged: {damage.what}. It was left as it is.")
        note(f"Wrote {target}: {said}")
        return FOUND
    wrote(target)
    return HEALTHY
