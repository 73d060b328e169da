"""The page of a run of training, over steps: one that follows it, and one that is a file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sigmascope.gate import printable
from sigmascope.report.pages.html import page_text, write_page

# In the order in which they build on one another; joined into one script.
_SCRIPTS = (
    "words.js",
    "theme.js",
    "parts.js",
    "packed.js",
    "drawing.js",
    "lines.js",
    "run_data.js",
    "run_curves.js",
    "run_map.js",
    "run_alarms.js",
    "run_spectra.js",
    "run.js",
)
_LOOK: dict[str, Any] = {
    "template": "run.html",
    "scripts": _SCRIPTS,
    "styles": ("page.css", "grid.css", "run.css"),
}


def live_text(names: Sequence[str]) -> str:
    """The page that asks its server for one run or two, and for what is new in them.

    Args:
        names: Of their files.
    """
    data = {"live": True, "runs": [{"name": name} for name in names]}
    return page_text(title=_title(names), data=data, live=True, **_LOOK)


def run_page(path: str | os.PathLike[str], runs: Sequence[dict[str, Any]]) -> Path:
    """Write the page of one run or two as one HTML file.

    Args:
        path: The file to write; it appears complete or not at all.
        runs: What is in each: its state, the columns of its panels and its spectra.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    title = _title([run["name"] for run in runs])
    return write_page(path, title=title, data={"live": False, "runs": list(runs)}, **_LOOK)


def _title(names: Sequence[str]) -> str:
    return printable(" and ".join(names))
