"""A program's diagnosis, what was tried to cure it, and other models beside one."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from rich.table import Table
from rich.text import Text

from sigmascope import quantities as q
from sigmascope.diagnosis import remedies
from sigmascope.diagnosis.compression import Compression, Truncation
from sigmascope.diagnosis.cures import Cure, Cures
from sigmascope.diagnosis.diagnoses import Diagnosis
from sigmascope.diagnosis.ranking import Ranked
from sigmascope.diagnosis.remedies import NormalisationEffect
from sigmascope.diagnosis.trainability import probability
from sigmascope.diagnosis.treatments import Treatment
from sigmascope.guard import printable
from sigmascope.records import Finding, Profile, Shown
from sigmascope.records.encoding import encoded
from sigmascope.report.console import Code, Part, compact, measured, shortened, sparkline
from sigmascope.report.forms import form, json_form, some
from sigmascope.report.screens import Screen, grid, parts, section
from sigmascope.report.several import together
from sigmascope.report.tables import columns, row_columns
from sigmascope.survey import Change, changes

# what is shown before and after a remedy: quantity, form, and the end that tells most
CURVES: tuple[tuple[str, str, str], ...] = tuple(
    (each.name, "samples" if "representations" in each.views else "", each.compared)
    for each in q.quantities().values()
    if each.compared
)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RemedyTrials(Shown):
    """Every remedy that was tried.

    Attributes:
        treatments: In the order to show them, the best first.
        declined: Reasons of those that do not apply, by name of remedy.
        normalisation: What the model's own batch normalisers do.
    """

    treatments: tuple[Treatment, ...]
    declined: Mapping[str, str]
    normalisation: NormalisationEffect | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Ranking(Shown):
    """Designs in order.

    Attributes:
        designs: From `diagnosis.ranking.rank`, the best first.
    """

    designs: tuple[Ranked, ...]


@together.register
def _trials_of(first: Treatment, several: tuple[Any, ...]) -> RemedyTrials:
    return RemedyTrials(several, MappingProxyType({}))


@together.register
def _cures_of(first: Cure, several: tuple[Any, ...]) -> Cures:
    return Cures(several, MappingProxyType({}))


@together.register
def _ranking_of(first: Ranked, several: tuple[Any, ...]) -> Ranking:
    return Ranking(several)


def layer_values(profile: Profile, quantity: str, form: str) -> list[float]:
    """A quantity at every layer at which it was measured."""
    sites = {layer.site for layer in profile.layers}
    found = profile.series(quantity, form=form)
    return [r.estimate.value for r in found if r.site in sites]


# ------------------------------------------------------------------------------
# A program's diagnosis, and what was tried to cure it.


SHOWN = 3  # cures whose lines are printed


@parts.register
def _diagnosis(found: Diagnosis, screen: Screen, cures: Cures | None = None) -> Iterator[Part]:
    """The profile with its findings; behind it the cures."""
    yield from parts(found.profile, screen, found.findings)
    if cures is not None:
        yield ""
        yield from parts(cures, screen)


@parts.register
def _cures(found: Cures, screen: Screen) -> Iterator[Part]:
    """What was tried, the best first, and the lines of the first."""
    if not found.tried:
        none = "nothing was found that one is meant for"
        why = "what was thought of does not apply, or changes little" if found.declined else none
        yield Text(f"No cure: {why}.", "bold")
    else:
        yield Text("Cures, each trained on a copy as you train, the best first", "bold")
        # scores on samples that were not trained on, where there are such
        apart = any(c.others == c.others for c in found.tried)
        right = ("before", "after", *(["on others"] if apart else []))
        table = grid("cure", "meant for", *right, "steps", right=right)
        for cure in found.tried:
            scores = (cure.before, cure.after, *([cure.others] if apart else []))
            table.add_row(cure.name, cure.cause, *map(score, scores), str(cure.steps))
        yield table
        others = "; on others: on samples that they were not trained on" if apart else ""
        says = "Accuracy, or share of the targets' variance explained, on these samples"
        yield Text(f"{says}{others}.", "dim")
        for cure in found.tried[:SHOWN]:
            yield from parts(cure, screen)
    if found.declined:
        reasons = Table.grid(padding=(0, 2))
        for name, reason in found.declined.items():
            reasons.add_row(Text(name), Text(printable(reason), "dim"))
        yield from section("Declined", reasons)


@parts.register
def _cure(cure: Cure, _: Screen) -> Iterator[Part]:
    """The lines by which a user writes it."""
    title = f"{cure.name}: {score(cure.before)} → {score(cure.after)} after {cure.steps} steps"
    lines = cure.diff.splitlines() if cure.diff else cure.patch
    yield from section(title)
    yield Code("\n".join(map(printable, lines)))


def score(value: float) -> str:
    """Two digits behind the point; a dash where there is none."""
    return "–" if value != value else f"{value:.2f}"


# ------------------------------------------------------------------------------
# A model before and after a remedy.


@parts.register
def _treatment(treatment: Treatment, screen: Screen) -> Iterator[Part]:
    """The profile of the new model beside that of the old one, and the findings of both."""
    yield Text.assemble((treatment.remedy.name, "bold"), f"  {treatment.remedy.says}")
    yield Text(treatment.remedy.source, "dim")
    yield ""
    yield Text(f"Probability that plain training fits: {_chances(treatment)}")
    grid = Table.grid(padding=(0, 2))
    after = {f.name: f.severity for f in treatment.found_after}
    for f in treatment.found_before:
        left = after.get(f.name)
        gone = "cured" if f.name in treatment.cured else "not measured again"
        says = gone if left is None else f"still there, {left}"
        grid.add_row(Text(f.name), Text(f.severity), Text("→"), Text(says))
    for f in treatment.found_after:
        if f.name in treatment.new:
            grid.add_row(Text(f.name), Text("not there"), Text("→"), Text(f"new, {f.severity}"))
    if not grid.row_count:
        grid.add_row(Text("none before, none after"))
    yield from section("Findings", grid)
    curves = Table.grid(padding=(0, 2))
    room = max(8, (screen.width - 64) // 2)
    for quantity, of, end in CURVES:
        sides = [layer_values(p, quantity, of) for p in (treatment.before, treatment.after)]
        if all(sides):
            lines = [Text(sparkline(values, width=room)) for values in sides]
            ends = [compact(values[-1 if end == "last" else 0]) for values in sides]
            curves.add_row(Text(quantity), *lines, Text(end, "dim"), f"{ends[0]} → {ends[1]}")
    yield from section("Before and after, over depth", curves)
    made = remedies.in_code(treatment.remedy)
    call = f"model = {made}.apply(model, batch)"
    if made:
        yield from section("In your code", Text("import sigmascope as ss"), Text(call))


@parts.register
def _trials(found: RemedyTrials, _: Screen) -> Iterator[Part]:
    """Every remedy that was tried; those that do not apply, with the reason."""
    yield Text("Remedies, each applied to a copy and measured again, the best first", "bold")
    titles = ("remedy", "fits", "last partic. ratio", "cured", "left or new")
    table = grid(*titles, fold=True)
    for t in found.treatments:
        series = [layer_values(p, q.PARTICIPATION_RATIO, "samples") for p in (t.before, t.after)]
        ends = " → ".join(compact(ratios[-1]) if ratios else "–" for ratios in series)
        causes = {f.name for f in t.found_before if not f.follows}
        cured = "\n".join(name for name in t.cured if name in causes) or "–"
        left = "\n".join(f"{f.name} ({f.severity})" for f in t.found_after if not f.follows) or "–"
        table.add_row(t.remedy.name, _chances(t), ends, cured, left)
    yield table
    if found.declined:
        why = Table.grid(padding=(0, 2))
        for name, reason in found.declined.items():
            why.add_row(Text(name), Text(printable(reason), "dim"))
        yield from section("Not applicable", why)
    if (effect := found.normalisation) is not None:
        yield ""
        yield Text(
            f"The model's {effect.count} batch normalisers, switched: participation ratio at the "
            f"end {measured(effect.as_is)} as they are, {measured(effect.uncentred)} without "
            f"centring, {measured(effect.removed)} without them."
        )


def _chances(treatment: Treatment) -> str:
    """Probability of fitting, before and after."""
    found = [probability(p) for p in (treatment.before, treatment.after)]
    return " → ".join("–" if r is None else f"{r.estimate.value:.2f}" for r in found)


# ------------------------------------------------------------------------------
# Designs in order.


NAME = 40  # columns that a name is given


@parts.register
def _ranking(found: Ranking, _: Screen) -> Iterator[Part]:
    yield Text("How far training will come, of designs at equal cost", "bold")
    yield Text("0 % is the best constant output, 100 % all that the targets hold.", "dim")
    yield ""
    heads = ("", "forecast", "between", "fits", "rate", "passes")
    table = grid(heads[0], "design", *heads[1:], right=heads)
    for r in found.designs:
        e = r.forecast
        cells = (
            f"{e.value:.0%}",
            f"{e.low:.0%} and {e.high:.0%}",
            f"{r.probability.value:.2f}",
            compact(r.rate),
            str(r.passes),
        )
        table.add_row(str(r.place), Text(shortened(printable(r.name), NAME)), *cells)
    yield table
    yield ""
    for r in found.designs:
        yield Text(f"{r.place:>3}  {printable(r.why)}", "dim")


@parts.register
def _ranked(found: Ranked, screen: Screen) -> Iterator[Part]:
    yield from parts(Ranking((found,)), screen)


# ------------------------------------------------------------------------------
# Layers of lower rank.


@parts.register
def _compression(found: Compression, _: Screen) -> Iterator[Part]:
    yield Text(printable(found.says), "bold")
    if not found.layers:
        return
    yield ""
    titles = ("layer", "rank", "of", "layer loses", "elsewhere", "output changes", "parameters")
    table = grid(*titles, right=titles[1:])
    for t in found.layers:
        table.add_row(
            shortened(printable(t.site), NAME),
            str(t.rank),
            str(t.full),
            *(f"{e.value:.2%}" for e in (t.error, t.elsewhere, t.change)),
            f"{t.parameters[1]:,} of {t.parameters[0]:,}",
        )
    yield table
    yield ""
    yield Code(found.patch())


# ------------------------------------------------------------------------------
# The same as strict JSON, and as rows.


@form.register
def _diagnosis_form(found: Diagnosis, cures: Cures | None = None) -> dict[str, Any]:
    form = json_form(found.profile, found.findings)
    return form if cures is None else {**form, "cures": json_form(cures)}


@form.register
def _cures_form(found: Cures) -> dict[str, Any]:
    tried = [_cure_fields(cure) for cure in found.tried]
    return {"schema": "sigmascope/cures/1", "tried": tried, **some(found, "declined")}


@form.register
def _cure_form(found: Cure) -> dict[str, Any]:
    return {"schema": "sigmascope/cure/1", **_cure_fields(found)}


def _cure_fields(found: Cure) -> dict[str, Any]:
    """All but the program; a score that there is not is null."""
    names = ("name", "cause", "patch", "diff", "after", "steps")
    known = lambda score: None if math.isnan(score) else score
    return {**some(found, *names), "before": known(found.before), "others": known(found.others)}


@form.register
def _compression_form(found: Compression) -> dict[str, Any]:
    names = (f.name for f in fields(found) if f.name != "model")
    patch = found.patch().splitlines()
    return {"schema": "sigmascope/compression/1", **some(found, *names), "patch": patch}


@form.register
def _ranking_form(found: Ranking) -> dict[str, Any]:
    return {"schema": "sigmascope/ranking/1", **encoded(found)}


@form.register
def _trials_form(found: RemedyTrials) -> dict[str, Any]:
    return {
        "schema": "sigmascope/treatments/1",
        "treatments": [*map(json_form, found.treatments)],
        **some(found, "declined", "normalisation"),
    }


@form.register
def _treatment_form(found: Treatment) -> dict[str, Any]:
    return {
        "schema": "sigmascope/treatment/1",
        "remedy": found.remedy.name,
        **some(found.remedy, "says", "source"),
        **some(found, "cured", "new"),
        "before": _side(found.before, found.found_before),
        "after": _side(found.after, found.found_after),
    }


def _side(profile: Profile, findings: Sequence[Finding]) -> dict[str, Any]:
    trains = probability(profile)
    curves = {quantity: layer_values(profile, quantity, of) for quantity, of, _ in CURVES}
    return {
        "probability_of_fitting": None if trains is None else encoded(trains.estimate),
        "findings": [some(f, "name", "site", "severity") for f in findings],
        "curves": {quantity.replace(" ", "_"): v for quantity, v in curves.items() if v},
    }


@columns.register
def _diagnosis_columns(found: Diagnosis) -> dict[str, list[Any]]:
    return row_columns(Finding, found.findings)


@columns.register
def _cures_columns(found: Cures) -> dict[str, list[Any]]:
    return row_columns(Cure, found.tried)


@columns.register
def _compression_columns(found: Compression) -> dict[str, list[Any]]:
    return row_columns(Truncation, found.layers)


@columns.register
def _ranking_columns(found: Ranking) -> dict[str, list[Any]]:
    return row_columns(Ranked, found.designs)


@columns.register
def _trials_columns(found: RemedyTrials) -> dict[str, list[Any]]:
    """A row a remedy: what it cured, what it brought, what is left, and how likely training is."""
    chance = lambda profile: r.estimate.value if (r := probability(profile)) else None
    burdens = [t.burden for t in found.treatments]
    return {
        "remedy": [t.remedy.name for t in found.treatments],
        "cured": [t.cured for t in found.treatments],
        "new": [t.new for t in found.treatments],
        "errors": [errors for errors, _ in burdens],
        "warnings": [warnings for _, warnings in burdens],
        "probability_before": [chance(t.before) for t in found.treatments],
        "probability_after": [chance(t.after) for t in found.treatments],
    }


@columns.register
def _treatment_columns(found: Treatment) -> dict[str, list[Any]]:
    return row_columns(Change, changes(found.before.readings, found.after.readings))
