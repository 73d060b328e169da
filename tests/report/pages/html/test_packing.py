import base64
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.core.records import Estimate
from sigmascope.report.pages import packed, packed_places, packed_spectrum, places, shared

POINTS, STEPS = 96, 65534


def array(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def unpacked(found, count):
    """Value, low, high, as the page reads them."""
    value = array(found["value"], "<f4").astype(float)
    gaps = np.zeros((2, count))
    if "gaps" in found:
        bits = array(found["gaps"], "<u2").astype("<u4") << 16
        gaps = bits.view("<f4").astype(float).reshape(2, count)
    three = zip(value.tolist(), *gaps.tolist(), strict=True)
    rows = [(v, v - a, v + b) for v, a, b in three]
    for i, row in found.get("odd", {}).items():
        rows[int(i)] = tuple(map(float, row))
    return rows


def test_exact_numbers_need_no_gaps_and_what_is_missing_is_nan():
    found = packed([Estimate.exactly(0.1), None, Estimate.rounded(7.0, ulps=4)])
    assert set(found) == {"value"}
    (first, *_), (missing, *_), (last, *_) = unpacked(found, 3)
    assert first == pytest.approx(0.1, rel=1e-7)
    assert math.isnan(missing)
    assert last == 7.0


sizes = st.floats(0, 1e300, allow_subnormal=False)


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), sizes, sizes), min_size=1, max_size=6))
def test_no_interval_is_narrower_than_the_one_measured(rows):
    estimates = [Estimate(v, v - a, v + b, "made up") for v, a, b in rows]
    found = packed(estimates)
    for e, (value, low, high) in zip(estimates, unpacked(found, len(rows)), strict=True):
        slack = 2.0**-22 * abs(e.value)  # of a column whose ends go without saying
        assert low - slack <= e.low
        assert high + slack >= e.high
        assert value == pytest.approx(e.value, rel=1e-6)


def test_intervals_are_hardly_wider():
    (row,) = unpacked(packed([Estimate(3.0, 2.9, 3.3, "made up")]), 1)
    assert row == pytest.approx((3.0, 2.9, 3.3), rel=1e-3)


def test_numbers_that_float32_does_not_hold_stand_by_themselves():
    huge = Estimate(1e300, 1e299, math.inf, "overflown")
    infinite, tiny = Estimate.exactly(math.inf), Estimate.exactly(1e-200)
    found = packed([Estimate.exactly(1.0), huge, infinite, tiny])
    rows = unpacked(found, 4)
    assert rows[1] == (1e300, 1e299, math.inf)
    assert rows[2] == (math.inf,) * 3
    assert rows[3] == (1e-200,) * 3


def test_an_end_that_is_not_known_is_infinite():
    ((_, low, high),) = unpacked(packed([Estimate(1.0, -math.inf, math.inf, "free")]), 1)
    assert (low, high) == (-math.inf, math.inf)


def test_a_spectrum_is_kept_to_four_digits_with_its_zeros():
    sigma = torch.logspace(2, -6, 60, dtype=torch.float64)
    sigma[-3:] = 0
    raw = base64.b64decode(packed_spectrum(sigma))
    top, span = np.frombuffer(raw[:16], "<f8")
    steps = np.frombuffer(raw[16:], "<u2").astype(float)
    read = np.where(steps == 0, 0, top * np.exp(((steps - 1) / STEPS - 1) * span))
    np.testing.assert_allclose(read, sigma, rtol=2e-4)
    assert read[[0, 56]].tolist() == pytest.approx(sigma[[0, 56]].tolist(), rel=1e-14)


def test_no_size_is_too_large_or_too_small_for_a_spectrum():
    for top in (1e300, 1e-300):
        sigma = torch.tensor([top, top / 2, top / 8], dtype=torch.float64)
        raw = base64.b64decode(packed_spectrum(sigma))
        assert np.frombuffer(raw[:16], "<f8").tolist() == pytest.approx([top, math.log(8)])


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [math.inf, 1.0]])
def test_what_has_no_scale_is_not_drawn(values):
    assert packed_spectrum(torch.tensor(values, dtype=torch.float64)) is None


def test_one_value_is_a_spectrum():
    assert packed_spectrum(torch.tensor([2.0], dtype=torch.float64)) is not None


@pytest.mark.parametrize("count", [1, POINTS, POINTS + 1, 1000, 50257])
def test_places_are_the_leading_and_an_even_choice_of_the_rest(count):
    found = places(count)
    assert len(found) == min(count, POINTS)
    assert found[-1] == count - 1
    assert (np.diff(found) > 0).all()


def test_as_many_places_are_kept_as_are_wanted():
    assert len(places(1000, 200)) == 200
    assert places(1000, 200)[[0, 31, -1]].tolist() == [0, 31, 999]


def test_values_that_many_share_stand_once():
    found = shared(["b", "a", "b", "b"])
    assert found["words"] == ["b", "a"]
    assert array(found["at"], "<u2").tolist() == [0, 1, 0, 0]


def test_a_value_that_all_share_needs_no_places():
    assert shared(["b", "b", "b"]) == {"words": ["b"], "at": ""}
    assert shared([]) == {"words": [], "at": ""}


def test_places_in_a_list_take_as_many_bytes_as_they_need():
    assert array(packed_places([0, 65535]), "<u2").tolist() == [0, 65535]
    assert array(packed_places([0, 65536]), "<u4").tolist() == [0, 65536]


@pytest.mark.parametrize("value", [2.9e38, 3.1e38, 3.5e38, 5e38, 2e-37, 1e-38, 1e-40, 3e-46, -4e38])
def test_no_size_loses_its_digits(value):
    ((read, low, high),) = unpacked(packed([Estimate(value, -1e300, 1e300, "made up")]), 1)
    assert read == pytest.approx(value, rel=1e-6, abs=0)
    assert low <= -1e300
    assert high >= 1e300


def test_the_leading_values_are_kept_one_by_one_and_the_rest_evenly():
    found = places(1000)
    assert found[:33].tolist() == [*range(33)]
    steps = np.diff(found[32:])
    assert steps.min() > 1
    assert steps.max() - steps.min() <= 1


@pytest.mark.parametrize("share", [0.0, 2.0**-24, 2.0**-18])
def test_gaps_go_without_saying_where_they_are_rounding(share):
    wide = [Estimate(v, v * (1 - share), v * (1 + share), "made up") for v in (1.0, 4.0)]
    assert ("gaps" in packed(wide)) is (share > 2.0**-22)
