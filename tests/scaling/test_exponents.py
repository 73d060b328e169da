"""The exponent of width: its interval, and when nothing is told."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sigmascope.scaling import power_law

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
