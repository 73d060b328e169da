"""The interactive page of a profile."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sigmascope.core import quantities as q
from sigmascope.core.guard import door, printable
from sigmascope.core.records import Check, Finding, Profile, Reading, Spectrum, Verdict
from sigmascope.core.references import references
from sigmascope.diagnosis.presentation.results import (
    COLUMNS,
    LEFT,
    chances,
    coverage,
    depths,
    facts as facts_of,
    no_findings,
    runs,
)
from sigmascope.report.console import amount
from sigmascope.report.findings import folded, headline, reasons
from sigmascope.report.pages import (
    Html,
    Piece,
    Places,
    cards,
    compact,
    element,
    facts,
    joined,
    measured,
    options,
    packed,
    packed_spectrum,
    plural,
    prose,
    reasons as missing,
    severities,
    shared,
    table,
    tile,
    write_page,
)

# ------------------------------------------------------------------------------
# What the page is given to draw.


Curve = tuple[str, str, str]  # view, form, quantity

POINTS = 200  # of a spectrum: as many as a screen shows apart
_SAME = ("view", "form", "quantity")  # words that many readings share

# What the theorems bound. The reading of a rank and the rank in a check may differ, each having a
# tolerance of its own, so that equal numbers alone do not find these.
_BOUNDED: Mapping[str, Curve] = MappingProxyType(
    {
        "rank-participation": ("representations", "samples", q.MATRIX_RANK),
        "soft-rank": ("representations", "samples", q.SOFT_RANK),
        "soft-rank-any-scale": ("representations", "samples", q.SOFT_RANK),
        "gradient-collinearity": ("gradients", "", q.MINIMUM_COS),
    }
)
_SILENT = frozenset({Verdict.VACUOUS, Verdict.INAPPLICABLE})
# What has one form only goes with every form: a linear layer's matrix beside the operators of
# convolutions, and what is no matrix at all.
_COMMON = ("", "matrix")
_FIRST = ("samples", "operator")  # forms that are shown first


def payload(profile: Profile, findings: Sequence[Finding]) -> dict[str, Any]:
    """Readings and checks by column, thinned spectra, and what is drawn of them where.

    Sites are places in `sites`; numbers are packed, which rounds them to seven digits and widens
    no interval by more than a hundredth of it.
    """
    depth, sites = depths(profile), Places[str]()
    views = [*_views(profile.readings, depth)]
    drawn, leads = {view["view"] for view in views}, []
    for finding in findings:
        # where it begins, which curve shows it at which layer, and on which ones it rests
        first = finding.evidence[0] if finding.evidence else None
        own = depth.get(finding.site)
        shows = first is not None and first.view in drawn and first.site in depth
        lead = {
            **{"name": finding.name, "severity": finding.severity, "depth": own},
            "rest": [(r.view, r.quantity) for r in finding.evidence],
            "at": own if own is not None or first is None else depth.get(first.site),
            "shows": (first.view, first.form, first.quantity) if first and shows else None,
        }
        leads.append(lead)
    layers = [*_layers(profile, depth)]
    places = [layer["depth"] for layer in layers]
    starts = (lead["depth"] for lead in leads if lead["depth"] in places)
    estimates = [r.estimate for r in profile.readings]
    readings = {
        "site": [sites[r.site] for r in profile.readings],
        **{name: shared(getattr(r, name) for r in profile.readings) for name in _SAME},
        "how": shared(e.how for e in estimates),
        "risk": shared(e.risk for e in estimates),
        "estimate": packed(estimates),
    }
    # where each theorem was checked, and what came of it there
    met = {None: "cannot be told", True: "met", False: "not met"}
    theorems = []
    for name in dict.fromkeys(c.theorem for c in profile.checks):
        checks = [c for c in profile.checks if c.theorem == name]
        theorem = {
            "site": [sites[c.site] for c in checks],
            "sense": shared(c.sense for c in checks),
            "verdict": shared(str(c.verdict) for c in checks),
            "assumptions": shared(
                "; ".join(f"{a.says}: {met[a.met]}" for a in c.assumptions) for c in checks
            ),
            "measured": packed([c.measured for c in checks]),
            "limit": packed([c.limit for c in checks]),
        }
        theorems.append(theorem)
    kept = [packed_spectrum(s.spectrum.sigma, POINTS) for s in profile.spectra]
    spectra = {
        "site": [sites[s.site] for s in profile.spectra],
        "what": shared(f"{s.view} {s.form}" for s in profile.spectra),
        "size": shared(
            _size(s.spectrum, 0 if text is None else POINTS)
            for s, text in zip(profile.spectra, kept, strict=True)
        ),
        "count": [len(s.spectrum.sigma) for s in profile.spectra],
        "values": kept,
    }
    # for each curve that has one, the band of networks that train, at each stage
    curves, usual = {(r.view, r.form, r.quantity) for r in profile.readings}, []
    for r in references():
        if r.curve in curves:
            when = "at the start" if r.stage == "start" else "trained"
            says = f"{compact(r.p05)} to {compact(r.p95)} {when} ({r.networks} networks)"
            usual.append({"curve": r.curve, "low": r.p05, "high": r.p95, "says": says})
    found = {
        **{"readings": readings, "theorems": theorems, "spectra": spectra},
        **{"views": views, "layers": layers, "findings": leads},
        **{"bounds": list(_bounds(profile)), "usual": usual},
        "start": next(starts, places[0] if places else None),
    }
    return {**found, "sites": list(sites), "depths": [depth.get(site) for site in sites]}


def _size(spectrum: Spectrum, most: int) -> str:
    """How large the matrix is, how many values it has, and how many of them are drawn."""
    count, zeros = len(spectrum.sigma), int((spectrum.sigma == 0).sum())
    none = f", {zeros} of them zero" if zeros else ""
    thinned = f", {most} drawn" if most < count else ""
    return (
        f"{' × '.join(map(str, spectrum.shape))}, {count} {plural(count, 'value')}{none}{thinned}"
    )


def _layers(profile: Profile, depth: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """What has readings at a depth: a layer, or else the site of the first; with its spectra."""
    known = {layer.depth: layer for layer in profile.layers}
    at: dict[int, list[str]] = {}
    for r in profile.readings:
        if r.site in depth:
            at.setdefault(depth[r.site], []).append(r.site)
    spectra: dict[str, list[int]] = {}
    for place, s in enumerate(profile.spectra):
        spectra.setdefault(s.site, []).append(place)
    for place, sites in sorted(at.items()):
        layer = known.get(place)
        own = {layer.site, *layer.parameters} if layer else {*sites}
        yield {
            **{"depth": place, "kind": layer.kind if layer else ""},
            "size": f"{'×'.join(map(str, layer.writes))}, {amount(layer.numbers)} parameters"
            if layer and layer.writes
            else "",
            "spectra": sorted(i for site in own for i in spectra.get(site, ())),
        }


def _views(readings: Sequence[Reading], depth: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Each view that has curves, in each of its forms, by panels."""
    for view in q.EVERY:
        own = [r for r in readings if r.view == view]
        if not any(r.site in depth for r in own):
            continue
        every = [*dict.fromkeys(r.form for r in own)]
        apart = [form for form in every if form not in _COMMON]
        forms = []
        for form in sorted(apart, key=lambda form: form not in _FIRST) or every[:1]:
            placed = (r for r in own if r.site in depth and r.form in (form, *_COMMON))
            there = dict.fromkeys(r.quantity for r in placed)
            families = {  # quantities in one unit share a panel, each other has its own
                title: here
                for title, names in q.families().items()
                if len(here := [name for name in names if name in there]) > 1
            }
            joined = {name for names in families.values() for name in names}
            alone = {name[0].upper() + name[1:]: [name] for name in there if name not in joined}
            titled = [*families.items(), *alone.items()]
            panels = [{"title": title, "quantities": names} for title, names in titled]
            forms.append({"form": form, "panels": panels})
        yield {"view": view, "forms": forms}


def _bounds(profile: Profile) -> Iterator[dict[str, Any]]:
    """Each theorem that bounds a measured quantity, the curve it bounds, and its own."""
    readings: dict[str, list[Reading]] = {}
    for r in profile.readings:
        readings.setdefault(r.site, []).append(r)
    depth = depths(profile)
    every = sorted({depth[r.site] for r in profile.readings if r.site in depth})
    for place, theorem in enumerate(dict.fromkeys(c.theorem for c in profile.checks)):
        own = [c for c in profile.checks if c.theorem == theorem]
        checks = [c for c in own if c.verdict not in _SILENT]
        curve = _BOUNDED.get(theorem)
        if curve is None:
            # the curve whose readings are, at every site, the side that these checks bound. A check
            # names no quantity: where the measured side is not a reading, or is several, there is
            # no curve into which its bound could honestly be drawn
            same = [
                {
                    (r.view, r.form, r.quantity)
                    for r in readings.get(c.site, ())
                    if c.measured is not None and r.estimate.value == c.measured.value
                }
                for c in checks
            ]
            common = set.intersection(*same) if same else set[Curve]()
            curve = next(iter(common)) if len(common) == 1 else None
        if not checks or curve is None:
            continue
        points = {
            depth[c.site]: i
            for i, c in enumerate(own)
            if c.verdict not in _SILENT and c.site in depth and c.limit is not None
        }
        # in the order of depth; None, which is a gap, for layers between without one
        line = [None, *map(points.get, sorted({*every, *points}))]
        shown = [i for before, i in pairwise(line) if before is not None or i is not None]
        yield {
            **{"theorem": theorem, "curve": curve, "sense": checks[0].sense},
            **{"says": checks[0].statement, "place": place},
            "points": shown,
        }


# ------------------------------------------------------------------------------
# What stands on the page as it is.


def pieces(profile: Profile, findings: Sequence[Finding]) -> dict[str, Html]:
    """HTML of the head, the findings, training, the theorems, what is missing and the words."""
    seen, about = coverage(profile), profile.about
    told = {**about, **{f.quantity: f.word for f in reversed(profile.facts)}}
    depth, meanings = depths(profile), q.quantities()
    drawn = [view["view"] for view in _views(profile.readings, depth)]
    read = {r.view for r in profile.readings}
    ways = list[Piece]()  # to where the evidence can be seen: in the curves, or among the runs
    for place, finding in enumerate(findings):
        first = finding.evidence[0] if finding.evidence else None
        shows = first.view in drawn and first.site in depth if first else finding.site in depth
        looks = {"type": "button", "class_": "button", "data_finding": str(place)}
        if first and first.view == "training":
            ways.append(element("a", "Show the runs", class_="button", href="#training"))
        else:
            ways.append(element("button", "Show in the curves", **looks) if shows else None)
    found = cards(
        findings,
        no_findings(seen),
        meant=lambda quantity: meanings[quantity].says if quantity in meanings else "",
        way=lambda place: ways[place],
    )
    if seen.unseen:
        unseen = prose(f"Not looked at: {'; '.join(seen.unseen)}.")
        found.append(element("p", unseen, class_="empty unseen"))
    odds = []
    for chance in chances(profile):
        value, high = chance.estimate.value, chance.estimate.high
        tone = "good" if value >= 0.5 else "error" if high < 0.5 else "warning"
        odds.append(tile(chance.name, compact(value, digits=2), f"chance {tone}", chance.says))
    # counts; a theorem that holds is no praise of the network, so that none is green
    tiles = [*severities(findings)]
    causes, layers, readings = len(folded(findings)), len(profile.layers), len(profile.readings)
    if more := len(findings) - causes:
        verb = plural(more, "finding follows", "findings follow")
        tiles.append(tile(f"{verb} from {plural(causes, 'it', 'them')}", str(more)))
    tiles.append(tile(plural(layers, "layer"), str(layers)))
    tiles.append(tile(plural(readings, "reading"), str(readings)))
    spoke: dict[str, set[Verdict]] = {}
    for c in profile.checks:
        spoke.setdefault(c.theorem, set()).add(c.verdict)
    said = [some for some in spoke.values() if some - _SILENT]
    if spoke and not said:
        tiles.append(tile("theorems apply to this model", "none"))
    elif said:
        broken = sum(Verdict.VIOLATED in some for some in said)
        words = plural(len(said), "theorem that applies is", "theorems that apply are")
        held = f"{len(said) - broken} of {len(said)}"
        tiles.append(tile(f"{words} upheld", held, "error" if broken else ""))
    at = {place: site for site, place in reversed(depth.items())}
    at |= {layer.depth: layer.site for layer in profile.layers}
    return {
        "model": joined([about.get("name", about.get("model", "Profile"))]),
        "coverage": joined([seen.says]),
        "chances": joined(odds),
        "tiles": joined(tiles),
        "headline": joined([headline(findings) if findings else ""]),
        "cards": joined(found),
        **_training(profile),
        "tabs": joined(
            element("button", view.capitalize(), type="button", data_view=view) for view in drawn
        ),
        "layers": options(
            (str(d), " · ".join(filter(None, (str(d), at[d], layer["kind"], layer["size"]))))
            for layer in _layers(profile, depth)
            for d in [layer["depth"]]
        ),
        "views": options(
            (view, view or "all") for view in ("", *(v for v in q.EVERY if v in read))
        ),
        "theorems": _theorem_table(profile.checks),
        "skipped": missing(reasons(profile.skipped), "Everything that was asked for was measured."),
        "about": facts((f"{key[:1].upper()}{key[1:]}", value) for key, value in told.items()),
    }


def _training(profile: Profile) -> dict[str, Html]:
    """The runs, and what else was read of training; hidden where there is neither."""
    made, also, settings = runs(profile), facts_of(profile), profile.about.get("training")
    if not made and not also:
        return {"trained": Html("hidden")}
    says = [q.quantities()[quantity].says for quantity in COLUMNS]
    rows = (
        [form, *(measured(numbers[c]) if c in numbers else "–" for c in COLUMNS)]
        for form, numbers in made.items()
    )
    lines = table(["run", *COLUMNS.values()], rows, says=["", *says])
    scroll = {"class_": "panel scroll", "tabindex": "0", "aria_label": "Runs of training"}
    words = f"Your settings: {settings}. All runs were made on copies." if settings else ""
    told = lambda r: tile(r.quantity, measured(r.estimate), hint=q.quantities()[r.quantity].says)
    return {
        "settings": joined([words]),
        "runs": element("div", lines, **scroll) if made else Html(),
        "scale": joined([LEFT if made else ""]),
        "also": joined(map(told, also)),
    }


def _theorem_table(checks: Sequence[Check]) -> Html:
    """Each theorem, those that spoke first; its table is made by `profile.js` when it is opened."""
    names = [*dict.fromkeys(c.theorem for c in checks)]
    own = {name: [c for c in checks if c.theorem == name] for name in names}
    silent = lambda name: all(c.verdict in _SILENT for c in own[name])
    each = []
    for name in sorted(names, key=silent):
        first, place = own[name][0], names.index(name)
        found = Counter(str(c.verdict) for c in own[name])
        counts = (
            element("span", f"{verdict} at {found[verdict]}", class_=f"verdict {verdict}")
            for verdict in _VERDICTS
            if found[verdict]
        )
        title = element("strong", name)
        statement = element("span", first.statement, class_="statement")
        grid = {"role": "grid", "tabindex": "0", "data_theorem": str(place)}
        label = f"Checks of {name}"
        theorem = element(
            "details",
            element("summary", title, statement, *counts),
            element("p", first.source, class_="hint"),
            element("div", id=f"theorem-{place}", class_="table", **grid, aria_label=label),
        )
        each.append(theorem)
    return joined(each) or element("p", "No theorem was checked.", class_="empty")


_VERDICTS = ("violated", "holds", "consistent", "vacuous", "inapplicable")  # as they are counted
# In the order in which they build on one another; joined into one script.
_SCRIPTS = (
    "words.js",
    "packed.js",
    "page.js",
    "scales.js",
    "marks.js",
    "chart.js",
    "grid.js",
    "curves.js",
    "profile.js",
)


@door
def page(profile: Profile, findings: Sequence[Finding], path: str | os.PathLike[str]) -> Path:
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
        pieces=pieces(profile, findings),
        template="page.html",
        scripts=_SCRIPTS,
        styles=("page.css", "grid.css"),
    )
