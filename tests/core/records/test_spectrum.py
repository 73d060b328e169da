"""Singular values of one matrix, with their intervals."""

from dataclasses import replace

import pytest
import torch

from sigmascope.core.records import Spectrum


def told(*sigma, shape=(5, 3), **ends):
    return Spectrum(torch.tensor(sigma, dtype=torch.float64), shape, "told", **ends)


def test_ends_that_are_left_out_are_the_values_themselves():
    found = told(3.0, 1.0)
    assert found.low is found.high is found.sigma
    wide = told(3.0, 1.0, high=torch.tensor([4.0, 2.0]).double())
    assert wide.low is wide.sigma
    assert wide.high.tolist() == [4, 2]


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
def test_it_is_complete_with_as_many_values_as_the_smaller_side(shape):
    assert told(3.0, 2.0, 1.0, shape=shape).complete
    assert not told(3.0, 2.0, shape=shape).complete
    assert told(shape=(0, 4)).complete


def test_the_ends_of_a_spectrum_are_replaced_and_kept():
    low = torch.tensor([2.0, 0.5]).double()
    found = replace(told(3.0, 1.0, low=low), risk=0.1)
    assert found.low is low
    assert found.high is found.sigma
