"""What is usual of a quantity."""

import math

import pytest
from hypothesis import given, strategies as st

from sigmascope.watching.alarms.tracks import KEPT, SETTLED, YOUNG, Track, Tracks
from sigmascope.watching.sinks import Column


def fed(values, kind="log"):
    track = Track(kind)
    for step, value in enumerate(values, 1):
        track.add(step, value)
    return track


def test_logarithms_are_followed_of_what_spans_orders_of_magnitude():
    track = fed([1.0, 100.0] * 10)
    assert track.at_first == pytest.approx(10.0)
    assert track.value == pytest.approx(100.0)


def test_what_strays_far_is_not_taken_into_what_is_usual():
    calm = [1.0, 1.1] * 20
    track = fed([*calm, 50.0, 60.0])
    assert track.level == pytest.approx(fed(calm).level)
    assert track.score > 10
    assert track.moved == 41


def test_what_stays_far_becomes_usual():
    track = fed([1.0, 1.1] * 20 + [50.0] * (SETTLED + 5))
    assert math.exp(track.level) == pytest.approx(50.0, rel=0.1)
    assert abs(track.score) < 2
    assert track.moved is None


def test_a_young_track_has_no_score():
    assert fed([1.0] * (YOUNG - 1) + [1e6]).score == 0


def test_what_is_not_a_number_has_no_last_reading():
    assert fed([1.0, math.nan]).last is None
    assert fed([1.0, math.inf]).last is None


def test_growth_is_told_only_where_every_reading_is_larger():
    track = fed([math.exp(0.5 * k) for k in range(6)])
    assert track.growth(5) == (pytest.approx(0.5), pytest.approx(2.0))
    assert fed([1.0, 2.0, 1.9, 3.0, 4.0]).growth(5) is None
    assert fed([1.0, 2.0]).growth(5) is None


@given(st.lists(st.floats(0, 1e30), max_size=200))
def test_memory_does_not_grow_and_nothing_breaks(values):
    track = fed(values)
    assert len(track.recent) <= KEPT
    assert math.isfinite(track.level + track.usual + track.score)


def test_tracks_are_by_quantity_form_and_site():
    tracks = Tracks()
    tracks.add(1, [Column("dead units", ["a", "b"], [0.1, 0.2])])
    tracks.add(1, [Column("saturated share", ["a"], [0.5], form="Tanh")])
    assert {site: t.value for site, t in tracks.of("dead units").items()} == {"a": 0.1, "b": 0.2}
    assert [form for form, _ in tracks.forms("saturated share")] == ["Tanh"]
    assert tracks.one("dead units", "c") is None


def test_at_first_the_level_is_the_mean_of_what_was_read():
    assert fed([1.0, math.exp(2.0)]).level == pytest.approx(1.0)
    assert fed([1.0, math.exp(1.0), math.exp(5.0)]).level == pytest.approx(2.0)
