import pytest
from hypothesis import given, strategies as st

from sigmascope.report.console import shortened


@given(st.text(), st.integers(3, 50))
def test_a_name_is_never_longer_than_its_room_and_keeps_its_ends(name, width):
    short = shortened(name, width)
    assert len(short) <= width
    assert short[0:1] == name[0:1]
    assert short == name or (short[-1] == name[-1] and "…" in short)


@pytest.mark.parametrize("name", ["", "fc", "blocks.11.query"])
def test_a_name_that_fits_is_left_alone(name):
    assert shortened(name, 15) == name
