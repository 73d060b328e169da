"""The interactive page of a profile."""

import os
from pathlib import Path

from sigmascope.gate import printable
from sigmascope.records import Finding, Profile
from sigmascope.report.pages.html import write_page
from sigmascope.report.pages.payload import payload

# In the order in which they build on one another; joined into one script.
_SCRIPTS = (
    "words.js",
    "theme.js",
    "parts.js",
    "packed.js",
    "facts.js",
    "drawing.js",
    "lines.js",
    "curves.js",
    "layers.js",
    "grid.js",
    "tables.js",
    "training.js",
    "main.js",
)


def page(profile: Profile, findings: tuple[Finding, ...], path: str | os.PathLike[str]) -> Path:
    """Write the report as one HTML file that opens anywhere, without a network.

    Findings come first and lead to the place in the curves; the curves have the theorems' bounds
    drawn in; a layer shows its singular values; every reading is in a table, to seven digits, with
    an interval that is never narrower than the one measured. Whatever the names of layers hold is
    shown and never acts: they reach the page as data, and the page's own policy lets nothing run
    but the one script written here, and nothing be fetched.

    Args:
        profile: What was measured.
        findings: What was found in it.
        path: The file to write; it appears complete or not at all.

    Returns:
        `path`.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    about = profile.about
    title = printable(about.get("name", about.get("model", "profile")))
    return write_page(
        path,
        title=title,
        data=payload(profile, findings),
        template="page.html",
        scripts=_SCRIPTS,
        styles=("page.css", "grid.css"),
    )
