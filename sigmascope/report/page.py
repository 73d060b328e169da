"""One self-contained interactive page."""

import base64
import hashlib
import html
import json
import os
import tempfile
from importlib import resources
from pathlib import Path
from string import Template

from plotly.offline import get_plotlyjs

from sigmascope.diagnosis import Finding
from sigmascope.report.names import printable
from sigmascope.report.payloads import payload
from sigmascope.survey import Profile

# In the order in which they build on one another; joined into one script.
_SCRIPTS = ("words.js", "facts.js", "plots.js", "curves.js", "layers.js", "tables.js", "main.js")


def page(profile: Profile, findings: tuple[Finding, ...], path: str | os.PathLike[str]) -> Path:
    """Write the report as one HTML file that opens anywhere, without a network.

    Findings come first and lead to the place in the curves; the curves have the theorems' bounds
    drawn in; a layer shows its singular values; every reading is in a table. Whatever the names of
    layers hold is shown and never acts: they reach the page as data, and the page's own policy
    lets nothing run but the two scripts written here, and nothing be fetched.

    Args:
        profile: What was measured.
        findings: What was found in it.
        path: The file to write; it appears complete or not at all.

    Returns:
        `path`.

    Raises:
        FileNotFoundError: If the folder does not exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {target.parent} to write {target.name} to; "
            f"make it with `mkdir -p {target.parent}`."
        )
    text = _written(profile, findings)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder:
        fresh = Path(folder) / target.name
        fresh.write_text(text, encoding="utf-8", newline="\n")
        fresh.replace(target)
    return target


def _written(profile: Profile, findings: tuple[Finding, ...]) -> str:
    plotly = get_plotlyjs().replace("\r\n", "\n")  # as a browser reads it, or the hash is wrong
    script = "\n".join(map(_asset, _SCRIPTS))
    about = profile.about
    model = printable(about.get("name", about.get("model", "profile")))
    return Template(_asset("page.html")).substitute(
        title=html.escape(model),
        policy=_policy(plotly, script),
        style=_asset("page.css"),
        data=_harmless(payload(profile, findings)),
        plotly=plotly,
        script=script,
    )


def _asset(name: str) -> str:
    return resources.files("sigmascope.report").joinpath("assets", name).read_text("utf-8")


def _harmless(data: dict) -> str:
    """JSON that cannot end the element it stands in, nor open another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # ASCII: U+2028 is escaped
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(*scripts: str) -> str:
    """A Content-Security-Policy under which only these scripts run and nothing is fetched."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
