"""What a scan of a checkpoint will do."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.records import Skipped
from sigmascope.records.scans import Matrix, ScanPlan
from sigmascope.report.scans.groups import by_kind, reasons
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.names import shortened
from sigmascope.report.terminal.numbers import lasting, sized
from sigmascope.report.terminal.screens import Screen, grid, parts, section, shortlist

KIND = 26  # columns that the name of a kind is given
MOST = 12  # reasons that are listed, unless all are wanted
_EXAMPLES = 2  # sites named with a reason
_SITE = 40


@parts.register
def _plan(plan: ScanPlan, screen: Screen) -> Iterator[Part]:
    """What is read, what it costs, what each kind is, what is left out."""
    yield Text(f"{printable(plan.source)}: {_counts(plan)}.", "bold")
    yield Text(_cost(plan))
    if plan.about:
        yield Text(about(plan.about), "dim")
    if plan.matrices:
        yield from section("Matrices", _kinds(plan, screen))
    if plan.skipped:
        title = f"Left out: {len(plan.skipped):,} of {plan.tensors:,} tensors"
        yield from section(title, *left_out(plan.skipped, screen))


def about(words: Mapping[str, str]) -> str:
    """Circumstances in one line."""
    return " · ".join(f"{printable(key)} {printable(value)}" for key, value in words.items())


def left_out(skipped: Sequence[Skipped], screen: Screen) -> Iterator[Part]:
    """Each reason once, with how many it holds for and some of their names."""
    table = grid("what", "how many", "why", "for example", right=("how many",), fold=True)
    chosen, more = shortlist([*reasons(skipped).items()], MOST, screen)
    for (what, why), sites in chosen:
        named = sites if screen.whole else sites[:_EXAMPLES]
        names = "\n".join(shortened(printable(site), _SITE) for site in named)
        cells = (printable(what), f"{len(sites):,}", printable(why), names)
        table.add_row(*map(Text, cells))
    yield table
    if more:
        yield Text(f"{more} reasons (--whole lists them)", "dim")


def shape(matrices: Sequence[Matrix]) -> str:
    """The commonest shape, and how many others there are.

    Example:
        >>> shape([Matrix("a", "linear", 0, 2, 3, "float32", ("a",), 24, "full", 12.0)])
        '2×3'
    """
    counts = Counter(m.shape for m in matrices)
    (rows, cols), _ = counts.most_common(1)[0]
    more = f" +{len(counts) - 1}" if len(counts) > 1 else ""
    return f"{rows}×{cols}{more}"


def _counts(plan: ScanPlan) -> str:
    matrices, tensors = len(plan.matrices), plan.tensors
    of = f"{matrices:,} {'matrix' if matrices == 1 else 'matrices'}"
    return f"{of} in {tensors:,} tensor{'' if tensors == 1 else 's'}, {sized(plan.bytes)} to read"


def _cost(plan: ScanPlan) -> str:
    workers = "1 process" if plan.workers == 1 else f"{plan.workers} processes"
    return (
        f"About {lasting(plan.seconds)} of processor time, {lasting(plan.seconds / plan.workers)} "
        f"with {workers}; at most {sized(plan.memory)} of memory each."
    )


def _kinds(plan: ScanPlan, screen: Screen) -> Table:
    right = ("matrices", "bytes", "full", "leading")
    table = grid("kind", "matrices", "shape", "dtype", *right[1:], right=right)
    for kind, matrices in by_kind(plan.matrices).items():
        efforts = Counter(m.effort for m in matrices)
        dtypes = ", ".join(dict.fromkeys(printable(m.dtype) for m in matrices))
        table.add_row(
            Text(shortened(printable(kind), KIND)),
            f"{len(matrices):,}",
            shape(matrices),
            Text(shortened(dtypes, KIND)),
            sized(sum(m.bytes for m in matrices)),
            *(str(efforts[how] or "·") for how in ("full", "leading")),
        )
    return table
