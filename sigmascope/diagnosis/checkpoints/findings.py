"""Rules over the matrices of one checkpoint."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from sigmascope.diagnosis.checkpoints.changes import changed
from sigmascope.diagnosis.checkpoints.facts import Facts, told, worst
from sigmascope.records import Finding, Reading
from sigmascope.records.scans import Matrix, Scan

Rule = Callable[[Facts], Iterator[Finding]]
PLAIN = ("float64", "float32", "float16", "bfloat16")  # numbers that need no scale
LONG = 50.0  # a row over the median row: five times what layers of a trained MiniLM have
APART = 10.0  # size of a matrix over the median of its kind
DEAD = 0.01  # share of rows or columns
POOR = 0.5  # share of full rank
NARROW = 0.1  # effective rank over that of the kind
BULK = 0.1  # distance from the law of noise, up to which a spectrum is like it
THIN = 0.8  # of the numbers, which a factorisation has to save a fifth of
ENDS = ("embedding", "position embedding", "type embedding", "head")


def scan_findings(scan: Scan) -> tuple[Finding, ...]:
    """What the numbers of a scan mean, in words, errors first.

    Args:
        scan: Of one checkpoint, or of two held against each other.

    Returns:
        One finding for each rule that speaks, over all matrices of which it does.
    """
    facts = Facts(scan)
    found = [f for rule in RULES.values() for f in rule(facts)] + [*changed(facts)]
    order = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda f: order.index(f.severity)))


def non_finite(facts: Facts) -> Iterator[Finding]:
    """Infinities and nan."""
    yield from told(
        "non-finite-weights",
        "error",
        worst(facts.of("non-finite entries")),
        "entries are infinite or nan. Whatever passes through them is lost.",
        "IEEE 754",
        "Take an earlier checkpoint; the step after it overflowed.",
    )


def zero_matrix(facts: Facts) -> Iterator[Finding]:
    """Matrices of which every entry is zero."""
    found = [(m, r) for m, r in facts.of("Frobenius norm") if r.estimate.value == 0]
    drawn = [pair for pair in found if pair[0].form != "product"]
    yield from told(
        "zero-matrix",
        "warning",
        drawn,
        "every entry is zero. What they map passes nothing on, unless a skip connection goes by.",
        "Arithmetic",
        "Zero is a start for the last layer of a branch; after training it says that no gradient "
        "came there: look whether the optimiser holds it.",
    )
    yield from told(
        "untrained-adapter",
        "warning",
        [pair for pair in found if pair[0].form == "product"],
        "the product of the two factors is zero, as before the first step.",
        "Hu et al. 2022, Sec. 4.1",
        "See that the optimiser holds the adapter's parameters.",
    )


def broken_scales(facts: Facts) -> Iterator[Finding]:
    """Rows, columns or whole matrices of quantised numbers that are far too large."""
    yield from told(
        "broken-scales",
        "error",
        worst(pair for pair in _long(facts) if pair[0].dtype not in PLAIN),
        f"a row or column is {LONG:g} times as long as the median of them or more, in numbers "
        "that are multiplied by scales: a scale is wrong.",
        "Measured: at most 9.6 in the layers of a trained MiniLM (docs/scan.md)",
        "Quantise these matrices again, and compare with the original: "
        "`sigmascope scan ORIGINAL --against THIS`.",
    )


def long_rows(facts: Facts) -> Iterator[Finding]:
    """The same in numbers that need no scale."""
    yield from told(
        "outlier-rows",
        "warning",
        worst(pair for pair in _long(facts) if pair[0].dtype in PLAIN and pair[0].kind not in ENDS),
        f"a row or column is {LONG:g} times as long as the median of them or more: a few units "
        "carry nearly all of the signal, and 8-bit formats lose the rest.",
        "Dettmers et al. 2022, Sec. 4",
        "Keep these rows in a wider format when quantising; look for a step that broke training.",
    )


def _long(facts: Facts) -> Iterator[tuple[Matrix, Reading]]:
    seen: set[str] = set()
    for name in ("longest row", "longest column"):
        for matrix, reading in facts.of(name):
            if reading.estimate.value >= LONG and matrix.site not in seen:
                seen.add(matrix.site)
                yield matrix, reading


def outlying_size(facts: Facts) -> Iterator[Finding]:
    """Matrices far larger or smaller than the others of their kind."""
    large, small = [], []
    for matrix, reading in facts.of("Frobenius norm"):
        usual = facts.usual("Frobenius norm", matrix.kind)
        if usual and reading.estimate.value >= APART * usual:
            large.append((matrix, reading))
        elif usual and 0 < reading.estimate.value <= usual / APART:
            small.append((matrix, reading))
    yield from told(
        "exploding-weights",
        "warning",
        worst(large),
        f"the norm is {APART:g} times the median of matrices of its kind or more.",
        "Measured, docs/scan.md",
        "In a quantised checkpoint a scale is wrong; else training diverged there: lower the "
        "learning rate, or clip gradients, from the last checkpoint before it.",
    )
    yield from told(
        "vanishing-weights",
        "warning",
        worst(small)[::-1],
        f"the norm is a {APART:g}th of the median of matrices of its kind or less.",
        "Measured, docs/scan.md",
        "Weight decay without a gradient does that: look whether anything reads what it writes.",
    )


def dead_units(facts: Facts) -> Iterator[Finding]:
    """Rows or columns that are exactly zero."""
    yield from told(
        "dead-rows",
        "warning",
        worst(
            (m, r)
            for name in ("zero rows", "zero columns")
            for m, r in facts.of(name)
            if DEAD <= r.estimate.value < 1 and m.kind not in ENDS
        ),
        "rows or columns are exactly zero: these outputs are always zero, or these inputs unread.",
        "Arithmetic",
        "They were pruned, or died: take them out, and the numbers that go with them.",
    )


def deficient(facts: Facts) -> Iterator[Finding]:
    """Matrices of at most half the rank they could have."""
    found = [
        (m, r)
        for m, r in facts.of("matrix rank")
        if r.estimate.high <= POOR * min(m.shape) and m.form != "product" and min(m.shape) > 2
    ]
    yield from told(
        "low-rank",
        "note",
        sorted(found, key=lambda pair: pair[1].estimate.value / min(pair[0].shape)),
        "the rank is at most half of what the shape allows, to the precision of the numbers.",
        "Eckart & Young 1936",
        "Store them as two factors: nothing is lost.",
    )


def collapsed(facts: Facts) -> Iterator[Finding]:
    """Matrices that use a tenth of the directions that others of their kind use."""
    found = []
    for matrix, reading in facts.of("effective rank"):
        usual = facts.usual("effective rank", matrix.kind)
        if usual and reading.estimate.value <= NARROW * usual:
            found.append((matrix, reading))
    yield from told(
        "collapsed-rank",
        "warning",
        worst(found)[::-1],
        "the effective rank is a tenth of the median of matrices of its kind or less.",
        "Roy & Vetterli 2007",
        "Look at what training did there: a rate too high for this layer, or weight decay on a "
        "layer that others do the work of.",
    )


def noise_only(facts: Facts) -> Iterator[Finding]:
    """Matrices in which nothing sticks out of noise."""
    found = []
    for matrix, reading in facts.of("spikes"):
        apart = facts.value("noise distance", matrix)
        if reading.estimate.value == 0 and (apart is None or apart <= BULK):
            found.append((matrix, reading))
    looked = len(facts.readings.get("spikes", {}))
    everywhere = bool(looked) and len(found) >= 0.9 * looked
    yield from told(
        "noise-only",
        "warning" if everywhere else "note",
        found,
        f"no singular value is larger than those of noise ({len(found)} of {looked} matrices)"
        + (": as before training." if everywhere else ": nothing was learned there that shows."),
        "Marchenko & Pastur 1967; Johnstone 2001",
        "See that these are trained weights, and that the optimiser held them.",
    )


def compressible(facts: Facts) -> Iterator[Finding]:
    """Matrices of which two thin factors hold nearly everything."""
    found = []
    for matrix, reading in facts.of("energy rank"):
        m, n = matrix.shape
        if matrix.form != "product" and reading.estimate.high * (m + n) <= THIN * m * n:
            found.append((matrix, reading))
    saved = sum(m.rows * m.cols - r.estimate.high * (m.rows + m.cols) for m, r in found)
    total = sum(m.rows * m.cols for m in facts.scan.matrices)
    yield from told(
        "compressible",
        "note",
        sorted(
            found, key=lambda p: p[1].estimate.value * sum(p[0].shape) / (p[0].rows * p[0].cols)
        ),
        f"two factors of the energy rank are off by at most a tenth of the norm, and save "
        f"{saved / total if total else 0:.0%} of all numbers. What that does to outputs depends on "
        "the data.",
        "Eckart & Young 1936",
        "Measure it on data before believing it: `sigmascope compress MODEL --data DATA`.",
    )


def saturated(facts: Facts) -> Iterator[Finding]:
    """Entries at the end of their format."""
    yield from told(
        "saturated-weights",
        "warning",
        worst(facts.of("saturated entries")),
        "entries are at the largest number of their format: they were cut off there.",
        "IEEE 754",
        "Convert again from the original in a wider format, as bfloat16 for float16.",
    )


def underflown(facts: Facts) -> Iterator[Finding]:
    """Entries below the normal numbers of their format."""
    yield from told(
        "subnormal-weights",
        "note",
        worst((m, r) for m, r in facts.of("subnormal entries") if r.estimate.value >= DEAD),
        "a hundredth of the entries or more are below the smallest normal number of their format, "
        "and have lost digits.",
        "IEEE 754",
        "Convert again from the original in a format with more exponents, as bfloat16.",
    )


def copies(facts: Facts) -> Iterator[Finding]:
    """Matrices that are copies of others."""
    found = [r for r in facts.scan.readings if r.quantity == "copy cosine"]
    by_site = {m.site: m for m in facts.scan.matrices}
    pairs = [(by_site[r.site.split(" = ")[0]], r) for r in found]
    same = sum(r.estimate.high >= 1 for r in found)
    for finding in told(
        "copied-weights",
        "warning",
        worst(pairs),
        "",
        "Arithmetic",
        "Layers that began as copies differ after training; where they should not be equal, "
        "look at how the checkpoint was put together.",
    ):
        names = "; ".join(r.site for _, r in worst(pairs)[:3])
        says = f"{len(found)} matrices are copies of others, {same} of them exactly: {names}."
        yield Finding(
            finding.name, finding.site, finding.severity, finding.evidence, says, finding.source,
            finding.remedies,
        )  # fmt: skip


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.__name__: rule
        for rule in (
            non_finite,
            broken_scales,
            zero_matrix,
            long_rows,
            outlying_size,
            dead_units,
            collapsed,
            saturated,
            copies,
            noise_only,
            deficient,
            compressible,
            underflown,
        )
    }
)
