"""How what scales with width is shown: as text, JSON, rows and a figure."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from sigmascope.core.guard import Refusal, printable
from sigmascope.diagnosis.scaling.exponents import ScalingLaw
from sigmascope.diagnosis.scaling.rates import STAYS, moved
from sigmascope.diagnosis.scaling.results import CARRIED, Obstacle, WeightScaling, Widths
from sigmascope.report.console import Code, Part, label, shortened
from sigmascope.report.figures import COLOURS as PALETTE, ROWS, Sheet, drawn, require_known
from sigmascope.report.results import Screen, columns, form, grid, parts, section, shortlist, some

NAME, MOST = 34, 24  # columns of a name; weights that are listed
FAR = 3.0  # exponents that a figure shows
TONES = {
    "maximal": PALETTE[2],
    "lazy": PALETTE[4],
    "exploding": PALETTE[1],
    "vanishing": PALETTE[3],
    "cannot be told": PALETTE[7],
}
COLOURS = {"maximal": "green", "lazy": "yellow", "cannot be told": "dim"}


def _interval(law: ScalingLaw | None) -> str:
    return law.says if law is not None else ""


def drawable(found: Widths) -> list[tuple[WeightScaling, ScalingLaw]]:
    """Weights that have a line over size, with the law of it."""
    return [(w, law) for w in found.weights if (law := w.law) is not None and w.curve]


def _counted(weights: Sequence[WeightScaling]) -> str:
    """How many weights have each verdict, the worst first."""
    order = ("exploding", "vanishing", "lazy", "cannot be told", "maximal")
    counts = [(sum(w.verdict == v for w in weights), v) for v in order]
    return ", ".join(f"{count} {verdict}" for count, verdict in counts if count)


def alike(obstacles: Sequence[Obstacle]) -> list[tuple[str, str, Obstacle]]:
    """What is said and what to do, once for all that it is true of; with the first of them."""
    groups: dict[tuple[str, str, str], list[Obstacle]] = {}
    for one in obstacles:
        says = one.says.removeprefix(f"{one.name}: ")
        groups.setdefault((one.cause, says, one.cure), []).append(one)
    found = []
    for (_, says, cure), many in groups.items():
        names = ", ".join(one.name for one in many)
        found.append((f"{names}: {says}" if len(many) > 1 else many[0].says, cure, many[0]))
    return found


@parts.register
def _widths(found: Widths, screen: Screen) -> Iterator[Part]:
    first, last = found.widths[0], found.widths[-1]
    axis = found.axis
    yield Text(f"Whether what is tuned at {axis} {first} holds at {axis} {last}", "bold")
    seeds = f"{found.seeds} seed{'s' * (found.seeds > 1)}"
    steps = f"{found.steps} step{'s' * (found.steps > 1)} of {printable(found.optimizer)}"
    said = f"{len(found.widths)} {axis}s, {seeds}, {steps}: {_counted(found.weights)}."
    yield Text(said, "dim")
    for line in found.uses:
        yield Text(f"{printable(line)}.", "dim")
    yield ""
    carries = ("it carries",) if axis == "width" else ()
    titles = ("weight", "", "its change does", *carries, "verdict")
    table = grid(*titles)
    odd = [w for w in found.weights if w.verdict != "maximal"]
    rows = odd + [w for w in found.weights if w.verdict == "maximal"]
    rows = list(found.weights) if len(found.weights) <= MOST else rows
    listed, more = shortlist(rows, MOST, screen)
    for row in listed:
        table.add_row(
            label(row.name, NAME),
            row.kind,
            _interval(row.law),
            *(_interval(row.laws.get(CARRIED)) for _ in carries),
            Text(row.verdict, COLOURS.get(row.verdict, "red")),
        )
    yield table
    if more:
        yield Text(more, "dim")
    yield Text(
        f"Powers of {axis}, 0 where it is the same at every {axis}, with 95 % intervals.", "dim"
    )
    if found.beside:
        yield ""
        sides = grid("", *map(str, found.widths), right=tuple(map(str, found.widths)))
        for name, numbers in found.beside.items():
            sides.add_row(name, *(f"{number:.3g}" for number in numbers))
        yield sides
    if found.obstacles:
        inside: list[Part] = []
        some_of, rest = shortlist(alike(found.obstacles), 8, screen)
        for place, (says, cure, _) in enumerate(some_of, start=1):
            inside.append(Text.assemble((f"{place:>2}  ", "dim"), printable(says) + "."))
            inside.append(Text(f"    {cure}", "dim"))
        if rest:
            inside.append(Text(rest, "dim"))
        yield from section("In the way of a transfer", *inside)
    elif all(w.verdict == "maximal" for w in found.weights):
        yield ""
        yield Text("Nothing stands in the way: what is tuned on the small model should hold.")
    if found.code:
        yield from section(f"The cure, with r = {axis} / {first}", Code(found.code))
    if found.after:
        left = [w for w in found.after if w.verdict not in ("maximal", "cannot be told")]
        words = [f"{w.name} is {w.verdict}: {w.why}" for w in left[:4]]
        yield from section(
            "Measured again with it, on copies",
            Text(f"{_counted(found.after)}."),
            *(Text(f"{printable(word)}.") for word in words),
        )
    if found.best:
        yield from section(
            "The best learning rate", *(Text(line, colour) for line, colour in _rates(found))
        )
    if found.skipped:
        told = [f"{printable(name)}: {why}." for name, why in found.skipped.items()]
        some_told, rest = shortlist(told, 6, screen)
        yield from section("Not told", *(Text(line, "dim") for line in (*some_told, rest) if line))


def _rates(found: Widths) -> Iterator[tuple[str, str]]:
    """At both ends, and whether it stays; with the colour of it."""
    for said, pair in (("as it is", found.best), ("with the cure", found.best_after)):
        if not pair:
            continue
        small, large = pair
        at = lambda b: f"{b.factor.value:.2g} [{b.factor.low:.2g}, {b.factor.high:.2g}]"
        by = moved(small, large)
        if by.low >= 1 / STAYS and by.high <= STAYS:
            told, colour = "it stays within a factor 2", "green"
        elif (by.low > 1 or by.high < 1) and not 1 / STAYS <= by.value <= STAYS:
            told, colour = (
                f"it moves, by a factor {by.value:.2g} [{by.low:.2g}, {by.high:.2g}]",
                "red",
            )
        else:
            told = (
                f"whether it stays within a factor 2 (it moves by {by.value:.2g} "
                f"[{by.low:.2g}, {by.high:.2g}]) is not told"
            )
            told, colour = f"{told}: more seeds would tell", "dim"
        where = f"{at(small)} of yours at {found.axis} {small.width}, {at(large)} at {large.width}"
        yield f"{said}: {where}; {told}.", colour


def rates_in_words(found: Widths) -> list[str]:
    """Where the best learning rate lies at both ends, and whether it stays."""
    return [line for line, _ in _rates(found)]


@form.register
def _widths_form(found: Widths) -> dict[str, Any]:
    names = ("widths", "seeds", "steps", "optimizer", "weights", "obstacles", "output", "skipped")
    names += ("after", "left", "best", "best_after", "axis", "uses")
    losses = {str(width): list(pair) for width, pair in found.losses.items()}
    cure = {"initial": dict(found.initial), "rates": dict(found.rates)}
    code = found.code.splitlines()
    beside = {name: list(numbers) for name, numbers in found.beside.items()}
    whole = {**some(found, *names), "beside": beside, "losses": losses, "cure": cure, "code": code}
    return {"schema": "sigmascope/widths/1", **whole}


@columns.register
def _widths_columns(found: Widths) -> dict[str, list[Any]]:
    """A row a weight: the exponents of what its change does and of what it carries."""
    rows = found.weights
    table: dict[str, list[Any]] = {
        "weight": [w.name for w in rows],
        "kind": [w.kind for w in rows],
        "shape": [w.shape for w in rows],
        "verdict": [w.verdict for w in rows],
        "theory": [w.theory for w in rows],
    }
    names = sorted({name for w in rows for name in w.laws})
    for name in names:
        laws = [w.laws.get(name) for w in rows]
        for end in ("value", "low", "high"):
            values = [None if law is None else getattr(law.exponent, end) for law in laws]
            table[f"{name} {end}".replace(" value", "")] = values
    return table


@drawn.register
def _widths_figure(found: Widths, sheet: Sheet, **more: object) -> None:
    """What each weight's first step does over width, and its exponent with its interval."""
    require_known(more)
    known = drawable(found)
    if not known:
        raise Refusal("There is no exponent to draw: no weight's change was told at every width.")
    rows = known[:ROWS]
    left, right = sheet.panels(2, height=max(2.4, 0.14 * len(rows) + 0.6), across=2)
    for weight, _ in known:
        line = [v / weight.curve[0] for v in weight.curve]
        left.plot(found.widths, line, color=TONES[weight.verdict], linewidth=0.9)
    left.set(
        xscale="log", yscale="log", xlabel=found.axis, ylabel="what its first step does / first"
    )
    left.set_xticks(found.widths, [str(w) for w in found.widths])
    left.minorticks_off()
    for place, (weight, law) in enumerate(rows):
        e, tone = law.exponent, TONES[weight.verdict]
        right.plot([e.low, e.high], [place, place], color=tone)
        right.plot([e.value], [place], "o", color=tone)
    right.axvline(0, color=TONES["cannot be told"], linewidth=0.6)
    right.set_yticks(range(len(rows)), [shortened(printable(w.name), NAME) for w, _ in rows])
    right.set_ylim(len(rows) - 0.5, -0.5)
    # limits that show nearly all ends; what two widths leave open would hide the rest
    ends = [e for _, law in rows for e in (law.exponent.low, law.exponent.high)]
    right.set_xlim(max(min(ends), -FAR) - 0.1, min(max(ends), FAR) + 0.1)
    right.set(xlabel=f"power of {found.axis} that it follows")
    for verdict in dict.fromkeys(w.verdict for w, _ in known):
        left.plot([], [], color=TONES[verdict], label=verdict)
    left.legend()
