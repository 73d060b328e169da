"""Profiles, diagnoses and trials of remedies as figures."""

import math
from collections.abc import Iterable, Mapping, Sequence

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Finding, Profile, Reading
from sigmascope.core.references import references
from sigmascope.diagnosis.compression import Compression
from sigmascope.diagnosis.cures.trials import Cures
from sigmascope.diagnosis.diagnoses import Diagnosis
from sigmascope.diagnosis.presentation.results import (
    CURVES,
    Ranking,
    depths,
    most_telling,
)
from sigmascope.diagnosis.trainability import probability
from sigmascope.diagnosis.treatments import RemedyTrials, Treatment
from sigmascope.report.figures import (
    COLOURS,
    TONES,
    Sheet,
    band,
    drawn,
    forest,
    heading,
    legend,
    line,
    places,
    require_known,
    scaled,
)
from sigmascope.report.several import Findings

SHADES = "viridis"  # of layers, from the first to the last


@drawn.register
def _profile(
    profile: Profile,
    sheet: Sheet,
    findings: Sequence[Finding] = (),
    *,
    quantities: str | Iterable[str] = (),
    spectra: str = "",
    **more: object,
) -> None:
    """Quantities over the layers, what is usual of them in grey, findings where they begin."""
    require_known(more, "quantities", "spectra")
    if spectra:
        _spectra(profile, sheet, spectra)
        return
    wanted = (quantities,) if isinstance(quantities, str) else tuple(quantities)
    known = dict.fromkeys(r.quantity for r in profile.readings)
    for name in wanted:
        if name not in known:
            q.quantity(name)  # which refuses what is none, with the one that is nearest
            raise Refusal(
                f"`{name}` was not measured here. Ask for its view when you profile, or plot one "
                f"of {', '.join(known) or 'none'}."
            )
    depth = depths(profile)
    curves = {}
    for name in wanted or [column.name for column in q.columns()]:
        first = next((r for r in profile.readings if r.quantity == name), None)
        found = {} if first is None else most_telling(profile, name, first.view)
        placed = {depth[site]: r for site, r in found.items() if site in depth}
        if len(placed) > (0 if wanted else 1):
            curves[name] = placed
    if missing := [name for name in wanted if name not in curves]:
        raise Refusal(
            f"`{missing[0]}` is no quantity of layers: it has no place along the first axis. It "
            "stands in `to_pandas()`."
        )
    if not curves:
        every = [(_named(r), r.estimate) for r in profile.readings]
        forest(sheet, every)
        return
    at = {place: site for site, place in reversed(depth.items())}
    at |= {layer.depth: layer.site for layer in profile.layers}
    banded = False
    for ax, (name, placed) in zip(sheet.panels(len(curves)), curves.items(), strict=True):
        scaled(ax, [r.estimate.value for r in placed.values()])
        _over_depth(ax, placed)
        heading(ax, _title(name))
        places(ax, [at.get(x, "") for x in range(max(placed) + 1)])
        shown = next(iter(placed.values()))
        usual = [
            (r.p05, r.p95)
            for r in references()
            if r.curve == (shown.view, shown.form, shown.quantity)
        ]
        if usual:
            band(ax, min(low for low, _ in usual), max(high for _, high in usual))
            banded = True
        for finding in findings:
            rests = any(r.quantity == name for r in finding.evidence)
            if rests and finding.site in depth:
                tone = TONES[finding.severity]
                ax.axvline(depth[finding.site], color=tone, linewidth=0.9, linestyle="--")
                ax.plot([], [], color=tone, linewidth=0.9, linestyle="--", label=finding.name)
        if ax.get_legend_handles_labels()[1]:
            legend(ax)
    if banded:
        words = "grey: where nine in ten layers of networks lie that train"
        sheet.figure.supxlabel(words, fontsize=7, color="#777777")


def _over_depth(
    ax: object,
    placed: Mapping[int, Reading],
    *,
    colour: str = COLOURS[0],
    name: str = "",
    mark: str = "o",
) -> None:
    """One quantity at each depth, with a gap where it was not read."""
    xs = range(max(placed) + 1)
    values = [placed[x].estimate if x in placed else None for x in xs]
    line(ax, xs, values, colour=colour, name=name, mark=mark)


def _title(name: str) -> str:
    unit = q.quantity(name).unit if name in q.quantities() else ""
    return f"{name} ({unit})" if unit else name


def _named(reading: Reading) -> str:
    return f"{reading.quantity} · {reading.site}"


def _spectra(profile: Profile, sheet: Sheet, view: str) -> None:
    """The singular values of each layer, over the largest."""
    views = dict.fromkeys(s.view for s in profile.spectra)
    if view not in views:
        has = f"has those of {', '.join(views)}" if views else "has none"
        raise Refusal(f"`spectra={view!r}` is none that was kept: this profile {has}.")
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    depth = depths(profile)
    found = [s for s in profile.spectra if s.view == view and len(s.spectrum.sigma)]
    forms = dict.fromkeys(s.form for s in found)
    shades = Normalize(0, max([depth.get(s.site, 0) for s in found] + [1]))
    axes = sheet.panels(len(forms), height=2.4, across=len(forms))
    for ax, form in zip(axes, forms, strict=True):
        for s in (s for s in found if s.form == form):
            sigma = s.spectrum.sigma
            if (top := float(sigma[0])) > 0:
                shade = colormaps[SHADES](shades(depth.get(s.site, 0)))
                ax.plot(range(1, len(sigma) + 1), (sigma / top).tolist(), color=shade, linewidth=1)
        ax.set(xscale="log", yscale="log", xlabel="index", ylabel="singular value / largest")
        ax.set_ylim(bottom=max(ax.get_ylim()[0], 1e-10))
        heading(ax, " ".join(filter(None, (view, form))))
    sheet.figure.colorbar(ScalarMappable(shades, SHADES), ax=axes, label="layer")


@drawn.register
def _findings(found: Findings, sheet: Sheet, **more: object) -> None:
    """The numbers that each rests on, in the colour of its severity."""
    require_known(more)
    rows: list[tuple[str, Estimate | None]] = []
    tones: list[str] = []
    for f in found.findings:
        rows += [(f.name, None), *((_named(r), r.estimate) for r in f.evidence)]
        tones += [TONES[f.severity]] * (1 + len(f.evidence))
    forest(sheet, rows, tones=tones)


@drawn.register
def _diagnosis(found: Diagnosis, sheet: Sheet, cures: Cures | None = None, **more: object) -> None:
    """What was tried to cure it; without that, the profile with the findings in it."""
    if cures is not None:
        _cures(cures, sheet, **more)
    else:
        drawn(found.profile, sheet, found.findings, **more)


@drawn.register
def _cures(found: Cures, sheet: Sheet, **more: object) -> None:
    """How far the program came as it is, and with each change."""
    require_known(more)
    if not found.tried:
        raise Refusal("No change was tried, so that there is nothing to draw. `print` says why.")
    exact = lambda value: Estimate.exactly(value, how="trained")
    sides = [(c, c.before, c.after) for c in found.tried if not math.isnan(c.before + c.after)]
    forest(
        sheet,
        [(c.name, exact(before)) for c, before, _ in sides],
        against=[exact(after) for _, _, after in sides],
        label="accuracy, or share of the variance explained",
        names=("as it is", "changed"),
    )


@drawn.register
def _treatment(treatment: Treatment, sheet: Sheet, **more: object) -> None:
    """What tells most of a remedy, over the layers, before and after it."""
    require_known(more)
    sides = {}
    for name, form, _ in CURVES:
        both = []
        for profile in (treatment.before, treatment.after):
            depth = {layer.site: layer.depth for layer in profile.layers}
            series = profile.series(name, form=form)
            both.append({depth[r.site]: r for r in series if r.site in depth})
        if all(both):
            sides[name] = both
    if not sides:
        _trials(RemedyTrials((treatment,), {}), sheet)
        return
    for ax, (name, (before, after)) in zip(sheet.panels(len(sides)), sides.items(), strict=True):
        scaled(ax, [r.estimate.value for each in (before, after) for r in each.values()])
        for placed, words, colour, mark in (
            (before, "before", COLOURS[0], "o"),
            (after, treatment.remedy.name, COLOURS[1], "s"),
        ):
            _over_depth(ax, placed, colour=colour, name=words, mark=mark)
        heading(ax, _title(name))
        places(ax, [""] * 99)
    legend(sheet.figure.axes[0], outside=True)


@drawn.register
def _trials(found: RemedyTrials, sheet: Sheet, **more: object) -> None:
    """The probability that plain training fits, before and after each."""
    require_known(more)
    sides = [(t, probability(t.before), probability(t.after)) for t in found.treatments]
    known = [(t, a, b) for t, a, b in sides if a is not None and b is not None]
    forest(
        sheet,
        [(t.remedy.name, a.estimate) for t, a, _ in known],
        against=[b.estimate for _, _, b in known],
        label="probability that plain training fits",
        names=("before", "after"),
    )


@drawn.register
def _ranking(found: Ranking, sheet: Sheet, **more: object) -> None:
    """How far training is foretold to come with each design, the best on top."""
    require_known(more)
    forest(
        sheet,
        [(f"{d.place}. {d.name}", d.forecast) for d in found.designs],
        label="how far training comes: 0 is the best constant, 1 all right",
    )


@drawn.register
def _compression(found: Compression, sheet: Sheet, **more: object) -> None:
    """The change of the output by each layer alone, and by all."""
    require_known(more)
    rows = [(f"{t.site}: {t.rank} of {t.full}", t.change) for t in found.layers]
    forest(
        sheet,
        [*rows, ("all together", found.change)],
        label="change of the output, over its variation",
    )
