"""The interactive page of a scan."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sigmascope.gate import printable
from sigmascope.quantities import quantities
from sigmascope.records import Finding, Reading
from sigmascope.records.encoding import encoded
from sigmascope.records.scans import Matrix, Scan
from sigmascope.report.findings import folded, headline, reasons
from sigmascope.report.pages.html import Places, packed, packed_places, packed_spectrum, write_page
from sigmascope.scanning.rows import Columns, ends, outliers, pairs, seen

# In the order in which they build on one another; joined into one script.
_SCRIPTS = (
    "words.js",
    "theme.js",
    "parts.js",
    "packed.js",
    "columns.js",
    "drawing.js",
    "grid.js",
    "matrices.js",
    "multiples.js",
    "spectra.js",
    "scan.js",
)
_ABOUT = ("kind", "dtype", "effort", "form")  # words that many matrices share
_OUTLIERS = 24

Routes = Places[tuple[str, float, str]]  # how numbers were found, their risk, their form


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
        template="scan.html",
        scripts=_SCRIPTS,
        styles=("page.css", "grid.css", "scan.css"),
    )


def payload(scan: Scan, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Columns of what was read, what they mean, thinned spectra, and what is missing."""
    met, plan, routes = pairs(scan), scan.plan, Routes()
    at = {m.site: i for i, m in enumerate(scan.matrices)}
    between = [*dict.fromkeys(site for sites in met.values() for site in sites)]
    return {
        "source": plan.source,
        "about": {**plan.about, **scan.about},
        "tensors": plan.tensors,
        "bytes": plan.bytes,
        "matrices": _matrices(scan.matrices),
        "columns": _columns(seen(scan), [m.site for m in scan.matrices], routes),
        "pairs": {
            "site": [ends(site, at) or site for site in between],
            "columns": _columns(met, between, routes),
        },
        "spectra": _spectra(scan, at, routes),
        **_found(scan, findings, at),
        "skipped": _skipped(scan, at),
        "left": [[what, why, sites] for (what, why), sites in reasons(plan.skipped).items()],
        "routes": [*routes],  # last, when all are known
    }


def _found(scan: Scan, findings: tuple[Finding, ...], at: Mapping[str, int]) -> dict[str, Any]:
    """Findings, which of them follow from others, and matrices that stick out."""
    forms = zip(encoded(findings), findings, strict=True)
    return {
        "findings": [_placed(form, finding, at) for form, finding in forms],
        "cards": [{"cause": cause, "follow": rest} for cause, rest in folded(findings).items()],
        "headline": headline(findings) if findings else "",
        "outliers": [
            [at[o.matrix.site], o.reading.quantity, o.reading.estimate.value, o.usual, o.far]
            for o in outliers(scan)[:_OUTLIERS]
        ],
    }


def _matrices(matrices: Sequence[Matrix]) -> dict[str, Any]:
    """A column for each field; words that are shared stand once, with their places."""
    found: dict[str, Any] = {
        name: [getattr(m, name) for m in matrices]
        for name in ("site", "depth", "rows", "cols", "bytes")
    }
    for name in _ABOUT:
        words = list(dict.fromkeys(getattr(m, name) for m in matrices))
        place = {word: i for i, word in enumerate(words)}
        found[name] = {"words": words, "at": [place[getattr(m, name)] for m in matrices]}
    several = {i: list(m.tensors) for i, m in enumerate(matrices) if m.tensors != (m.site,)}
    return {**found, "tensors": several}


def _columns(read: Columns, sites: Sequence[str], routes: Routes) -> list[dict[str, Any]]:
    return [_column(name, found, sites, routes) for name, found in read.items()]


def _column(
    name: str, read: Mapping[str, Reading], sites: Sequence[str], routes: Routes
) -> dict[str, Any]:
    """One quantity: what it means, its numbers, and by which route each was found."""
    q = quantities()[next(iter(read.values())).quantity]
    place = {r.site: routes[r.estimate.how, r.estimate.risk, r.form] for r in read.values()}
    only, *others = dict.fromkeys(place.values())
    here = [read.get(site) for site in sites]
    words = ("says", "unit", "scale", "range", "source")
    return {
        "name": name,
        **{word: getattr(q, word) for word in words},
        "healthy": "" if "representations" in q.views else q.healthy,  # that is said of layers
        "route": packed_places([place.get(s, 0) for s in sites]) if others else only,
        **packed([None if r is None else r.estimate for r in here]),
    }


def _spectra(scan: Scan, at: Mapping[str, int], routes: Routes) -> dict[int, list[Any]]:
    """Thinned, by the place of their matrix; the first where there are several of one."""
    found: dict[int, list[Any]] = {}
    for s in scan.spectra:
        place = at.get(s.site)
        text = None if place is None or place in found else packed_spectrum(s.spectrum.sigma)
        if place is not None and text is not None:
            route = routes[s.spectrum.how, s.spectrum.risk, s.form]
            own = s.spectrum.shape == scan.matrices[place].shape
            shape = () if own else s.spectrum.shape
            found[place] = [len(s.spectrum.sigma), text, route, *shape]
    return found


def _placed(form: dict[str, Any], finding: Finding, at: Mapping[str, int]) -> dict[str, Any]:
    """A finding with the places of the matrices that it is of, or whose readings show it."""
    sites = dict.fromkeys((finding.site, *(r.site for r in finding.evidence)))
    both = (ends(site, at) for site in sites if site not in at)
    places = [at[site] for site in sites if site in at]
    places += [place for each in both if each for place in (each[0], each[2])]
    return {**form, "matrices": list(dict.fromkeys(places))}


def _skipped(scan: Scan, at: Mapping[str, int]) -> list[list[Any]]:
    """Each reason once, with the matrices it is of by place, and other sites by name."""
    return [
        [what, why, [at.get(site, site) for site in sites]]
        for (what, why), sites in reasons(scan.skipped).items()
    ]
