"""What the numbers of a checkpoint mean: findings of a scan, worst first."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import nan
from statistics import median

from sigmascope.core import quantities as q
from sigmascope.core.records import (
    Finding,
    Kind,
    Matrix,
    Reading,
    Rule,
    Scan,
    Severity,
    kinds_of,
    rule,
)

__all__ = ["KINDS", "RULES", "scan_findings"]


# ------------------------------------------------------------------------------
# A scan as rules look at it: readings by matrix, matrices by kind.


SHOWN = 4  # readings that a finding holds, as many as a terminal shows: a fifth of seven more was
# counted as "and 1 more"; how many matrices there are, its sentence says
NAMED = 3  # matrices that its sentence names


@dataclass(frozen=True)
class Facts:
    """A scan, with what rules ask of it.

    Attributes:
        scan: The scan.
    """

    scan: Scan

    @cached_property
    def readings(self) -> Mapping[str, Mapping[str, Reading]]:
        """By quantity and site."""
        found: dict[str, dict[str, Reading]] = defaultdict(dict)
        for r in self.scan.readings:
            found[r.quantity][r.site] = r
        return found

    @cached_property
    def kinds(self) -> Mapping[str, Sequence[Matrix]]:
        """Matrices by what they are in the network."""
        found: dict[str, list[Matrix]] = defaultdict(list)
        for matrix in self.scan.matrices:
            found[matrix.kind].append(matrix)
        return found

    def of(self, name: str) -> list[tuple[Matrix, Reading]]:
        """Matrices of which this quantity was read, with it."""
        known = self.readings.get(name, {})
        return [(m, known[m.site]) for m in self.scan.matrices if m.site in known]

    def value(self, name: str, matrix: Matrix) -> float | None:
        """The number, if it was read."""
        found = self.readings.get(name, {}).get(matrix.site)
        return None if found is None else found.estimate.value

    def usual(
        self, name: str, kind: str, each: Callable[[Matrix], float] = lambda _: 1.0
    ) -> float | None:
        """The median over matrices of one kind, of which there must be three.

        Args:
            name: The quantity.
            kind: What the matrices are in the network.
            each: What the number of a matrix is multiplied by before, for its shape.
        """
        known = ((m, self.value(name, m)) for m in self.kinds[kind])
        values = [v * each(m) for m, v in known if v is not None]
        return median(values) if len(values) >= 3 else None

    def over_usual(
        self, name: str, matrix: Matrix, each: Callable[[Matrix], float] = lambda _: 1.0
    ) -> float:
        """How many times `usual` a matrix is; nan where either is unknown or zero."""
        usual, known = self.usual(name, matrix.kind, each), self.value(name, matrix)
        return known * each(matrix) / usual if usual and known else nan


def told(
    kind: Kind,
    severity: Severity,
    shown: Iterable[tuple[Matrix, Reading]],
    says: str,
    *remedies: str,
) -> Iterator[Finding]:
    """One finding for all matrices of which a rule speaks; the first shown is the worst."""
    found = list(shown)
    if not found:
        return
    sites = [matrix.site for matrix, _ in found]
    more = f" and {len(sites) - NAMED} more" if len(sites) > NAMED else ""
    evidence = tuple(reading for _, reading in found[:SHOWN])
    sentence = f"{', '.join(sites[:NAMED])}{more}: {says}"
    yield kind.finding(sites[0], severity, evidence, sentence, remedies)


def worst(found: Iterable[tuple[Matrix, Reading]]) -> list[tuple[Matrix, Reading]]:
    """The largest readings first."""
    return sorted(found, key=lambda pair: -pair[1].estimate.value)


# ------------------------------------------------------------------------------
# Rules over what is broken in the numbers of a checkpoint.


PLAIN = ("float64", "float32", "float16", "bfloat16")  # numbers that need no scale
LONG = 50.0  # a row over the median row: five times what layers of a trained MiniLM have
APART = 10.0  # size of a matrix over the median of its kind
DEAD = 0.01  # share of rows or columns
ENDS = ("embedding", "position embedding", "type embedding", "head")
TIED = ("embedding", "head")  # one weight by design, in many models of language


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
        "came there: look whether the optimizer holds it.",
    )
    yield from told(
        UNTRAINED_ADAPTER,
        "warning",
        [pair for pair in found if pair[0].form == "product"],
        "the product of the two factors is zero, as before the first step.",
        "See that the optimizer holds the adapter's parameters.",
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
    # the norm itself, and the root mean square of an entry, for heads of few rows are small, and
    # entries of narrow layers large, by design
    both = (lambda _: 1.0, lambda m: (m.rows * m.cols) ** -0.5)
    for matrix, reading in facts.of(q.FROBENIUS_NORM):
        ratios = [facts.over_usual(q.FROBENIUS_NORM, matrix, each) for each in both]
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


# ------------------------------------------------------------------------------
# Rules over what the singular values of a checkpoint are like.


ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-9, "float16": 2.0**-12}
POOR = 0.5  # share of full rank
NARROW = 0.1  # effective rank over that of the kind
TOP = 0.9  # of the largest singular value of the same entries with random signs
NEAR, SIZED = 0.02, 10.0  # distance from the law of noise up to which a spectrum is like it: the
# second over the smaller side, for that is how noise strays, sparse or with heavy tails too
THIN = 0.8  # of the numbers, which a factorisation has to save a fifth of
UNTOLD = "not trained, or what training added is spread too evenly to stick out"


COLLAPSED_RANK = Kind(
    "collapsed-rank",
    "the effective rank is a tenth of the median of the kind, or less, and so is its share of the "
    "smaller side",
    "Roy & Vetterli 2007",
)


@rule(q.EFFECTIVE_RANK, COLLAPSED_RANK)
def collapsed(facts: Facts) -> Iterator[Finding]:
    """Matrices that use a tenth of the directions that others of their kind use, in share too."""
    found = [
        (matrix, reading)
        for matrix, reading in facts.of(q.EFFECTIVE_RANK)
        # a score head of one row uses all the directions it has
        if facts.over_usual(q.EFFECTIVE_RANK, matrix) <= NARROW
        and facts.over_usual(q.EFFECTIVE_RANK, matrix, share) <= NARROW
    ]
    yield from told(
        COLLAPSED_RANK,
        "warning",
        worst(found)[::-1],
        "the effective rank is a tenth of the median of matrices of its kind or less, and so is "
        "its share of the smaller side.",
        "Look at what training did there: a rate too high for this layer, or weight decay on a "
        "layer that others do the work of.",
    )


def share(matrix: Matrix) -> float:
    """What one direction is of all that its shape allows."""
    return 1 / min(matrix.shape)


LOW_RANK = Kind(
    "low-rank",
    "the rank is surely at most half of what the shape allows; or so few singular values stick "
    "out, and the rest is no more than rounding to the format leaves",
    "Eckart & Young 1936",
)


@rule(q.MATRIX_RANK, LOW_RANK)
def deficient(facts: Facts) -> Iterator[Finding]:
    """Matrices of at most half the rank they could have."""
    found = [
        (m, r)
        for m, r in facts.of(q.MATRIX_RANK)
        if r.estimate.high <= POOR * min(m.shape) and m.form != "product" and min(m.shape) > 2
    ]
    known = {m.site for m, _ in found}
    levels = facts.readings.get(q.NOISE_LEVEL, {})
    for m, r in facts.of(q.SPIKES):  # whose bulk is no more than rounding to the format leaves
        norm, level = facts.value(q.FROBENIUS_NORM, m), levels.get(m.site)
        unit = ROUNDING.get(m.dtype)
        if norm and level and unit and r.estimate.value <= POOR * min(m.shape):
            rms = norm / math.sqrt(m.rows * m.cols)
            if level.estimate.high <= unit * rms and m.site not in known:
                found.append((m, r))
    yield from told(
        LOW_RANK,
        "note",
        sorted(found, key=lambda pair: pair[1].estimate.value / min(pair[0].shape)),
        "the rank is at most half of what the shape allows, to the precision of the numbers.",
        "Store them as two factors: nothing is lost.",
    )


NOISE_ONLY = Kind(
    "noise-only",
    "nothing sticks out of noise, and the bulk is within 0.02 + 10 / (smaller side) of the law of "
    "noise (where only leading values are known, the largest is 0.9 of that of random signs or "
    "more); a warning where that holds for nine tenths of all matrices",
    "Marchenko & Pastur 1967; Johnstone 2001",
)


@rule(q.SPIKES, NOISE_ONLY)
def noise_only(facts: Facts) -> Iterator[Finding]:
    """Matrices in which nothing sticks out of noise."""
    found = []
    for matrix, reading in facts.of(q.SPIKES):
        if reading.estimate.value != 0:
            continue
        apart = facts.value(q.NOISE_DISTANCE, matrix)
        if apart is not None:
            like = apart <= NEAR + SIZED / min(matrix.shape)
        else:  # the bulk is unknown: whether its top is as far as that of noise
            top, random = (facts.value(n, matrix) for n in (q.SPECTRAL_NORM, q.RANDOM_BASELINE))
            like = top is not None and random is not None and top >= TOP * random
        if like:
            found.append((matrix, reading))
    looked = len(facts.readings.get(q.SPIKES, {}))
    everywhere = bool(looked) and len(found) >= 0.9 * looked
    yield from told(
        NOISE_ONLY,
        "warning" if everywhere else "note",
        found,
        f"no singular value is larger than those of noise ({len(found)} of {looked} matrices)"
        + (": as before training." if everywhere else f": {UNTOLD}."),
        "See that these are trained weights, and that the optimizer held them. Where their start "
        "is kept, `sigmascope scan NOW --against START` tells whether they moved.",
    )


COMPRESSIBLE = Kind(
    "compressible",
    "two factors that are off by at most a tenth of the norm (Eckart & Young 1936) save a fifth "
    "of the numbers or more",
    "Eckart & Young 1936",
)


@rule(q.ENERGY_RANK, COMPRESSIBLE)
def compressible(facts: Facts) -> Iterator[Finding]:
    """Matrices of which two thin factors hold nearly everything."""
    found = []
    for matrix, reading in facts.of(q.ENERGY_RANK):
        m, n = matrix.shape
        if matrix.form != "product" and reading.estimate.high * (m + n) <= THIN * m * n:
            found.append((matrix, reading))
    saved = sum(m.rows * m.cols - r.estimate.high * (m.rows + m.cols) for m, r in found)
    total = sum(m.rows * m.cols for m in facts.scan.matrices)
    yield from told(
        COMPRESSIBLE,
        "note",
        sorted(
            found, key=lambda p: p[1].estimate.value * sum(p[0].shape) / (p[0].rows * p[0].cols)
        ),
        f"two factors of the energy rank are off by at most a tenth of the norm, and save "
        f"{saved / total if total else 0:.0%} of all numbers. What that does to outputs depends on "
        "the data.",
        "Measure it on data before believing it: `sigmascope compress MODEL --data DATA`.",
    )


COPIED_WEIGHTS = Kind(
    "copied-weights",
    "two matrices, or one and the transpose of the other, have a cosine of 0.99 or more, or of "
    "-0.99 or less; *exactly* is said where every entry is equal, and of others how many times as "
    "large one is; embeddings and heads that are equal are tied, and none",
    "Arithmetic",
)


@rule(q.COPY_COSINE, COPIED_WEIGHTS)
def copies(facts: Facts) -> Iterator[Finding]:
    """Matrices that are copies of others."""
    by_site = {m.site: m for m in facts.scan.matrices}
    # most formats write one weight of two names twice: of embeddings and heads that is usual
    tied = lambda r: (
        r.estimate.low == 1 and all(by_site[s].kind in TIED for s in r.site.split(" = "))
    )
    copied = (r for r in facts.scan.readings if r.quantity == q.COPY_COSINE)
    found = [r for r in copied if not tied(r)]
    found.sort(key=lambda r: -abs(r.estimate.value))
    pairs = [(by_site[r.site.split(" = ")[0]], r) for r in found]
    # a multiple is 1 up to rounding only
    same = sum(max(r.estimate.low, -r.estimate.high) >= 1 for r in found)
    # how each lies, where not as the first, and how many times as large the second is, where that
    # shows in three digits
    sizes, told_of = facts.readings.get(q.FROBENIUS_NORM, {}), []
    for r in found[:3]:
        words = ["transposed"] * (r.form == "turned")
        words += ["of the opposite sign"] * (r.estimate.high < 0)
        how = f" ({', '.join(words)})" if words else ""
        one, other = (sizes.get(name) for name in r.site.split(" = "))
        if one is not None and other is not None and one.estimate.value:
            factor = f"{other.estimate.value / one.estimate.value:.3g}"
            how += "" if factor == "1" else f" ({factor} times as large)"
        told_of.append(r.site + how)
    names = "; ".join(told_of)
    for finding in told(
        COPIED_WEIGHTS,
        "warning",
        pairs,
        "",
        "Layers that began as copies differ after training; where they should not be equal, "
        "look at how the checkpoint was put together.",
    ):
        exact = f"{same or 'none'} of them exactly"
        says = f"{len(found)} matrices are copies of others, {exact}: {names}."
        if len(found) == 1:
            says = f"1 matrix is a copy of another{', exactly' * same}: {names}."
        yield replace(finding, says=says)


# ------------------------------------------------------------------------------
# Rules over two versions of a checkpoint.


FAR = 10.0  # times the median change of all matrices
FEW_DIRECTIONS = 1 / 8  # of a difference, in which noise has two fifths of its energy at most
HIDDEN = 0.5  # of the energy, that rounding makes


UNMOVED_WEIGHTS = Kind(
    "unmoved-weights",
    "of two versions, not one bit differs",
    "Arithmetic",
)


@rule(q.RELATIVE_CHANGE, UNMOVED_WEIGHTS)
def unmoved(facts: Facts) -> Iterator[Finding]:
    """Matrices of which not one bit differs."""
    moved = facts.of(q.RELATIVE_CHANGE)
    still = [pair for pair in moved if pair[1].estimate.value == 0]
    yield from told(
        UNMOVED_WEIGHTS,
        "note",
        still,
        f"not one bit differs between the two versions ({len(still)} of {len(moved)} matrices).",
        "Frozen layers do not move; where training was meant, see that the optimizer holds them.",
    )


FAR_MOVED_WEIGHTS = Kind(
    "far-moved-weights",
    "of two versions, it moved ten times as far as the median",
    "Measured, docs/scan.md",
)


@rule(q.RELATIVE_CHANGE, FAR_MOVED_WEIGHTS)
def far_moved(facts: Facts) -> Iterator[Finding]:
    """Matrices that moved much farther than the others."""
    moved = facts.of(q.RELATIVE_CHANGE)
    values = [r.estimate.value for _, r in moved if r.estimate.value > 0]
    usual = median(values) if len(values) >= 3 else 0.0
    yield from told(
        FAR_MOVED_WEIGHTS,
        "warning",
        worst(pair for pair in moved if usual and pair[1].estimate.value >= FAR * usual),
        f"moved {FAR:g} times as far as the median matrix, or farther.",
        "Look whether that is meant: a new head moves far, an attention matrix seldom.",
    )


LOW_RANK_CHANGE = Kind(
    "low-rank-change",
    "of two versions, an eighth of the directions at most is left of the difference once what "
    "rounding to the format makes is taken off, which is half of its squared norm or less",
    "Hu et al. 2022, Sec. 4.1",
)
CHANGE_WITHIN_ROUNDING = Kind(
    "change-within-rounding",
    "of two versions, rounding to the format makes half of the difference's squared norm or more",
    "IEEE 754",
)


@rule(q.CHANGE_RANK, LOW_RANK_CHANGE, CHANGE_WITHIN_ROUNDING)
def few_directions(facts: Facts) -> Iterator[Finding]:
    """Changes of low rank, as of a merged adapter, and changes that rounding hides."""
    rounded = facts.of(q.CHANGE_BY_ROUNDING)
    hidden = [(m, r) for m, r in rounded if r.estimate.high >= HIDDEN]
    sites = {m.site for m, _ in hidden}
    low = [
        (m, r)
        for m, r in facts.of(q.CHANGE_RANK)
        if m.site not in sites and 0 < r.estimate.high <= FEW_DIRECTIONS * min(m.shape)
    ]
    ranks = [round(r.estimate.value) for _, r in low]
    ends = f"{min(ranks)} to {max(ranks)}" if len({*ranks}) > 1 else f"{max(ranks, default=0)}"
    yield from told(
        LOW_RANK_CHANGE,
        "note",
        worst(low),
        f"the change has rank {ends}, to the precision of the numbers: a low-rank adapter that was "
        "merged looks so.",
        "Keep the change as two factors: nothing is lost.",
    )
    yield from told(
        CHANGE_WITHIN_ROUNDING,
        "note",
        worst(hidden),
        "half of the change or more is what rounding to the format of the file makes: how the rest "
        "is spread over directions does not show.",
        "Compare copies in float32, as the optimizer holds them.",
    )


INTRUDER_DIRECTIONS = Kind(
    "intruder-directions",
    "of two versions, leading directions of the second are beyond doubt none of the first",
    "Shuttleworth et al. 2024, Sec. 3",
)


@rule(q.INTRUDERS, INTRUDER_DIRECTIONS)
def intruders(facts: Facts) -> Iterator[Finding]:
    """Leading directions that fine-tuning wrote over those of before."""
    yield from told(
        INTRUDER_DIRECTIONS,
        "note",
        worst((m, r) for m, r in facts.of(q.INTRUDERS) if r.estimate.low > 0),
        "leading directions of the second version are none of the first: training wrote over the "
        "spectrum there; a model that was fine-tuned forgets more.",
        "If the first is what was fine-tuned, take a lower rate or fewer steps; with an adapter, a "
        "higher rank or full fine-tuning.",
    )


# ------------------------------------------------------------------------------
# Every rule over a checkpoint, listed by hand, and what they say together.


RULES: tuple[Rule[Facts], ...] = (
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
    unmoved,
    far_moved,
    few_directions,
    intruders,
)
KINDS = kinds_of(RULES)


def scan_findings(scan: Scan) -> tuple[Finding, ...]:
    """What the numbers of a scan mean, in words, errors first.

    Args:
        scan: Of one checkpoint, or of two held against each other.

    Returns:
        One finding for each rule that speaks, over all matrices of which it does.
    """
    facts = Facts(scan)
    order = ("error", "warning", "note")
    found = [f for rule in RULES for f in rule(facts)]
    return tuple(sorted(found, key=lambda f: order.index(f.severity)))
