"""Losses that the training loop hands in."""

import math

import pytest
import torch

from sigmascope.watching.probes import Losses
from sigmascope.watching.probes.norms import KEPT


def read(losses):
    probe = Losses()
    for loss in losses:
        probe.add(1, loss)
    return {c.form: c.values[0] for c in probe.read(probe.local())}


def test_the_last_and_the_largest_are_read():
    assert read([1.0, torch.tensor(5.0), 2.0]) == {"": 2.0, "largest": 5.0}
    assert read([]) == {}


def test_one_that_is_no_number_is_not_passed_over():
    assert all(math.isnan(v) for v in read([1.0, math.nan, 2.0]).values())


def test_memory_does_not_grow_between_looks():
    probe = Losses()
    for k in range(10_000):
        probe.add(k, float(k))
    assert len(probe._given) <= 2 * KEPT
    assert {c.form: c.values[0] for c in probe.read(probe.local())}[""] == 9999.0


def test_over_processes_it_is_the_mean():
    one, other = Losses(), Losses()
    for k in range(3):
        one.add(k, float(k))
        other.add(k, float(k) + 1)
    (last, largest) = one.read(one.local() + other.local())
    assert (last.values[0], largest.values[0]) == pytest.approx((2.5, 2.5))
