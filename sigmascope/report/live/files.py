"""The page of run files as one file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sigmascope.report.live.histories import History
from sigmascope.report.pages.run import run_page
from sigmascope.store import since


def history(path: str | os.PathLike[str]) -> History:
    """All of a run file.

    Args:
        path: The run file.

    Raises:
        Damaged: If it is; nothing of it is given.
        FileNotFoundError: If it is not there.
        ValueError: If it is no run file of a version known here.
    """
    found, mark, more = History(Path(path).name), None, True
    while more:
        fresh = since(path, mark)
        found.take(fresh)
        mark, more = fresh.mark, fresh.more
    return found


def written(html: str | os.PathLike[str], runs: Sequence[str | os.PathLike[str]]) -> Path:
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
    return run_page(html, [_form(history(run)) for run in runs])


def _form(run: History) -> dict[str, Any]:
    panels, spectra = range(len(run.panels)), range(len(run.spectra))
    return {
        **run.state(),
        "columns": [run.numbers(place) for place in panels],
        "scrubbed": [run.scrubbed(place) for place in spectra],
    }
