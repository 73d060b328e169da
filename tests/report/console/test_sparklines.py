import math

from hypothesis import given, strategies as st

from sigmascope.report.console import spans_decades, sparkline

numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@given(st.lists(numbers, max_size=300), st.integers(1, 80))
def test_a_sparkline_is_as_long_as_its_values_or_its_width(values, width):
    assert len(sparkline(values, width=width)) == min(len(values), width)


def test_decades_are_drawn_on_a_log_scale():
    assert sparkline([10.0**-i for i in range(8)], width=8) == "█▇▆▅▄▃▂▁"
    assert spans_decades([1e-9, 1.0])
    assert spans_decades([30.0, 1.0])  # thirty times the least, and not less
    assert not any(map(spans_decades, ([29.99, 1.0], [0.0, 1.0], [])))


def test_equal_values_are_a_line():
    assert sparkline([5.0, 5.0, 5.0], width=9) == "▄▄▄"


def test_what_was_not_measured_is_a_gap():
    assert sparkline([1.0, None, None, 2.0], width=9) == "▁  █"
    assert sparkline([1.0, None, None, 2.0], width=2) == "▁█"
    assert sparkline([None, None], width=9) == "  "


def test_what_is_not_finite_is_never_averaged_away():
    assert sparkline([1.0, math.inf, 2.0], width=9) == "▁!█"
    assert "!" in sparkline([*([1.0] * 100), math.nan, *([1.0] * 100)], width=10)
    assert sparkline([math.inf], width=3) == "!"
