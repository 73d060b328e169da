"""The learning rate at every step."""

import math

import pytest

from sigmascope.watching.alarms.tracks import RateTrack

SCHEDULES = {
    "warm-up and cosine": lambda k: min(k / 100, 1) * (1 + math.cos(math.pi * k / 1000)),
    "one cycle": lambda k: 0.04 + math.sin(math.pi * min(k / 300, 1) / 2) - max(0, k - 300) / 800,
    "steps": lambda k: 0.1 ** (k // 250),
    "warm restarts": lambda k: 1 + math.cos(math.pi * (k % 200) / 200),
    "cyclic": lambda k: 0.1 + 0.9 * abs((k / 100) % 2 - 1),
    "constant": lambda k: 1.0,
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_usual_schedules_do_not_jump(name):
    track = RateTrack()
    for k in range(1, 1001):
        track.add(SCHEDULES[name](k))
        assert not track.jumped
        assert not track.dropped


def test_a_rate_that_falls_to_nothing_at_once_has_dropped_until_it_is_back():
    track = RateTrack()
    track.add(0.1)
    track.add(0.0)
    track.add(0.0)
    assert track.dropped
    track.add(0.1)
    assert not track.dropped


def test_a_rate_far_above_its_plateau_has_jumped_until_it_is_back():
    track = RateTrack()
    for _ in range(100):
        track.add(0.1)
    track.add(1.0)
    assert track.jumped
    track.add(0.1)
    assert not track.jumped


def test_a_rate_that_grows_from_a_plateau_has_jumped_when_it_is_three_times_as_high():
    track = RateTrack()
    for _ in range(100):
        track.add(1.0)
    steps = next(k for k in range(1, 100) if track.add(1.1**k) or track.jumped)
    assert 1.1**steps > 3 >= 1.1 ** (steps - 1)
