"""Random states behind a block are those before it; a device's in `tests/test_devices.py`."""

import random

import numpy as np
import pytest
import torch

from sigmascope.core.guard import random_states

DRAWS = {
    "torch": lambda: torch.rand(()).item(),
    "numpy": lambda: float(np.random.rand()),
    "python": random.random,
}


def drawn():
    return [draw() for draw in DRAWS.values()]


@pytest.fixture(autouse=True)
def _elsewhere():
    """From a state of its own in each test, and back."""
    with random_states(123):
        yield


@pytest.mark.parametrize("seed", [None, 7])
def test_the_state_is_put_back(seed):
    with random_states():
        expected = drawn()
    with random_states(seed):
        drawn()
    assert drawn() == expected


def test_it_is_put_back_behind_an_error():
    def stopped():
        with random_states(3):
            drawn()
            raise KeyboardInterrupt

    with random_states():
        expected = drawn()
    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert drawn() == expected


@pytest.mark.parametrize("source", DRAWS)
@pytest.mark.parametrize("seed", [7, 2**40, -1])  # whatever torch takes
def test_a_seed_gives_the_same_draws(source, seed):
    with random_states(seed):
        one = DRAWS[source]()
    with random_states(seed):
        other = DRAWS[source]()
    with random_states(8):
        another = DRAWS[source]()
    assert one == other != another


def test_without_a_seed_it_goes_on_from_where_it_was():
    with random_states():
        inside = drawn()
    assert drawn() == inside
