import math

import numpy as np
import pytest

from sigmascope.records import Estimate
from sigmascope.watching.comparing import (
    Key,
    Trajectory,
    on_common_steps,
    scaled,
    trajectories,
)

LOSS = Key("(loss)", "watch", "", "loss")


def row(step, value, site="fc", quantity="update ratio"):
    return (step, "time", site, "watch", "", quantity, value, value - 1, value + 1, "gram", 0.0)


def line(steps, values=None):
    steps = np.array(steps, float)
    values = steps if values is None else np.array(values, float)
    return Trajectory(steps, np.stack([values] * 3), (("exact", 0.0),) * len(steps))


def test_of_a_reading_that_was_filed_again_the_last_counts():
    found = trajectories([row(0, 1.0), row(5, 2.0), row(9, 3.0), row(5, 7.0)])
    (key,) = found
    assert key == Key("fc", "watch", "", "update ratio")
    assert found[key].steps.tolist() == [0, 5, 9]
    assert found[key].estimate(1) == Estimate(7.0, 6.0, 8.0, "gram", 0.0)


def test_steps_in_common_are_enough_where_there_are_many_or_all_of_one():
    a, b, interpolated = on_common_steps(line(range(40)), line(range(0, 80, 2)))
    assert a.steps.tolist() == b.steps.tolist() == [*range(0, 40, 2)]
    assert not interpolated
    a, b, interpolated = on_common_steps(line([0, 5]), line(range(100)))
    assert (b.steps.tolist(), interpolated) == ([0, 5], False)


def test_without_steps_in_common_the_second_is_interpolated_within_its_own():
    a, b, interpolated = on_common_steps(line(range(0, 50, 2)), line(range(11, 31, 5)))
    assert interpolated
    assert a.steps.tolist() == [12, 14, 16, 18, 20, 22, 24, 26]
    assert b.numbers[0].tolist() == pytest.approx(a.steps.tolist())
    assert b.estimate(0).how == "interpolated"


def test_runs_that_do_not_overlap_have_no_common_steps():
    a, _, _ = on_common_steps(line(range(5)), line(range(50, 70)))
    assert a.steps.tolist() == []


def test_quantities_of_many_decades_go_by_their_logarithms_where_all_are_positive():
    (numbers,) = scaled(LOSS, line([1, 2], [1.0, math.e]))
    assert numbers[0].tolist() == pytest.approx([0, 1])
    (numbers,) = scaled(LOSS, line([1, 2], [-1.0, 2.0]))
    assert numbers[0].tolist() == [-1, 2]
    (numbers,) = scaled(LOSS._replace(quantity="dead units"), line([1, 2], [0.5, 0.7]))
    assert numbers[0].tolist() == [0.5, 0.7]
