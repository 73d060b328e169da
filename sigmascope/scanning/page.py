"""The interactive page of a scan."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sigmascope.core import quantities as q
from sigmascope.core.guard import printable
from sigmascope.core.records import Finding, Reading, Scan
from sigmascope.report import console
from sigmascope.report.findings import headline, reasons
from sigmascope.report.pages import (
    Html,
    Piece,
    cards,
    compact,
    element,
    facts,
    joined,
    named,
    options,
    packed,
    packed_spectrum,
    plural,
    reasons as missing,
    severities,
    shared,
    table,
    tile,
    write_page,
)
from sigmascope.scanning.rows import Columns, ends, no_findings, outliers, pairs, seen

# In the order in which they build on one another; joined into one script.
_SCRIPTS = (
    "words.js",
    "packed.js",
    "page.js",
    "scales.js",
    "marks.js",
    "chart.js",
    "grid.js",
    "matrices.js",
    "spectra.js",
    "scan.js",
)
_ABOUT = ("kind", "dtype", "effort")  # words that many matrices share
_OUTLIERS = 24
_MOST = 4  # matrices that are compared, as in `matrices.js`
_SHOWN = (  # columns of the table at first
    q.SPECTRAL_NORM,
    q.STABLE_RANK,
    q.EFFECTIVE_RANK,
    q.SPIKES,
    q.NOISE_DISTANCE,
    q.POWER_LAW_EXPONENT,
    q.RELATIVE_CHANGE,
)


def scan_page(path: str | os.PathLike[str], scan: Scan, findings: Sequence[Finding] = ()) -> Path:
    """Write a scan as one HTML file that opens anywhere, without a network.

    Findings lead to their matrix; a table has every matrix and quantity, charts have each kind
    over depth, and the spectra of matrices are drawn beside the law of Marchenko and Pastur.
    Numbers are kept to seven digits with intervals that are never narrower than those measured,
    spectra thinned; all of both are in the JSON form.

    Args:
        path: The file to write; it appears complete or not at all.
        scan: What was measured.
        findings: What was found in it.

    Returns:
        `path`.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    return write_page(
        path,
        title=printable(scan.plan.source),
        data=payload(scan, tuple(findings)),
        pieces=pieces(scan, tuple(findings)),
        template="scan.html",
        scripts=_SCRIPTS,
        styles=("page.css", "grid.css", "scan.css"),
    )


def payload(scan: Scan, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Columns of what was read, what they mean, thinned spectra, and what is missing."""
    met = pairs(scan)
    at = {m.site: i for i, m in enumerate(scan.matrices)}
    between = [*dict.fromkeys(site for sites in met.values() for site in sites)]
    odd = outliers(scan)
    leads = [_lead(finding, at) for finding in findings]
    starts = [place for lead in leads for place in lead["matrices"]]
    starts += [at[o.matrix.site] for o in odd[:1]]
    # thinned, by the place of their matrix; the first where there are several of one
    spectra: dict[int, list[Any]] = {}
    for s in scan.spectra:
        place = at.get(s.site)
        text = None if place is None or place in spectra else packed_spectrum(s.spectrum.sigma)
        if place is not None and text is not None:
            own = s.spectrum.shape == scan.matrices[place].shape
            shape = () if own else s.spectrum.shape
            spectra[place] = [len(s.spectrum.sigma), text, *shape]
    # a column for each field; words that are shared stand once, with their places
    matrices: dict[str, Any] = {
        name: [getattr(m, name) for m in scan.matrices]
        for name in ("site", "depth", "rows", "cols")
    }
    how = {s.site: s.spectrum.how for s in reversed(scan.spectra)}
    says = []
    for m in scan.matrices:
        # a matrix in one line, but for its depth: so that many are told by the same words
        route = how.get(m.site, "")
        form = "" if m.form == "matrix" else f", as {m.form}"
        spectrum = f"{m.effort} spectrum{f' ({route})' if route else ''}"
        parts = "" if m.tensors == (m.site,) else f"; read from {', '.join(m.tensors)}"
        words = f"{m.kind}, {m.rows} × {m.cols}{form}, {m.dtype}, {console.sized(m.bytes)}"
        says.append(f"{words}, {spectrum}{parts}")
    matrices |= {name: shared(getattr(m, name) for m in scan.matrices) for name in _ABOUT}
    matrices["says"] = shared(says)
    return {
        "matrices": matrices,
        "columns": _columns(_ordered(seen(scan)), [m.site for m in scan.matrices]),
        "pairs": {
            "site": [ends(site, at) or site for site in between],
            "columns": _columns(met, between),
        },
        "spectra": spectra,
        "findings": leads,
        "start": (*starts, 0)[0],
        "skipped": [
            [what, why, [at.get(site, site) for site in sites]]
            for (what, why), sites in reasons(scan.skipped).items()
        ],
    }


def pieces(scan: Scan, findings: tuple[Finding, ...]) -> dict[str, Html]:
    """HTML of the head, findings, outliers, what is missing, and the words."""
    at = {m.site: i for i, m in enumerate(scan.matrices)}
    plan, between = scan.plan, pairs(scan)
    columns = {**seen(scan), **between}
    means = {name: _means(_quantity(read)) for name, read in columns.items()}
    gone = reasons(plan.skipped)
    left = sum(map(len, gone.values()))
    words = f"{plan.tensors} {plural(plan.tensors, 'tensor')}{f'; {left} left out' if left else ''}"
    # counts of findings and of what was read, and how long it took
    tiles = [
        *severities(findings),
        tile(plural(len(scan.matrices), "matrix", "matrices"), f"{len(scan.matrices):,}"),
        tile("parameters", compact(sum(m.rows * m.cols for m in scan.matrices))),
        tile("read", console.sized(plan.bytes)),
    ]
    try:
        seconds = float({**plan.about, **scan.about}.get("seconds", "nan"))
    except ValueError:
        seconds = math.nan
    if math.isfinite(seconds):
        short = seconds < 90
        spent = compact(seconds if short else seconds / 60, digits=3)
        tiles.append(tile("seconds" if short else "minutes", spent))
    odd, rows = outliers(scan)[:_OUTLIERS], []
    for o in odd:  # each can be opened
        opens = {"type": "button", "class_": "link", "data_open": str(at[o.matrix.site])}
        sizes = (compact(x, digits=3) for x in (o.reading.estimate.value, o.usual))
        far = f"{'+' if o.far > 0 else '−'}{compact(abs(o.far), digits=3)}"
        site = element("button", named(o.matrix.site), **opens)
        rows.append([site, element("td", o.reading.quantity), *sizes, far])
    kinds = dict.fromkeys(m.kind for m in scan.matrices)
    boxes: list[Html] = []
    for name in ("dtype", "effort", *_ordered(seen(scan))):
        checked = {"checked": ""} if name in _SHOWN else {}
        box = element("input", type="checkbox", data_column=name, **checked)
        boxes.append(element("label", box, name))
    return {
        "source": joined([plan.source]),
        "coverage": joined([f"{words}. {headline(findings) if findings else no_findings(scan)}"]),
        "tiles": joined(tiles),
        "cards": joined(
            cards(
                findings,
                no_findings(scan),
                meant=lambda quantity: means.get(quantity, ""),
                way=lambda place: _way(_lead(findings[place], at)["matrices"], place),
            )
        ),
        "unusual": Html("" if odd else "hidden"),
        "outliers": table(("matrix", "quantity", "value", "usual", "deviations"), rows, words=2),
        "quantities": options((name, name) for name in _ordered(seen(scan))),
        "all": joined([f"Show all {len(kinds)} kinds"]),
        "kinds": options((str(i), kind) for i, kind in enumerate(kinds)),
        "columns": joined(boxes),
        "between": Html("" if between else "hidden"),
        "left": missing(gone, "No tensor was left out."),
        "skipped": missing(reasons(scan.skipped), "Everything that was to be measured was."),
        "about": facts(
            (f"{key[:1].upper()}{key[1:]}", value)
            for key, value in {**plan.about, **scan.about}.items()
        ),
    }


def _ordered(read: Columns) -> Columns:
    """Columns, those that are shown at first before all others."""
    return {name: read[name] for name in dict.fromkeys((*_SHOWN, *read)) if name in read}


def _quantity(read: Mapping[str, Reading]) -> q.Quantity:
    """The quantity of a column."""
    return q.quantities()[next(iter(read.values())).quantity]


def _means(of: q.Quantity) -> str:
    """What a quantity is, in one line."""
    healthy = "" if "representations" in of.views else of.healthy  # that is said of layers
    unit = of.unit and f"unit: {of.unit}"
    parts = (of.says, of.range, unit, healthy and f"healthy: {healthy}", of.source)
    return " · ".join(filter(None, parts))


def _way(matrices: Sequence[int], place: int) -> Piece:
    """To the matrices that a finding is of."""
    if not matrices:
        return None
    some = f"first {_MOST} " if len(matrices) > _MOST else ""
    words = f"Show the {some}matrices" if len(matrices) > 1 else "Show the matrix"
    return element("button", words, type="button", class_="button", data_finding=str(place))


def _columns(read: Columns, sites: Sequence[str]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for name, found in read.items():
        # one quantity: what it means, its numbers, and by which route each was found
        of, first = _quantity(found), next(iter(found.values()))
        here = [found.get(site) for site in sites]
        made.append(
            {
                **{"name": name, "unit": of.unit, "scale": of.scale, "means": _means(of)},
                "shown": name in _SHOWN,
                "route": shared(
                    (r.estimate.how, r.estimate.risk, r.form) for r in (r or first for r in here)
                ),
                **packed([None if r is None else r.estimate for r in here]),
            }
        )
    return made


def _lead(finding: Finding, at: Mapping[str, int]) -> dict[str, Any]:
    """The places of the matrices that a finding is of, or whose readings show it."""
    sites = dict.fromkeys((finding.site, *(r.site for r in finding.evidence)))
    both = (ends(site, at) for site in sites if site not in at)
    places = [at[site] for site in sites if site in at]
    places += [place for each in both if each for place in (each[0], each[2])]
    read = [r.quantity for r in finding.evidence]
    return {"matrices": list(dict.fromkeys(places)), "quantities": read}
