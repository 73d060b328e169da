"""Inner dimensions, sweeps over depth, what training conserves, what is predicted."""

import math
from collections.abc import Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from sigmascope import quantities as q
from sigmascope.guard import printable
from sigmascope.records import Estimate
from sigmascope.records.encoding import encoded
from sigmascope.report.console import Part, compact, measured, shortened
from sigmascope.report.forms import form, json_form, some
from sigmascope.report.screens import Screen, grid, parts, section, shortlist
from sigmascope.report.tables import columns, row_columns
from sigmascope.theory import le2022, riedi2022
from sigmascope.theory.bottleneck import Bottleneck, DepthSweep, Evidence, Prediction, Trained
from sigmascope.theory.presentation.theorems import Checks

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


MOST = 12  # rows of a section, unless all are wanted


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
def _bottleneck_form(found: Bottleneck) -> dict[str, Any]:
    return {"schema": "sigmascope/bottleneck/1", **encoded(found)}


@form.register
def _prediction_form(found: Prediction) -> dict[str, Any]:
    return {
        "schema": "sigmascope/prediction/1",
        **some(found, "width", "depth", "checks"),
        "gamma": None if math.isinf(found.gamma) else found.gamma,
        **some(found.chain, "weights", "samples", "chains", "layers", "burn_in"),
        **{name.replace(" ", "_"): encoded(e) for name, e, _ in predicted(found)},
    }


@form.register
def _scale_form(found: riedi2022.random_weights.WeightScale) -> dict[str, Any]:
    return {"schema": "sigmascope/scale/1", **encoded(found)}


@form.register
def _sweep_form(found: DepthSweep) -> dict[str, Any]:
    networks = [{**encoded(n), "kind": n.kind} for n in found.networks]
    return {"schema": "sigmascope/sweep/1", **encoded(found), "networks": networks}


@columns.register
def _balances_columns(found: le2022.conservation.Conserved) -> dict[str, list[Any]]:
    """Each balance with its formula."""
    balances = json_form(found)["invariants"]
    return {name: [row[name] for row in balances] for name in balances[0]} if balances else {}


@columns.register
def _bottleneck_columns(found: Bottleneck) -> dict[str, list[Any]]:
    return row_columns(Evidence, found.evidence)


@columns.register
def _sweep_columns(found: DepthSweep) -> dict[str, list[Any]]:
    return row_columns(Trained, found.networks)
