"""The exponent of width: its interval, and when nothing is told."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from sigmascope.core.records import Estimate
from sigmascope.diagnosis.scaling import power_law
from sigmascope.diagnosis.scaling.exponents import (
    HALVES,
    INVERSE,
    ROOT,
    UNLIKELY,
    USUAL,
    ScalingLaw,
)

WIDTHS = (64, 128, 256, 512)


def readings(exponent, generator, *, widths=WIDTHS, seeds=3, noise=0.05, root=0.0, inverse=0.0):
    """`n^b` with what finite width adds, and noise."""
    ratio = {w: w / widths[0] for w in widths}
    level = {w: exponent * math.log(r) + root * r**-0.5 + inverse / r for w, r in ratio.items()}
    return {w: np.exp(m + noise * generator.standard_normal(seeds)) for w, m in level.items()}


@given(
    st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]),
    st.floats(1e-12, 1e12),
    st.integers(0, 2**20),
)
@settings(max_examples=60, deadline=None)
def test_a_power_is_found_whatever_the_unit(exponent, unit, seed):
    some = readings(exponent, np.random.default_rng(seed), noise=1e-3)
    law = power_law({w: unit * v for w, v in some.items()})
    assert law.nearest == exponent
    assert law.is_sure("stays" if exponent == 0 else "grows" if exponent > 0 else "falls")
    assert law.falls + law.stays + law.grows == pytest.approx(1)
    assert law.fits


def test_intervals_hold_the_exponent_where_finite_width_and_seeds_disturb_it():
    g = np.random.default_rng(0)
    held = wrong = 0
    for _ in range(400):
        exponent = float(g.choice([-1.0, -0.5, 0.0, 0.5, 1.0]))
        noise = float(g.choice([0.02, 0.05, 0.15]))
        more = {"root": 0.3 * g.standard_normal(), "inverse": 0.5 * g.standard_normal()}
        law = power_law(readings(exponent, g, noise=noise, **more))
        held += law.exponent.low <= exponent <= law.exponent.high
        sides = ("falls", "stays", "grows")
        wrong += any(law.is_sure(s) for s in sides if s != sides[1 + int(np.sign(exponent))])
    assert held >= 0.93 * 400
    assert wrong <= 0.03 * 400


def test_a_false_exponent_is_excluded():
    law = power_law(readings(0.5, np.random.default_rng(1), noise=0.02))
    assert not law.exponent.low <= 0 <= law.exponent.high
    assert not law.exponent.low <= 1 <= law.exponent.high
    assert law.stays < 0.01


def test_fewer_widths_smaller_ones_and_more_noise_tell_less():
    reach = lambda law: law.exponent.high - law.exponent.low
    g = np.random.default_rng(2)
    usual = power_law(readings(0.5, g))
    assert reach(power_law(readings(0.5, g, widths=(64, 128)))) > 2 * reach(usual)
    assert reach(power_law(readings(0.5, g, widths=(8, 16, 32, 64)))) > reach(usual)
    assert reach(power_law(readings(0.5, g, noise=0.5))) > 2 * reach(usual)
    assert reach(power_law(readings(0.5, g, seeds=12))) < reach(usual)
    small = power_law(readings(0.5, g, widths=(8, 16)))
    assert not any(small.is_sure(side) for side in ("falls", "stays", "grows"))


def test_what_is_no_power_of_width_says_so():
    up_and_down = lambda by: power_law(
        {w: [v, v * 1.02, v * 0.98] for w, v in zip(WIDTHS, (1.0, by, 1.0, by), strict=True)}
    )
    assert not up_and_down(30.0).fits
    assert not up_and_down(1.6).fits
    assert up_and_down(1.02).fits  # as far as seeds stray


@pytest.mark.parametrize(
    "bad", [{}, {64: [1.0]}, {64: [1.0], 128: [0.0]}, {64: [1.0], 128: [math.nan]}]
)
def test_without_two_widths_or_positive_numbers_there_is_none(bad):
    assert power_law(bad) is None


# ------------------------------------------------------------------------------
# The same by another way: what finite width adds are unknowns of size one beside the exponent, and
# all of them are found by least squares.


def by_least_squares(some, paired=False):
    """Noise, exponent, its standard error, degrees of freedom, and the least sum of squares."""
    logs = {w: np.log(np.asarray(v)) for w, v in sorted(some.items())}
    free = sum(len(v) - 1 for v in logs.values())
    rests = [v - v.mean() for v in logs.values()]
    if paired:  # an analysis of variance in two ways
        free -= len(rests[0]) - 1
        rests = np.stack(rests)
        rests = rests - rests.mean(0)
    squares = sum((r**2).sum() for r in rests)
    noise = math.sqrt(squares / free) if free else 0.1
    widths = np.array([*logs], dtype=float)
    larger = max(USUAL / widths[0], 1.0)
    rows = [
        np.array([1.0, math.log(w), ROOT * (w / widths[0] / larger) ** -0.5,
                  INVERSE * larger / (w / widths[0])]) / (noise / math.sqrt(len(v)))
        for w, v in logs.items()
    ]  # fmt: skip
    wanted = [v.mean() / (noise / math.sqrt(len(v))) for v in logs.values()]
    X = np.stack([*rows, np.array([0, 0, 1.0, 0]), np.array([0, 0, 0, 1.0])])
    y = np.array([*wanted, 0.0, 0.0])
    found = np.linalg.lstsq(X, y, rcond=None)[0]
    error = math.sqrt(np.linalg.inv(X.T @ X)[1, 1])
    return noise, found[1], error, max(free, 1), float(((y - X @ found) ** 2).sum())


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("widths", [WIDTHS, (16, 64, 96), (10, 30), (128, 256)])
def test_numbers_are_those_of_least_squares_and_of_students_law(widths, seeds, paired):
    some = readings(0.3, np.random.default_rng(seeds), widths=widths, seeds=seeds, noise=0.1)
    if paired and seeds > 1:  # what a seed drew is in its readings at every width
        shift = np.exp(np.random.default_rng(7).standard_normal(seeds))
        some = {w: v * shift for w, v in some.items()}
    law = power_law(some, paired=paired)
    noise, b, error, free, _ = by_least_squares(some, paired=paired and seeds > 1)
    assert law.noise == pytest.approx(noise)
    assert law.exponent.value == pytest.approx(b)
    ends = stats.t.interval(0.95, free, b, error)
    assert (law.exponent.low, law.exponent.high) == pytest.approx(ends)
    assert law.exponent.risk == pytest.approx(0.05)
    chance = stats.t.pdf((HALVES - b) / error, free)
    shares = [chance[side].sum() / chance.sum() for side in (HALVES < 0, HALVES == 0, HALVES > 0)]
    assert (law.falls, law.stays, law.grows) == pytest.approx(shares)
    assert law.nearest == HALVES[chance.argmax()]
    assert law.seeds == seeds


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("widths", [WIDTHS[:3], WIDTHS])
def test_what_is_no_power_is_told_by_the_rest_of_the_fit(widths, seeds):
    g, told = np.random.default_rng(0), []
    strays = {w: np.exp(0.1 * g.standard_normal(seeds)) for w in widths}
    for size in np.linspace(0, 3, 150):
        some = {w: strays[w] * math.exp((-1) ** i * size) for i, w in enumerate(widths)}
        *_, free, rest = by_least_squares(some)
        t = math.sqrt(rest / (len(widths) - 2))
        fits = stats.t.pdf(t, free) / stats.t.pdf(0, free) > UNLIKELY
        assert power_law(some).fits == fits
        told.append(fits)
    assert told[0]
    assert not told[-1]


def test_two_widths_lie_on_a_line_and_the_fewest_seeds_are_told():
    law = power_law({64: [1.0, 1.01, 0.99], 128: [9.0, 9.1]})
    assert law.fits
    assert law.seeds == 2


@pytest.mark.parametrize(
    ("reach", "noise", "seeds", "says"),
    [(0.4, 0.05, 1, "more seeds than one"), (0.4, 0.05, 2, "4 times the seeds"),
     (0.5, 0.05, 3, "7 times the seeds"), (0.4, 0.01, 3, "larger depths"),
     (0.19, 0.05, 3, "larger depths"), (0.9, 0.05, 3, "larger depths"),
     (0.21, 0.05, 3, "2 times the seeds"), (0.79, 0.05, 3, "16 times the seeds")],
)  # fmt: skip
def test_how_many_seeds_would_tell_is_the_square_of_how_much_narrower_they_must_make_it(
    reach, noise, seeds, says
):
    exponent = Estimate(0.1, 0.1 - reach, 0.1 + reach, "told")
    law = ScalingLaw(exponent, 0.3, 0.4, 0.3, 0.0, True, noise, seeds)
    assert law.would_tell("depth") == f"{says} would tell"


def test_what_accuses_must_be_surer_than_what_does_not():
    exponent = Estimate.exactly(0.0)
    law = lambda *shares: ScalingLaw(exponent, *shares, 0.0, True, 0.1, 3)
    assert law(0.0, 0.93, 0.07).is_sure("stays")
    assert not law(0.93, 0.07, 0.0).is_sure("falls")
    assert not law(0.0, 0.07, 0.93).is_sure("grows")
    assert law(0.97, 0.03, 0.0).is_sure("falls")
