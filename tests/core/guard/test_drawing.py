"""Random states behind a block are those before it; a device's in `tests/test_devices.py`."""

import pytest
import torch

from sigmascope.core.guard import random_states


@pytest.mark.parametrize("seed", [None, 7])
def test_the_state_is_put_back(seed):
    before = torch.get_rng_state()
    with random_states(seed):
        torch.randn(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_it_is_put_back_behind_an_error():
    def stopped():
        with random_states(3):
            torch.randn(3)
            raise KeyboardInterrupt

    before = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_seed_gives_the_same_draws():
    with random_states(7):
        one = torch.randn(3)
    with random_states(7):
        other = torch.randn(3)
    with random_states(8):
        another = torch.randn(3)
    assert torch.equal(one, other)
    assert not torch.equal(one, another)


def test_without_a_seed_it_goes_on_from_where_it_was():
    with random_states():
        inside = torch.randn(3)
    assert torch.equal(torch.randn(3), inside)
