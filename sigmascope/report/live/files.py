"""The page of run files as one file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sigmascope.report.live.histories import History, names
from sigmascope.report.pages.run import run_page
from sigmascope.store import since


def history(path: Path, name: str) -> History:
    """All of a run file.

    Args:
        path: The run file.
        name: What the page calls it.

    Raises:
        Damaged: If it is; nothing of it is given.
        FileNotFoundError: If it is not there.
        ValueError: If it is no run file of a version known here.
    """
    found, mark, more = History(name), None, True
    while more:
        fresh = since(path, mark)
        found.take(fresh)
        mark, more = fresh.mark, fresh.more
    return found


def written(html: str | os.PathLike[str], runs: Sequence[Path]) -> Path:
    """Write the page of one run file or two as one HTML file that opens anywhere.

    Curves are thinned to what a screen shows, and keep their extremes; numbers have seven digits,
    with intervals that are never narrower than those measured.

    Args:
        html: The file to write; it appears complete or not at all.
        runs: The run files.

    Returns:
        `html`.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    named = zip(runs, names(runs), strict=True)
    return run_page(html, [_form(history(path, name)) for path, name in named])


def _form(run: History) -> dict[str, Any]:
    panels, spectra = range(len(run.panels)), range(len(run.spectra))
    return {
        **run.state(),
        "columns": [run.numbers(place) for place in panels],
        "scrubbed": [run.scrubbed(place) for place in spectra],
    }
