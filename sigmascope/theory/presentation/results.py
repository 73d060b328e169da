"""How what four papers prove looks: theorems, comparisons, inner dimensions, landscapes."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from torch import Tensor

from sigmascope.core import quantities as q
from sigmascope.core.encoding import encoded, strict
from sigmascope.core.guard import printable
from sigmascope.core.records import Change, Check, Estimate, Finding, Shown, Verdict
from sigmascope.linalg.krylov import Density
from sigmascope.report.console import (
    Part,
    compact,
    label,
    matters,
    measured,
    rendered,
    shortened,
    sparkline,
)
from sigmascope.report.figures import drawn
from sigmascope.report.results import (
    Screen,
    columns,
    form,
    grid,
    has_form,
    has_rows,
    json_form,
    parts,
    section,
    shortlist,
    some,
    some_of,
)
from sigmascope.report.several import gathered
from sigmascope.theory import le2022, riedi2022
from sigmascope.theory.bottleneck import Bottleneck, DepthSweep, Evidence, Prediction, Trained
from sigmascope.theory.bounds import Bound
from sigmascope.theory.comparing import Comparison
from sigmascope.theory.landscape import Bend, Bends, Landscape, LayerCurvature, Regions, Surface
from sigmascope.theory.le2022.conservation import broken_balances


@dataclass(frozen=True, slots=True, repr=False)
class Checks(Shown):
    """Theorems that were checked on one model.

    Attributes:
        checks: From `theory.check`.
    """

    checks: tuple[Check, ...]


def theorems_text(
    theorems: Iterable[type[Bound]], *, colour: bool = False, width: int = 100
) -> str:
    """The catalogue: name, statement, source, and what the docstring says."""
    listed: list[Part] = []
    for theorem in theorems:
        listed.append(Text(theorem.name, "bold"))
        says = (theorem.__doc__ or "").strip().splitlines()[0]
        listed.append(Padding(Text(f"{says}\n{theorem.statement}\n{theorem.source}"), (0, 0, 1, 2)))
    return rendered(listed, colour=colour, width=width)


gathered(Check, Checks, parts, drawn)


@parts.register
def _checks(found: Checks, _: Screen) -> Iterator[Part]:
    """Theorem by theorem, each check on a line; places where one is inapplicable, by the reason."""
    if not found.checks:
        yield Text("No theorem of the catalogue speaks of this model.")
    for name in dict.fromkeys(c.theorem for c in found.checks):
        group = [c for c in found.checks if c.theorem == name]
        counts = ", ".join(
            f"{sum(c.verdict is v for c in group)} {v.value}"
            for v in Verdict
            if any(c.verdict is v for c in group)
        )
        yield Text.assemble((printable(name), "bold"), f": {counts}")
        yield Padding(Text(f"{group[0].statement}   ({group[0].source})", "dim"), (0, 0, 0, 2))
        rows: dict[tuple[Verdict, str, str], list[str]] = {}
        for c in group:
            failed = "; ".join(a.says for a in c.assumptions if a.met is False)
            sides = ""
            if c.measured is not None and c.limit is not None:
                sides = f"{measured(c.measured)} {_SIGNS[c.sense]} {measured(c.limit)}"
            key = (c.verdict, sides, f"not met: {failed}") if failed else (c.verdict, sides, c.note)
            rows.setdefault(key, []).append(printable(c.site))
        table = Table.grid(padding=(0, 2))
        for (verdict, sides, why), sites in rows.items():
            places = f"{sites[0]} and {len(sites) - 1} more" if len(sites) > 2 else ", ".join(sites)
            table.add_row(Text(places), Text(verdict, _VERDICTS[verdict]), sides, Text(why, "dim"))
        yield Padding(table, (0, 0, 1, 2))


_VERDICTS = {
    Verdict.HOLDS: "green",
    Verdict.CONSISTENT: "green",
    Verdict.VACUOUS: "dim",
    Verdict.VIOLATED: "bold red",
    Verdict.INAPPLICABLE: "dim",
}
_SIGNS = {"at most": "≤", "at least": "≥"}


has_rows(Checks, "checks", Check)


# ------------------------------------------------------------------------------
# Two states of a model side by side: how that looks.

MOST = 12  # rows of a section, unless all are wanted
BETWEEN = 44  # columns that a name is given in a comparison


@parts.register
def _comparison(
    found: Comparison, screen: Screen, findings: Sequence[Finding] | None = None
) -> Iterator[Part]:
    findings = broken_balances(found.drifts) if findings is None else findings
    moved = [c for c in found.changes if c.moved]
    yield Text(f"{len(moved)} of {len(found.changes)} quantities moved.", "bold")
    for f in findings:
        yield ""
        yield Text.assemble(
            (f.severity.upper(), "bold yellow"), f"  {f.name} at {printable(f.site)}"
        )
        yield Text(f"  {printable(f.says)}")
    if moved:
        yield ""
        right = ("before", "after", "factor")
        table = grid("where", "what", *right, right=right)
        ordered = sorted(moved, key=_surprise, reverse=True)
        for c in some_of(table, ordered, 2 * MOST, screen):
            what = f"{c.quantity} ({c.form})" if c.form else c.quantity
            numbers = (measured(c.before), measured(c.after), compact(c.factor, digits=3))
            table.add_row(label(c.site, BETWEEN), what, *numbers)
        yield table
    if found.drifts:
        table = grid("verdict", "drift", "allowed", "between", fold=True)
        ordered = sorted(found.drifts, key=lambda d: d.drift, reverse=True)
        chosen, more = shortlist(ordered, MOST, screen)
        for d in chosen:
            check = d.check()
            allowed = "" if check.limit is None else compact(check.limit.high, digits=2)
            between = label(d.site, 2 * BETWEEN)
            table.add_row(str(check.verdict), compact(d.drift, digits=3), allowed, between)
        if more:
            table.add_row(Text(more, "dim"))
        unmet = (a.says for d in found.drifts for a in d.assumptions() if a.met is False)
        for words in dict.fromkeys(unmet):
            table.add_row("", "", "", Text(f"inapplicable where this is not so: {words}", "dim"))
        yield from section("Balances", table)
    if found.signs:
        table = grid()
        ordered = sorted(found.signs.items(), key=lambda item: item[1], reverse=True)
        chosen, more = shortlist(ordered, MOST, screen)
        for name, share in chosen:
            table.add_row(label(name, BETWEEN), f"{share:.2%}")
        if more:
            table.add_row(Text(more, "dim"))
        yield from section("Share of the entries whose sign changed", table)
    if found.missing:
        yield ""
        yield Text(f"Only in one of them: {printable(', '.join(found.missing[:MOST]))}", "dim")


def _surprise(change: Change) -> float:
    """How far a factor is from one, either way."""
    factor = abs(change.factor)
    return float("inf") if factor in (0.0, float("inf")) else max(factor, 1 / factor)


@form.register
def _comparison_form(
    found: Comparison, findings: Sequence[Finding] | None = None
) -> dict[str, Any]:
    findings = broken_balances(found.drifts) if findings is None else findings
    return {
        "schema": "sigmascope/comparison/1",
        "changes": [{**encoded(c), "moved": c.moved} for c in found.changes],
        "drifts": [
            {**encoded(d.check()), "drift": strict(d.drift), "kind": d.invariant.kind}
            for d in found.drifts
        ],
        **some(found, "signs", "missing"),
        "findings": [some(f, "name", "site", "says") for f in findings],
    }


has_rows(Comparison, "changes", Change)


# ------------------------------------------------------------------------------
# The inner dimension of a network.


NAME = 40  # columns that a name is given


@parts.register
def _bottleneck(found: Bottleneck, _: Screen) -> Iterator[Part]:
    yield Text(f"{found.kind.upper()}  {printable(found.says)}", "bold")
    yield ""
    whole = grid()
    for e in found.evidence:
        if e.site == "(network)":
            whole.add_row(e.name, _number(e.estimate), Text(e.says, "dim"))
    yield whole
    yield ""
    titles = ("layer", "passes on", "rank of its weight")
    layers = grid(*titles, right=titles[1:])
    by_site: dict[str, dict[str, Evidence]] = {}
    for e in found.evidence:
        if e.site != "(network)":
            by_site.setdefault(e.site, {})[e.name] = e
    for site, named in by_site.items():
        cells = [
            _number(named[name].estimate) if name in named else ""
            for name in ("written rank", "relative weight rank")
        ]
        narrow = "bold" if site in found.layers else ""
        layers.add_row(Text(shortened(printable(site), NAME), narrow), *cells)
    yield layers


def _number(e: Estimate) -> str:
    value = compact(e.value)
    if math.isclose(e.low, e.high, rel_tol=1e-3):
        return value
    return f"{value} [{compact(e.low)}, {compact(e.high)}]"


# ------------------------------------------------------------------------------
# A sweep over depth.


@parts.register
def _sweep(found: DepthSweep, _: Screen) -> Iterator[Part]:
    yield Text(found.says, "bold")
    yield ""
    ridges = len({n.ridge for n in found.networks}) > 1
    numbers = ("uses", "passes", "‖θ‖²", "cost", "NTK trace / depth", "")
    titles = ("depth", *(["ridge"] * ridges), *numbers)
    table = grid(*titles, right=titles)
    for n in found.networks:
        ranks = _rank(n.dimension), _rank(n.rank)
        place = (str(n.depth), *([compact(n.ridge)] * ridges))
        table.add_row(
            *place,
            *ranks,
            *(compact(n.norm), compact(n.cost, digits=3), compact(n.tangent, digits=3)),
            n.kind if n.fits else "does not fit",
        )
    yield table


def _rank(rank: tuple[int, int, int]) -> str:
    value, low, high = rank
    return str(value) if low == high else f"{value} [{low}, {high}]"


# ------------------------------------------------------------------------------
# What training conserves.


@parts.register
def _balances(found: le2022.conservation.Conserved, screen: Screen) -> Iterator[Part]:
    total = sum(i.count for i in found.invariants)
    yield Text(
        f"Gradient flow conserves {total:,} numbers in {len(found.invariants)} balances."
        if found.invariants
        else "Gradient flow conserves nothing here that is known.",
        "bold",
    )
    yield Text("Rates are those of the gradient on these examples, relative to its terms.", "dim")
    for invariant in found.broken:
        yield ""
        names = printable(" ~ ".join(invariant.tensors))
        yield Text.assemble(("BROKEN", "bold red"), f"  {names}")
        yield Text(
            f"  The forward pass makes it constant, the gradient changes it (rate "
            f"{invariant.rate:.1g}): a backward pass is not the derivative of its forward pass, "
            "or a part is detached."
        )
    if found.invariants:
        yield ""
        table = grid("kind", "units", "numbers", "rate", "what, and why", fold=True)
        kinds: dict[str, list[le2022.conservation.Invariant]] = {}
        for i in found.invariants:
            kinds.setdefault(i.kind, []).append(i)
        for kind, members in kinds.items():
            chosen, more = shortlist(members, MOST, screen)
            said = ""
            for i in chosen:
                words = le2022.conservation.formula(i)
                if not screen.whole and len(words) > 240:
                    words = f"{words[:200]} …"
                says = Text(printable(words))
                why = le2022.conservation.reason(i)
                if why != said:
                    says.append(f"\n{why}", "dim")
                said = why
                table.add_row(
                    kind, le2022.conservation.shown(i.what), f"{i.count:,}", f"{i.rate:.0e}", says
                )
            if more:
                rest = sum(i.count for i in members[len(chosen) :])
                words = Text(f"{more} (--whole lists them)", "dim")
                table.add_row(kind, "", f"{rest:,}", "", words)
        yield table
    if found.fixed:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        groups: dict[str, list[str]] = {}
        for f in found.fixed:
            part = "" if f.count == f.of else f" ({f.count} of {f.of})"
            groups.setdefault(f.why, []).append(f"{f.tensor} {f.side}{part}")
        for why, names in groups.items():
            chosen, more = shortlist(names, 4, screen)
            words = ", ".join(chosen) + more.replace("…", " and")
            table.add_row(Text(printable(why), "dim"), printable(words))
        yield from section("In no balance", table)


# ------------------------------------------------------------------------------
# What is predicted of a design.


@parts.register
def _prediction(found: Prediction, screen: Screen) -> Iterator[Part]:
    skip = "no skip connections" if math.isinf(found.gamma) else f"gamma {found.gamma:g}"
    yield Text(
        f"Random linear layers of width {found.width}, depth {found.depth}, {skip}, "
        f"{found.chain.weights} weights.",
        "bold",
    )
    yield ""
    after = f"about {found.collapse.value:.0f} layers"
    if found.collapse.value <= found.depth:
        without = (
            f"collapses. The second singular value is numerically gone after {after} "
            f"({found.collapse.low:.0f} to {found.collapse.high:.0f}), before the "
            f"{found.depth} of the design."
        )
    else:
        without = (
            f"does not collapse within {found.depth} layers, where the second singular value is "
            f"about {found.ratio.value:.2g} of the first; it would be numerically gone after "
            f"{after}."
        )
    yield Text(f"Without normalisation: {without}")
    ratio = found.chain.participation_ratio
    if found.surviving.value <= 1:
        along = "collapses all the same: one direction survives."
    else:
        along = (
            f"{found.surviving.value:.0f} of {found.width} directions survive at any depth, and "
            f"samples use {ratio.value:.3g} of them evenly (participation ratio, averaged over "
            "depth)."
        )
    yield Text(f"With batch normalisation: {along}")
    yield Text(
        "Layers are linear here; rectifiers make networks without normalisation collapse sooner. "
        "`sigmascope profile` measures one that is built.",
        "dim",
    )
    yield ""
    grid = Table.grid(padding=(0, 2))
    for name, estimate, says in predicted(found):
        grid.add_row(Text(name), Text(measured(estimate)), Text(says, "dim"))
    yield grid
    yield from section("Theorems", *parts(Checks(found.checks), screen))


def predicted(found: Prediction) -> tuple[tuple[str, Estimate, str], ...]:
    """What is foretold of a design: name, number, meaning."""
    c = found.chain
    return (
        ("exponent gap", found.gap, "μ₁ - μ₂ per layer, without normalisation"),
        ("collapse depth", found.collapse, "layers to σ₂ ≤ width * 1e-7 σ₁"),
        ("singular ratio", found.ratio, "σ₂/σ₁ at this depth, without normalisation"),
        ("surviving directions", found.surviving, "Lyapunov exponents that are zero, normalised"),
        (q.PARTICIPATION_RATIO, c.participation_ratio, "average over normalised layers"),
        (q.SOFT_RANK, c.soft_rank, f"eigenvalues of M at least {c.tau:g}, average"),
        ("frobenius sq", c.frobenius_sq, "E‖M‖²"),
        ("regularity", c.regularity, "α = E Tr(diag(M²)²) / E Tr(M³)"),
    )


# ------------------------------------------------------------------------------
# The same as strict JSON, and as rows.


@form.register
def _balances_form(found: le2022.conservation.Conserved) -> dict[str, Any]:
    names = ("kind", "tensors", "count", "rate", "tolerance")
    each = lambda i: (
        some(i, *names)
        | {"formula": le2022.conservation.formula(i), "reason": le2022.conservation.reason(i)}
    )
    form = {"invariants": [*map(each, found.invariants)], "broken": [*map(each, found.broken)]}
    return {"schema": "sigmascope/balances/1", **form, "fixed": encoded(found.fixed)}


@form.register
def _prediction_form(found: Prediction) -> dict[str, Any]:
    return {
        "schema": "sigmascope/prediction/1",
        **some(found, "width", "depth", "checks"),
        "gamma": None if math.isinf(found.gamma) else found.gamma,
        **some(found.chain, "weights", "samples", "chains", "layers", "burn_in"),
        **{name.replace(" ", "_"): encoded(e) for name, e, _ in predicted(found)},
    }


has_form(riedi2022.random_weights.WeightScale, "scale")


@form.register
def _sweep_form(found: DepthSweep) -> dict[str, Any]:
    networks = [{**encoded(n), "kind": n.kind} for n in found.networks]
    return {"schema": "sigmascope/sweep/1", **encoded(found), "networks": networks}


@columns.register
def _balances_columns(found: le2022.conservation.Conserved) -> dict[str, list[Any]]:
    """Each balance with its formula."""
    balances = json_form(found)["invariants"]
    return {name: [row[name] for row in balances] for name in balances[0]} if balances else {}


has_rows(Bottleneck, "evidence", Evidence)
has_rows(DepthSweep, "networks", Trained)


# ------------------------------------------------------------------------------
# How well conditioned learning is, the curvature of the loss, and slices through it.

POINTS = 200  # of a spectrum on a page; all of them are in the JSON form
HEAD = 64  # of those, how many leading values are kept one by one
QUANTILES = 160  # at which a distribution is given
MATRICES: Mapping[str, str] = MappingProxyType(
    {
        "hessian": "Hessian",
        "gauss-newton": "Gauss-Newton matrix",
        "fisher": "Empirical Fisher matrix",
    }
)
LAYER_NUMBERS: Mapping[str, str] = MappingProxyType(  # of a landscape, with their meaning
    {
        "condition": "κ(Q): the longest over the shortest axis of the loss in this layer's weights",
        q.LAYER_FACTOR: "what the layers after it contribute: κ of M D over the samples",
        q.DATA_FACTOR: "what the layers before it contribute: κ of the features it reads",
        "top": "largest curvature",
        "step limit": "learning rate above which this layer diverges, 2 / largest curvature",
        "flat": "directions in its weights along which the loss is flat",
    }
)


@dataclass(frozen=True, slots=True)
class Scenery:
    """What else was measured of a landscape, as far as it was asked for.

    Attributes:
        curvature: Eigenvalues of the Hessian or its kin.
        surface: The loss on a plane or a line through the weights.
        regions: The regions on a plane through input space.
    """

    curvature: Bends | None = None
    surface: Surface | None = None
    regions: Regions | None = None


def thinned(sigma: list[float]) -> dict[str, Any]:
    """The leading values and an even choice of the rest, to six digits, with their indices."""
    chosen = list(range(len(sigma)))
    if len(sigma) > POINTS:
        step = (len(sigma) - 1 - HEAD) / (POINTS - HEAD - 1)
        chosen = chosen[:HEAD] + [round(HEAD + i * step) for i in range(POINTS - HEAD)]
    return {
        "count": len(sigma),
        "zeros": sigma.count(0.0),
        "at": [i + 1 for i in chosen],
        "sigma": [strict(float(f"{sigma[i]:.6g}")) for i in chosen],
    }


def distribution(density: Density) -> dict[str, Any]:
    """Share of eigenvalues up to each threshold, where the samples have their nodes."""
    nodes = density.nodes.flatten().sort().values
    at = torch.linspace(0, len(nodes) - 1, min(QUANTILES, len(nodes))).round().long()
    chosen = nodes[at].unique().tolist()
    found = [density.below(t) for t in chosen]
    return {
        "how": density.how,
        "risk": density.risk,
        "at": [float(f"{t:.9g}") for t in chosen],
        "below": [e.value for e in found],
        "low": [e.low for e in found],
        "high": [e.high for e in found],
    }


# ------------------------------------------------------------------------------
# How well conditioned learning is.


@parts.register
def _landscape(
    found: Landscape,
    screen: Screen,
    variants: Sequence[Landscape] = (),
    *,
    scenery: Scenery | None = None,
    loss: str = "",
) -> Iterator[Part]:
    words, seen = printable(found.says), scenery or Scenery()
    yield Text(f"Conditioning of each layer under {printable(loss or found.loss)}, {words}", "bold")
    yield ""
    if found.layers:
        table = grid("layer", *LAYER_NUMBERS, right=[*LAYER_NUMBERS])
        for layer in found.layers:
            cells = (_shown(getattr(layer, head.replace(" ", "_"))) for head in LAYER_NUMBERS)
            table.add_row(printable(layer.site), *cells)
        yield table
        yield ""
        yield from (Text(f"{head:>12}  {says}", "dim") for head, says in LAYER_NUMBERS.items())
        yield ""
        worst = max(found.layers, key=lambda layer: layer.condition.value)
        tightest = min(found.layers, key=lambda layer: layer.step_limit.value)
        square = worst.condition.value**2
        steps = math.log(10) / math.log1p(2 / (square - 1)) if square > 1 else 1.0
        yield Text(
            f"Learning is worst conditioned in {printable(worst.site)}: "
            f"κ = {compact(worst.condition.value)}. "
            f"Gradient descent on this layer alone, at its best step, takes about {compact(steps)} "
            f"steps to reduce its slowest error tenfold. It diverges above a learning rate of "
            f"{compact(tightest.step_limit.value)}, in {printable(tightest.site)} first. "
            f"Axes more than {compact(worst.floor)} times the shortest count as flat: the model's "
            "arithmetic cannot tell."
        )
    else:
        yield Text("No layer could be measured; why not is said below.")
    if any(v.layers for v in variants):
        every = (found, *variants)
        heads = [variant.says for variant in every]
        table = grid("condition of", *heads, right=heads)
        for site in dict.fromkeys(layer.site for variant in every for layer in variant.layers):
            here = ({layer.site: layer.condition for layer in v.layers}.get(site) for v in every)
            table.add_row(printable(site), *("·" if e is None else _shown(e) for e in here))
        most = [max((layer.condition.value for layer in v.layers), default=math.inf) for v in every]
        best = most.index(min(most))
        said = (
            f"The worst layer is best conditioned with {printable(heads[best])}: "
            f"κ = {compact(most[best])} instead of {compact(most[0])}."
            if best
            else "None of the variants has a better conditioned worst layer than the model as it "
            "is."
        )
        yield from section("What it would be", "", table, "", Text(said))
    if found.skipped:
        why = (Text(printable(f"{s.site}: {s.why}"), "dim") for s in found.skipped)
        yield from section("Not measured", *why)
    if seen.curvature is not None:
        yield from ("", *parts(seen.curvature, screen, loss))
    for slice_ in filter(None, (seen.surface, seen.regions)):
        yield from ("", *parts(slice_, screen))


def _shown(e: Estimate) -> str:
    return compact(e.value)


# ------------------------------------------------------------------------------
# The curvature of the loss.


SIZES = ("top", "bottom", "trace", "frobenius")
SHARES = ("upwards", "downwards")
UNASKED = "-"
DOUBTFUL = 1e-3  # relative difference from finite differences above which a warning is due


@parts.register
def _curvature(bends: Bends, _: Screen, loss: str = "") -> Iterator[Part]:
    """A table of the eigenvalues, and what they mean for the learning rate."""
    yield Text(f"{MATRICES[bends.kind]} of {printable(loss or bends.loss)}", "bold")
    yield ""
    heads = ("number", "largest", "smallest", "trace", "Frobenius", "up", "down")
    table = grid("weights of", *heads, right=heads)
    for column in table.columns[1:]:
        column.no_wrap = True
    for part in bends.parts:
        cells = [printable(part.site), str(part.parameters)]
        for e in (getattr(part, name) for name in SIZES):
            # the value, with the farther end of its interval where that matters
            if e is None:
                cells.append(UNASKED)
            elif matters(e):
                off = max(e.high - e.value, e.value - e.low)
                cells.append(f"{compact(e.value, digits=3)} ± {compact(off, digits=1)}")
            else:
                cells.append(compact(e.value))
        for e in (getattr(part, name) for name in SHARES):
            # the percentages between which it is
            if e is None:
                cells.append(UNASKED)
                continue
            low, high = (f"{100 * end:.{0 if end > 0.1 else 1}f}" for end in (e.low, e.high))
            cells.append(f"{low} %" if low == high else f"{low} to {high} %")
        table.add_row(*cells)
    yield table
    yield ""
    if any(part.density for part in bends.parts):
        yield Text("up, down: share of eigenvalues beyond ±1/1000 of the largest in size", "dim")
    yield Text(f"{sum(part.products for part in bends.parts)} products with the matrix", "dim")
    yield ""
    tops = [(p.top.value, p.site) for p in bends.parts if p.top is not None]
    top, site = max(tops, default=(0.0, ""))
    words: list[str] = []
    if top > 0:
        words.append(
            f"Gradient descent on these weights diverges above a learning rate of "
            f"{compact(2 / top)} (2 over the largest eigenvalue, {printable(site)})."
        )
    if bends.check is None:
        words.append("Second derivatives were not checked: that was not asked for.")
    elif bends.check.gap <= DOUBTFUL:
        words.append(f"Second derivatives agree with finite differences to {bends.check.gap:.0e}.")
    else:
        words.append(
            f"Second derivatives differ from finite differences by {bends.check.gap:.0e}: a module "
            "has a backward that is not its derivative, computes in low precision, or sits on a "
            "kink (a zero bias below an input of zeros). Do not trust these numbers before that is "
            "known."
        )
    yield Text(" ".join(words))


# ------------------------------------------------------------------------------
# Slices through the space of weights and the space of inputs.


WIDTH = 60  # of a curve


@parts.register
def _surface(surface: Surface, _: Screen) -> Iterator[Part]:
    """The loss along the axes, from end to end."""
    yield Text(printable(f"Loss on {surface.says}"), "bold")
    yield ""
    yield from _curve(surface.across, surface.xs, surface.losses[surface.ys.abs().argmin()])
    if surface.along:
        yield from _curve(surface.along, surface.ys, surface.losses[:, surface.xs.abs().argmin()])
    finite = surface.losses[surface.losses.isfinite()]
    away = int(surface.losses.numel() - finite.numel())
    here = surface.losses[surface.ys.abs().argmin(), surface.xs.abs().argmin()].item()
    least = finite.min().item() if len(finite) else float("nan")
    most = finite.max().item() if len(finite) else float("nan")
    beyond = f"; not finite at {away} of {surface.losses.numel()} points" if away else ""
    yield Text(
        f"{compact(here)} at the model, from {compact(least)} to {compact(most)} on the "
        f"{'plane' if surface.along else 'line'}{beyond}."
    )


def _curve(name: str, at: Tensor, losses: Tensor) -> Iterator[Text]:
    ends = f"{compact(at[0].item())} to {compact(at[-1].item())}"
    yield Text(f"{sparkline(losses.tolist(), width=WIDTH)}  {name}, {ends}")


@parts.register
def _regions(regions: Regions, _: Screen) -> Iterator[Part]:
    """How many regions there are after each activation."""
    found = regions.partition
    yield Text("Regions of the input space", "bold")
    yield ""
    yield Text(
        f"The plane through samples {', '.join(map(str, regions.samples))} meets "
        f"{len(found.polygons)} regions in a square of side {compact(2 * regions.half)}. After "
        f"each activation: {', '.join(map(str, found.counts)) or 'none bends it'}."
    )


# ------------------------------------------------------------------------------
# How large weights may be.


LAWS = {
    "concentration": "concentration of measure, at every width",
    "tracy-widom": "the law of Tracy and Widom, up to its error at finite width",
}


@parts.register
def _scale(
    found: riedi2022.random_weights.WeightScale,
    _: Screen,
    *,
    units: int,
    condition: float,
    probability: float,
) -> Iterator[Part]:
    """Three limits on the weights of a residual layer, and where usual initialisations lie."""
    yield Text(
        f"A residual layer of {units} units keeps its condition number below {condition:g}, "
        "whatever units are on, if",
        "bold",
    )
    yield ""
    grid = Table(box=None, pad_edge=False, show_header=False)
    for says, value, sure in (
        ("its Gaussian weights have a standard deviation of at most", found.std, probability),
        ("no weight is larger in size than", found.entry, 1.0),
        ("its spectral norm is at most", found.norm, 1.0),
    ):
        chance = "surely" if sure == 1 else f"with a chance of {sure:g}"
        grid.add_row(says, compact(value), Text(chance, "dim"))
    yield grid
    yield ""
    usual = (
        ("PyTorch's default", 1 / math.sqrt(3 * units)),
        ("Xavier's", 1 / math.sqrt(units)),
        ("He's", math.sqrt(2 / units)),
    )
    times = ", ".join(f"{name} {compact(std / found.std, digits=2)}" for name, std in usual)
    yield Text(f"In units of that standard deviation, usual initialisations have: {times}.")
    yield Text(f"The norm of Gaussian weights is bounded by {LAWS[found.how]}.", "dim")


# ------------------------------------------------------------------------------
# The same as strict JSON, and as rows.


@form.register
def _landscape_form(
    found: Landscape,
    variants: Sequence[Landscape] = (),
    *,
    scenery: Scenery | None = None,
    loss: str = "",
) -> dict[str, Any]:
    seen = scenery or Scenery()
    measured: list[dict[str, Any]] = []
    for each in (found, *variants):
        names = ("site", "floor", *(title.replace(" ", "_") for title in LAYER_NUMBERS), "rate")
        skipped = [some(s, "site", "why") for s in each.skipped]
        measured.append(
            {
                **some(each, "says", "rho"),
                "layers": [
                    {**some(layer, *names), "axes": thinned(layer.root.sigma.tolist())}
                    for layer in each.layers
                ],
                "skipped": skipped,
            }
        )
    return {
        "schema": "sigmascope/landscape/1",
        "loss": loss or found.loss,
        "variants": measured,
        "curvature": None if seen.curvature is None else json_form(seen.curvature),
        "surface": None if seen.surface is None else json_form(seen.surface),
        "regions": None if seen.regions is None else json_form(seen.regions),
    }


@form.register
def _curvature_form(bends: Bends) -> dict[str, Any]:
    parts = [
        {**encoded(p), "density": None if p.density is None else distribution(p.density)}
        for p in bends.parts
    ]
    return {
        "schema": "sigmascope/curvature/1",
        **encoded(bends),
        "title": MATRICES[bends.kind],
        "parts": parts,
    }


@form.register
def _regions_form(regions: Regions) -> dict[str, Any]:
    """The polygons; coordinates are in half sides of the square."""
    found = regions.partition
    many = found.outputs.shape[1] > 1
    classes = found.outputs.argmax(1) if many else (found.outputs[:, 0] > 0).long()
    rounded = lambda each: [[round(v, 6) for v in x.flatten().tolist()] for x in each]
    return {
        "schema": "sigmascope/regions/1",
        **some(regions, "samples", "at", "half"),
        **some(found, "counts", "by"),
        "activations": list(found.names),
        "polygons": rounded(found.polygons),
        "classes": classes.tolist(),
        "cuts": rounded(found.cuts),
    }


has_rows(Landscape, "layers", LayerCurvature)
has_rows(Bends, "parts", Bend)
