"""Rules over what is broken in the numbers of a checkpoint."""

from collections.abc import Iterator

from sigmascope import quantities as q
from sigmascope.diagnosis.checkpoints.facts import Facts, told, worst
from sigmascope.records import Finding, Kind, Reading, rule
from sigmascope.records.scans import Matrix

PLAIN = ("float64", "float32", "float16", "bfloat16")  # numbers that need no scale
LONG = 50.0  # a row over the median row: five times what layers of a trained MiniLM have
APART = 10.0  # size of a matrix over the median of its kind
DEAD = 0.01  # share of rows or columns
ENDS = ("embedding", "position embedding", "type embedding", "head")


NON_FINITE_WEIGHTS = Kind(
    "non-finite-weights",
    "entries are infinite or nan",
    "IEEE 754",
)


@rule(q.NON_FINITE_ENTRIES, NON_FINITE_WEIGHTS)
def non_finite(facts: Facts) -> Iterator[Finding]:
    """Infinities and nan."""
    yield from told(
        NON_FINITE_WEIGHTS,
        "error",
        worst(facts.of(q.NON_FINITE_ENTRIES)),
        "entries are infinite or nan. Whatever passes through them is lost.",
        "Take an earlier checkpoint; the step after it overflowed.",
    )


ZERO_MATRIX = Kind(
    "zero-matrix",
    "every entry is zero",
    "Arithmetic",
)
UNTRAINED_ADAPTER = Kind(
    "untrained-adapter",
    "the product of an adapter's two factors is zero",
    "Hu et al. 2022, Sec. 4.1",
)


@rule(q.FROBENIUS_NORM, ZERO_MATRIX, UNTRAINED_ADAPTER)
def zero_matrix(facts: Facts) -> Iterator[Finding]:
    """Matrices of which every entry is zero."""
    found = [(m, r) for m, r in facts.of(q.FROBENIUS_NORM) if r.estimate.value == 0]
    drawn = [pair for pair in found if pair[0].form != "product"]
    yield from told(
        ZERO_MATRIX,
        "warning",
        drawn,
        "every entry is zero. What they map passes nothing on, unless a skip connection goes by.",
        "Zero is a start for the last layer of a branch; after training it says that no gradient "
        "came there: look whether the optimiser holds it.",
    )
    yield from told(
        UNTRAINED_ADAPTER,
        "warning",
        [pair for pair in found if pair[0].form == "product"],
        "the product of the two factors is zero, as before the first step.",
        "See that the optimiser holds the adapter's parameters.",
    )


BROKEN_SCALES = Kind(
    "broken-scales",
    "in numbers that are multiplied by scales, a row or column is 50 times as long as the median "
    "one",
    "Measured: at most 9.6 in the layers of a trained MiniLM (docs/scan.md)",
)


@rule(q.LONGEST_ROW, BROKEN_SCALES)
def broken_scales(facts: Facts) -> Iterator[Finding]:
    """Rows, columns or whole matrices of quantised numbers that are far too large."""
    yield from told(
        BROKEN_SCALES,
        "error",
        worst(pair for pair in _long(facts) if pair[0].dtype not in PLAIN),
        f"a row or column is {LONG:g} times as long as the median of them or more, in numbers "
        "that are multiplied by scales: a scale is wrong.",
        "Quantise these matrices again, and compare with the original: "
        "`sigmascope scan ORIGINAL --against THIS`.",
    )


OUTLIER_ROWS = Kind(
    "outlier-rows",
    "in plain numbers, a row or column is 50 times as long as the median one, embeddings and "
    "heads aside. Layers of MiniLM reach 9.6",
    "Dettmers et al. 2022, Sec. 4",
)


@rule(q.LONGEST_ROW, OUTLIER_ROWS)
def long_rows(facts: Facts) -> Iterator[Finding]:
    """The same in numbers that need no scale."""
    yield from told(
        OUTLIER_ROWS,
        "warning",
        worst(pair for pair in _long(facts) if pair[0].dtype in PLAIN and pair[0].kind not in ENDS),
        f"a row or column is {LONG:g} times as long as the median of them or more: a few units "
        "carry nearly all of the signal, and 8-bit formats lose the rest.",
        "Keep these rows in a wider format when quantising; look for a step that broke training.",
    )


def _long(facts: Facts) -> Iterator[tuple[Matrix, Reading]]:
    seen: set[str] = set()
    for name in (q.LONGEST_ROW, q.LONGEST_COLUMN):
        for matrix, reading in facts.of(name):
            if reading.estimate.value >= LONG and matrix.site not in seen:
                seen.add(matrix.site)
                yield matrix, reading


def per_entry(matrix: Matrix) -> float:
    """What makes of a Frobenius norm the root mean square of an entry."""
    return (matrix.rows * matrix.cols) ** -0.5


EXPLODING_WEIGHTS = Kind(
    "exploding-weights",
    "the Frobenius norm is ten times the median of three or more matrices of the kind, and so is "
    "the size of an entry, for a head of two rows is small by its shape. In MiniLM it is within a "
    "factor of 1.7",
    "Measured, docs/scan.md",
)
VANISHING_WEIGHTS = Kind(
    "vanishing-weights",
    "the Frobenius norm is a tenth of the median of three or more matrices of the kind, and so is "
    "the size of an entry",
    "Measured, docs/scan.md",
)


@rule(q.FROBENIUS_NORM, EXPLODING_WEIGHTS, VANISHING_WEIGHTS)
def outlying_size(facts: Facts) -> Iterator[Finding]:
    """Matrices far larger or smaller than the others of their kind."""
    large, small = [], []
    for matrix, reading in facts.of(q.FROBENIUS_NORM):
        # heads of few rows are small, and entries of narrow layers large, by design
        ratios = [facts.over_usual(q.FROBENIUS_NORM, matrix, e) for e in (lambda _: 1.0, per_entry)]
        if min(ratios) >= APART:
            large.append((matrix, reading))
        elif max(ratios) <= 1 / APART:
            small.append((matrix, reading))
    yield from told(
        EXPLODING_WEIGHTS,
        "warning",
        worst(large),
        f"norm and size of an entry are {APART:g} times the median of their kind or more.",
        "In a quantised checkpoint a scale is wrong; else training diverged there: lower the "
        "learning rate, or clip gradients, from the last checkpoint before it.",
    )
    yield from told(
        VANISHING_WEIGHTS,
        "warning",
        worst(small)[::-1],
        f"norm and size of an entry are a {APART:g}th of the median of their kind or less.",
        "Weight decay without a gradient does that: look whether anything reads what it writes.",
    )


DEAD_ROWS = Kind(
    "dead-rows",
    "a hundredth of the rows or columns, or more, are zero, embeddings and heads aside",
    "Arithmetic",
)


@rule(q.ZERO_ROWS, DEAD_ROWS)
def dead_units(facts: Facts) -> Iterator[Finding]:
    """Rows or columns that are exactly zero."""
    yield from told(
        DEAD_ROWS,
        "warning",
        worst(
            (m, r)
            for name in (q.ZERO_ROWS, q.ZERO_COLUMNS)
            for m, r in facts.of(name)
            if DEAD <= r.estimate.value < 1 and m.kind not in ENDS
        ),
        "rows or columns are exactly zero: these outputs are always zero, or these inputs unread.",
        "They were pruned, or died: take them out, and the numbers that go with them.",
    )


SATURATED_WEIGHTS = Kind(
    "saturated-weights",
    "entries are at the largest number of their format",
    "IEEE 754",
)


@rule(q.SATURATED_ENTRIES, SATURATED_WEIGHTS)
def saturated(facts: Facts) -> Iterator[Finding]:
    """Entries at the end of their format."""
    yield from told(
        SATURATED_WEIGHTS,
        "warning",
        worst(facts.of(q.SATURATED_ENTRIES)),
        "entries are at the largest number of their format: they were cut off there.",
        "Convert again from the original in a wider format, as bfloat16 for float16.",
    )


SUBNORMAL_WEIGHTS = Kind(
    "subnormal-weights",
    "a hundredth of the entries, or more, are below the normal numbers of their format",
    "IEEE 754",
)


@rule(q.SUBNORMAL_ENTRIES, SUBNORMAL_WEIGHTS)
def underflown(facts: Facts) -> Iterator[Finding]:
    """Entries below the normal numbers of their format."""
    yield from told(
        SUBNORMAL_WEIGHTS,
        "note",
        worst((m, r) for m, r in facts.of(q.SUBNORMAL_ENTRIES) if r.estimate.value >= DEAD),
        "a hundredth of the entries or more are below the smallest normal number of their format, "
        "and have lost digits.",
        "Convert again from the original in a format with more exponents, as bfloat16.",
    )
