"""Work is shared among processes, each of one thread, and nothing is lost."""

import pytest
import torch

from sigmascope.integrations.processes import Processes


def threads(_):
    return torch.get_num_threads()


def inverse(x):
    return 1 / x


def test_every_item_is_worked_on_by_one_thread_each():
    assert sorted(Processes(2)(abs, [-3, 2, -1])) == [1, 2, 3]
    assert set(Processes(2)(threads, range(3))) == {1}


def test_what_fails_there_fails_here():
    with pytest.raises(ZeroDivisionError):
        list(Processes(2)(inverse, [1, 0]))
