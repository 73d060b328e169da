"""Means of losses over blocks of steps."""

import math

from sigmascope.watching.steps import BLOCKS, LossMeans, block


def test_every_octave_has_as_many_blocks_and_each_is_as_wide_as_the_others():
    ends = sorted({block(step) for step in range(1, 4097)})
    assert ends[: 2 * BLOCKS - 1] == [*range(1, 2 * BLOCKS)]
    for power in range(5, 12):
        low, high = 2**power, 2 ** (power + 1)
        assert len([e for e in ends if low < e <= high]) == BLOCKS
    assert all(block(end) == end for end in ends)


def test_a_mean_is_given_once_its_block_is_over():
    means = LossMeans()
    for step in range(64, 70):
        means.add(step, float(step))
    ((end, reading),) = [m for m in means.take() if m[0] > 64]
    assert end == 68
    assert reading.estimate.value == sum(range(65, 69)) / 4
    assert means.take() == ()


def test_losses_that_are_no_numbers_are_left_out():
    means = LossMeans()
    for step, loss in enumerate([1.0, math.nan, math.inf, 2.0, 3.0], 1):
        means.add(step, loss)
    assert [end for end, _ in means.take()] == [1, 4]


def test_what_nobody_takes_hardly_grows():
    means = LossMeans()
    for step in range(1, 2**16 + 1):
        means.add(step, 1.0)
    assert len(means.take()) < 18 * BLOCKS
