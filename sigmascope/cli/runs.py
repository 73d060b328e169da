"""`sigmascope view` and `sigmascope export`: run files."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from sigmascope.cli.outputs import FOUND, HEALTHY, note, refusing, require_targets, wrote

# ------------------------------------------------------------------------------
# As a page that follows.


Port = Annotated[int, Parameter(validator=Number(gte=0, lt=2**16))]


def view(
    run: Path, other: Path | None = None, /, *, port: Port = 0, html: Path | None = None
) -> int:
    """Watch a run file grow, on a page of this machine, or write the page as one file.

    The page has the alarms over steps and what to do about them, curves of every quantity at every
    layer, a map of layers and steps, spectra moved through time, and a second run laid over the
    first. It is served to this machine alone, and follows until Ctrl-C ends it. A run file that
    does not exist yet is waited for.

    Examples:
        # follow a run while it is written
        sigmascope view first.run

        # two runs as one file
        sigmascope view first.run second.run --html runs.html

    Args:
        run: A run file, as `ss.watch` and `profile --run` write it.
        other: Another, to be laid over it.
        port: Where to serve the page; a free port if not given.
        html: Write the page of what there is now as one file, and end.
    """
    from sigmascope.core import guard, store
    from sigmascope.watching import live

    files = [file for file in (run, other) if file is not None]
    if len({os.path.realpath(file) for file in files}) < len(files):
        raise guard.Refusal(f"`view` lays two runs over each other, got {run} twice: name another.")
    require_targets(html=html, inputs=tuple(files))
    if html is not None:
        wrote(live.written(html, files))
        return HEALTHY
    for file in files:
        if os.path.lexists(file):
            store.since(file, most=1)  # refuses what will never be a run file
        elif file.name and file.parent.is_dir():
            note(f"There is no {file} yet; it is waited for.")
        else:
            raise guard.Refusal(
                f"`view` needs a run file, or a place where one will be; {file} cannot be one, for "
                "there is no such folder. Name the file that training writes."
            )
    with live.Server(files, port=port) as server:
        note(f"{server.url} shows {' and '.join(map(str, files))}; Ctrl-C ends it.")
        server.serve()
    return HEALTHY


# ------------------------------------------------------------------------------
# As files for other tools.


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
