"""What a model does last is told, whatever shapes it takes afterwards."""

import pytest
import torch
from torch import nn

from sigmascope.probes.samples import prepared
from sigmascope.probes.structure import closing_operation
from tests.models_zoo import MODELS


@pytest.mark.parametrize(
    ("last", "name"),
    [
        (nn.Softmax(-1), "Softmax"),
        (nn.Sigmoid(), "Sigmoid"),
        (nn.Tanh(), "Tanh"),
        (nn.ReLU(), "Relu"),
        (nn.Sequential(nn.ReLU(), nn.Unflatten(1, (1, 3))), "Relu"),
        (nn.Identity(), "Addmm"),
    ],
)
def test_the_last_operation_is_named(last, name):
    model = nn.Sequential(nn.Linear(4, 3), last)
    assert closing_operation(model, torch.randn(5, 4)) == name


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_zoo_has_one(name):
    model, batch = MODELS[name]()
    closing = closing_operation(model, prepared(model, batch))
    assert closing or not any(p.requires_grad for p in model.parameters())
