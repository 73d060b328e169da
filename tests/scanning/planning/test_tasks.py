import pickle
from dataclasses import FrozenInstanceError, fields

import pytest
import torch

from sigmascope.scanning.planning import MatrixPair, Product, Task
from tests.scanning.made import Held, pair, task


@pytest.mark.parametrize("kind", [Task, MatrixPair, Product])
def test_every_field_is_told_of(kind):
    for field in fields(kind):
        assert f"        {field.name}: " in kind.__doc__


def test_a_task_is_a_small_value_that_nobody_changes():
    A = torch.ones(4, 3)
    one = task(A)
    assert (one.spectra, one.exact, one.paired) == (True, False, False)
    with pytest.raises(FrozenInstanceError):
        one.seed = 3
    both = pair(A, A)
    assert both.tasks[0] != both.tasks[1]
    assert hash(both.wanted) == hash(pickle.loads(pickle.dumps(both.wanted)))


def test_a_product_stands_alone_if_nothing_is_said():
    product = Product(Held(), Held(), 2.0)
    assert product.base is None
    with pytest.raises(FrozenInstanceError):
        product.scaling = 3.0
