"""Pieces of HTML that pages have in common: numbers, tiles, findings, reasons, facts, tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from sigmascope.core.guard import printable
from sigmascope.core.records import Estimate, Finding
from sigmascope.report import console
from sigmascope.report.findings import SEVERITIES, folded


class Html(str):
    """Text that is HTML already; any other is escaped where it is put into a piece."""

    __slots__ = ()


Piece = str | None  # None leaves no trace

_EMPTY = frozenset({"input"})  # elements that have no content
_NAMED = 1000  # names under one reason
_APART = ("setup", "training")  # views in which the form tells what is read of one quantity


def element(tag: str, *inside: Piece, **attributes: Piece) -> Html:
    """One element; whatever text holds is shown and never acts.

    Example:
        >>> element("p", "a < b", class_="hint", data_at="3", hidden=None)
        '<p class="hint" data-at="3">a &lt; b</p>'
    """
    given = {name.strip("_").replace("_", "-"): value for name, value in attributes.items()}
    words = "".join(
        f' {name}="{escape(printable(value))}"'
        for name, value in given.items()
        if value is not None
    )
    end = "" if tag in _EMPTY else f"</{tag}>"
    return Html(f"<{tag}{words}>{joined(inside)}{end}")


def joined(pieces: Iterable[Piece]) -> Html:
    """One after the other."""
    known = (piece for piece in pieces if piece is not None)
    return Html("".join(p if isinstance(p, Html) else escape(printable(p)) for p in known))


def prose(text: str) -> Html:
    """Text in which `code` is marked by backticks."""
    parts = text.split("`")
    return joined(element("code", part) if i % 2 else part for i, part in enumerate(parts))


def named(site: str) -> Html:
    """A name from outside, whichever way it is written."""
    return element("bdi", site, class_="name")


def compact(number: float, *, digits: int = 4) -> str:
    """As in the terminal, with a true minus."""
    return console.compact(number, digits=digits).replace("-", "−")


def measured(estimate: Estimate) -> str:
    """The value, with its interval where it matters."""
    return console.measured(estimate).replace("-", "−")


def chance(risk: float) -> str:
    """How often an interval misses, in words; nothing where it never does."""
    often = compact(risk, digits=2)
    return f"the interval misses with chance at most {often}" if risk else ""


def plural(count: int, word: str, words: str = "") -> str:
    """The word for so many."""
    return word if count == 1 else words or f"{word}s"


def tile(title: str, value: str, tone: str = "", says: str = "", hint: str | None = None) -> Html:
    """A number with what it is; what that means stands below it, or in a tooltip."""
    meaning = element("span", says, class_="meaning") if says else None
    named = element("dt", title, meaning)
    return element("div", named, element("dd", value), class_=tone, title=hint)


def facts(rows: Iterable[tuple[str, str]]) -> Html:
    """Names with their values."""
    each = (piece for key, value in rows for piece in (element("dt", key), element("dd", value)))
    return element("dl", *each, class_="facts")


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Piece]], says: Sequence[str] = (), words: int = 1
) -> Html:
    """Rows with a name each, and numbers in all other cells.

    Args:
        heads: Titles of the columns.
        rows: Cells of each row; text becomes a cell, HTML is one.
        says: What the columns mean, if that is told.
        words: How many of them hold words.
    """
    told = [*says, *[""] * len(heads)]
    head = (
        element("th", each, scope="col", class_="n" if i >= words else None, title=told[i] or None)
        for i, each in enumerate(heads)
    )
    cell = lambda c: c if isinstance(c, Html) else element("td", c, class_="n")
    line = lambda row: element("tr", element("th", row[0], scope="row"), *map(cell, row[1:]))
    return element(
        "table", element("thead", element("tr", *head)), element("tbody", *map(line, rows))
    )


def number(estimate: Estimate) -> Html:
    """A cell with how it was found in its tooltip."""
    how = "; ".join(filter(None, (estimate.how, chance(estimate.risk))))
    return element("td", measured(estimate), class_="n", title=how)


def options(rows: Iterable[tuple[str, str]]) -> Html:
    """Choices of a menu: values with their words."""
    return joined(element("option", words, value=value) for value, words in rows)


def reasons(found: Mapping[tuple[str, str], Sequence[str]], none: str) -> Html:
    """Each reason with how many it holds for, and their names, a line for each.

    Args:
        found: What is missing and why, with the sites.
        none: What is said where nothing is.
    """
    if not found:
        return element("p", none, class_="empty")
    lines: list[Html] = []
    for (what, why), sites in found.items():
        parts = element("span", what), element("span", why, class_="statement")
        rest = len(sites) - _NAMED
        more = [f"and {rest} more, which the JSON form has"] if rest > 0 else []
        names = "\n".join(escape(printable(line)) for line in (*sites[:_NAMED], *more))
        lines.append(
            element(
                "details",
                element("summary", element("strong", str(len(sites))), *parts),
                element("pre", Html(names), class_="names", tabindex="0"),
            )
        )
    return joined(lines)


# ------------------------------------------------------------------------------
# Findings.


def severities(findings: Sequence[Finding]) -> list[Html]:
    """How many causes there are of each severity."""
    causes = [findings[place].severity for place in folded(findings)]
    counts = {kind: causes.count(kind) for kind in SEVERITIES}
    tone = lambda kind, count: "" if kind == "note" else kind if count else "good"
    return [tile(plural(n, kind), str(n), tone(kind, n)) for kind, n in counts.items()]


def cards(
    findings: Sequence[Finding],
    none: str,
    *,
    meant: Callable[[str], str],
    way: Callable[[int], Piece],
) -> list[Html]:
    """A card for each cause, with what follows from it.

    Args:
        findings: In the order in which they are shown.
        none: What is said where there is none.
        meant: What a quantity is.
        way: A button to where the finding at a place is seen, if it is.
    """
    found = []
    for cause, rest in folded(findings).items():
        say = f"{len(rest)} {plural(len(rest), 'finding follows', 'findings follow')} from this"
        inside = [card(findings[i], meant=meant, way=way(i), follows=True) for i in rest]
        more = element("details", element("summary", say), *inside) if rest else None
        found.append(card(findings[cause], meant=meant, way=way(cause), more=more))
    return found or [element("p", none, class_="empty")]


def card(
    finding: Finding,
    *,
    meant: Callable[[str], str],
    way: Piece,
    more: Piece = None,
    follows: bool = False,
    when: Piece = None,
    over: bool = False,
) -> Html:
    """One finding; what follows from another needs no remedy of its own.

    Args:
        finding: Which.
        meant: What a quantity is.
        way: To where it is seen.
        more: What follows from it.
        follows: Whether it stands under its cause.
        when: Of an alarm, how long it is or was in force.
        over: Whether it has ended.
    """
    head = element(
        "header",
        element("span", finding.severity, class_="badge"),
        element("h3", finding.name),
        named(finding.site) if finding.site else None,
        when,
    )
    remedies, shows = finding.remedies, finding.evidence[:6]
    rows: list[tuple[str, Html | str]] = []
    if remedies and not follows:
        rows.append(("What to do", element("ol", *(element("li", prose(r)) for r in remedies))))
    seen = []
    for f in finding.facts:
        word = element("span", f.word, class_="number")
        means = meant(f.quantity) or None
        seen.append(element("li", named(f.site), f" {f.quantity} ", word, title=means))
    for r in shows:
        form = f", {r.form}:" if r.view in _APART and r.form else ""
        risk = r.estimate.risk
        number = element("span", measured(r.estimate), class_="number")
        hint = element("span", f" ({chance(risk)})", class_="hint") if risk else None
        words = f" {r.quantity}{form} "
        means = meant(r.quantity) or None
        seen.append(element("li", named(r.site), words, number, hint, title=means))
    if seen:
        rows.append(("Evidence", element("ul", *seen)))
    rows.append(("Source", finding.source))
    if finding.follows and not follows:
        rows.append(("Follows from", finding.follows))
    each = (
        piece for title, inside in rows for piece in (element("dt", title), element("dd", inside))
    )
    says = element("p", prose(finding.says), class_="says")
    kind = f"{'consequence' if follows else 'card'} {finding.severity}{' over' if over else ''}"
    return element("article", head, says, element("dl", *each), way, more, class_=kind)
