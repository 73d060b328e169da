"""Rules over what the singular values of a checkpoint are like."""

import math
from collections.abc import Iterator
from dataclasses import replace

from sigmascope import quantities as q
from sigmascope.diagnosis.checkpoints.facts import Facts, told, worst
from sigmascope.records import Finding, Kind, Reading, rule
from sigmascope.records.scans import Matrix

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
    found += [pair for pair in _rounded(facts) if pair[0].site not in known]
    yield from told(
        LOW_RANK,
        "note",
        sorted(found, key=lambda pair: pair[1].estimate.value / min(pair[0].shape)),
        "the rank is at most half of what the shape allows, to the precision of the numbers.",
        "Store them as two factors: nothing is lost.",
    )


def _rounded(facts: Facts) -> Iterator[tuple[Matrix, Reading]]:
    """Matrices whose bulk is no more than what rounding to their format leaves."""
    levels = facts.readings.get(q.NOISE_LEVEL, {})
    for matrix, reading in facts.of(q.SPIKES):
        norm, level = facts.value(q.FROBENIUS_NORM, matrix), levels.get(matrix.site)
        unit = ROUNDING.get(matrix.dtype)
        if norm and level and unit and reading.estimate.value <= POOR * min(matrix.shape):
            rms = norm / math.sqrt(matrix.rows * matrix.cols)
            if level.estimate.high <= unit * rms:
                yield matrix, reading


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
        if reading.estimate.value == 0 and _like_noise(facts, matrix):
            found.append((matrix, reading))
    looked = len(facts.readings.get(q.SPIKES, {}))
    everywhere = bool(looked) and len(found) >= 0.9 * looked
    yield from told(
        NOISE_ONLY,
        "warning" if everywhere else "note",
        found,
        f"no singular value is larger than those of noise ({len(found)} of {looked} matrices)"
        + (": as before training." if everywhere else f": {UNTOLD}."),
        "See that these are trained weights, and that the optimiser held them. Where their start "
        "is kept, `sigmascope scan NOW --against START` tells whether they moved.",
    )


def _like_noise(facts: Facts, matrix: Matrix) -> bool:
    """Whether the bulk follows the law of noise; where it is unknown, whether its top is as far."""
    apart = facts.value(q.NOISE_DISTANCE, matrix)
    if apart is not None:
        return apart <= NEAR + SIZED / min(matrix.shape)
    top, random = (facts.value(name, matrix) for name in (q.SPECTRAL_NORM, q.RANDOM_BASELINE))
    return top is not None and random is not None and top >= TOP * random


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
    "large one is",
    "Arithmetic",
)


@rule(q.COPY_COSINE, COPIED_WEIGHTS)
def copies(facts: Facts) -> Iterator[Finding]:
    """Matrices that are copies of others."""
    found = [r for r in facts.scan.readings if r.quantity == q.COPY_COSINE]
    by_site = {m.site: m for m in facts.scan.matrices}
    found.sort(key=lambda r: -abs(r.estimate.value))
    pairs = [(by_site[r.site.split(" = ")[0]], r) for r in found]
    # a multiple is 1 up to rounding only
    same = sum(max(r.estimate.low, -r.estimate.high) >= 1 for r in found)
    for finding in told(
        COPIED_WEIGHTS,
        "warning",
        pairs,
        "",
        "Layers that began as copies differ after training; where they should not be equal, "
        "look at how the checkpoint was put together.",
    ):
        names = "; ".join(r.site + _how(r) + _factor(facts, r.site) for r in found[:3])
        exact = f"{same or 'none'} of them exactly"
        says = f"{len(found)} matrices are copies of others, {exact}: {names}."
        if len(found) == 1:
            says = f"1 matrix is a copy of another{', exactly' * same}: {names}."
        yield replace(finding, says=says)


def _how(reading: Reading) -> str:
    """How a copy lies, where not as the first."""
    words = ["transposed"] * (reading.form == "turned")
    words += ["of the opposite sign"] * (reading.estimate.high < 0)
    return f" ({', '.join(words)})" if words else ""


def _factor(facts: Facts, site: str) -> str:
    """How many times as large the second of a pair is, where that shows in three digits."""
    sizes = facts.readings.get(q.FROBENIUS_NORM, {})
    one, other = (sizes.get(name) for name in site.split(" = "))
    if one is None or other is None or not one.estimate.value:
        return ""
    factor = f"{other.estimate.value / one.estimate.value:.3g}"
    return "" if factor == "1" else f" ({factor} times as large)"
