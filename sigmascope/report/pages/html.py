"""Self-contained interactive pages."""

import base64
import gzip
import hashlib
import html
import json
import os
from importlib import resources
from pathlib import Path
from string import Template

from sigmascope.gate import Mark, write_text

MARK = Mark(b"<!doctype html>\n<!-- a page of sigmascope -->\n")


def write_page(
    path: str | os.PathLike[str],
    *,
    title: str,
    data: dict,
    template: str,
    scripts: tuple[str, ...],
    styles: tuple[str, ...] = ("page.css",),
    plots: bool = False,
) -> Path:
    """Write one HTML file that opens anywhere, without a network.

    Args:
        path: The file; it appears complete or not at all.
        title: Of the window; printable.
        data: What the scripts draw, as strict JSON.
        template: An asset with places for all of these.
        scripts: Assets that are joined into one script, in this order.
        styles: Assets that say what it looks like, in this order.
        plots: Whether plotly is there, packed to 2 MB; the template has a place for it then, and
            `plots.js` unpacks it.

    Raises:
        Refusal: If there is no folder for it, something that is not such a page is there, or the
            disk is full; what was there is then as it was.
    """
    text = page_text(
        title=title, data=data, template=template, scripts=scripts, styles=styles, plots=plots
    )
    return write_text(path, text, mark=MARK)


def page_text(
    *,
    title: str,
    data: dict,
    template: str,
    scripts: tuple[str, ...],
    styles: tuple[str, ...] = ("page.css",),
    plots: bool = False,
    live: bool = False,
) -> str:
    """The text of a page; one that is `live` may ask the server it came from, and nobody else."""
    script = "\n".join(map(_asset, scripts))
    places = {"title": html.escape(title), "data": _harmless(data), "script": script}
    places["style"] = "\n".join(map(_asset, styles))
    allowed = [script]
    if plots:
        from plotly.offline import get_plotlyjs  # which other pages do without

        allowed.insert(0, get_plotlyjs())
        packed = gzip.compress(allowed[0].encode(), mtime=0)
        places["plotly"] = base64.b64encode(packed).decode()
    policy = _policy(*allowed) + ("; connect-src 'self'" if live else "")
    return Template(_asset(template)).substitute(places, policy=policy)


def _asset(name: str) -> str:
    return resources.files("sigmascope.report.pages").joinpath("assets", name).read_text("utf-8")


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
