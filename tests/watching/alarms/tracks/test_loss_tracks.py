"""The loss at every step."""

import math
import random

import pytest

from sigmascope.watching.alarms.tracks import LossTrack


def fed(losses):
    track = LossTrack()
    for loss in losses:
        track.add(loss)
    return track


def noisy(level, count, scatter, seed=0):
    draw = random.Random(seed)
    return [level * math.exp(scatter * draw.gauss(0, 1)) for _ in range(count)]


@pytest.mark.parametrize("level", [5.0, -3.0])
def test_a_rise_leaves_what_is_usual_within_some_steps(level):
    calm = [level + 0.1 * math.sin(k) for k in range(100)]
    assert fed(calm).excess < 0.5
    assert fed([*calm, *[level + 4.0] * 3]).excess > 1


@pytest.mark.parametrize(("at", "speed"), [(60, 10), (100, 10), (100, 25), (200, 25), (200, 60)])
def test_learning_that_is_lost_early_is_a_rise(at, speed):
    """While the loss falls its fall is no scatter, behind which a fault could hide."""
    for seed in range(10):
        noise = noisy(1.0, at + 10, 0.1, seed)
        track = LossTrack()
        for k in range(at):
            track.add(2.3 * math.exp(-k / speed) * noise[k] + 0.02 * noise[-k - 1])
            assert track.excess <= 1
        for k in range(10):
            track.add(2.3 * noise[at + k])
        assert track.excess > 1


def test_scattered_losses_of_batches_are_usual():
    for seed in range(20):
        track = LossTrack()
        for loss in noisy(0.05, 2000, 0.6, seed):
            track.add(loss)
            assert track.excess <= 1


def test_a_loss_that_falls_by_orders_of_magnitude_is_usual():
    track = LossTrack()
    for k in range(1000):
        track.add(2.3 * math.exp(-k / 100) * (1 + 0.3 * math.sin(k)))
        assert track.excess < 1


def test_one_bad_batch_among_thousands_is_no_rise():
    calm = noisy(1.0, 300, 0.1)
    assert fed([*calm, 1.6, *calm[:3]]).excess < 1


def test_what_is_not_a_number_shows_at_once():
    track = fed([1.0] * 50 + [math.nan])
    assert not track.finite
    assert track.hints
    assert track.rises


def test_a_new_level_becomes_usual():
    assert abs(fed([1.0] * 100 + [3.0] * 500).excess) < 0.5


@pytest.mark.parametrize("size", [2.0, 10.0, 1e3, 1e6])
def test_a_jump_of_any_size_is_a_rise_within_three_steps(size):
    calm = [1.0 + 0.1 * math.sin(k) for k in range(100)]
    assert fed([*calm, *[size] * 3]).excess > 1


def test_losses_that_stand_for_several_steps_lead_to_the_same_usual_loss():
    losses = [0.5 + 2 * math.exp(-k / 40) for k in range(400)]
    every, some = fed(losses), fed(losses[:100])
    for loss in losses[100::8]:
        some.add(loss, 8)
    assert some.slow == pytest.approx(every.slow, rel=0.02)
    assert fed(losses[:100] + losses[100::8]).slow > 1.05 * every.slow
