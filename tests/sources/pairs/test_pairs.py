import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.sources import default_data, open_both, open_data


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("name", "data", "shape", "words"),
    [
        ("linear", None, (8, 64), "digits"),
        ("linear", "gaussian", (8, 64), "gaussian 64"),
        ("narrow", "gaussian", (8, 6), "gaussian 6"),
        ("double", None, (8, 64), "as float64"),
        ("conv", None, (8, 1, 8, 8), "digits"),
        ("words", None, (8, 32), "random tokens"),
        ("colour", "gaussian?shape=3x5x5", (8, 3, 5, 5), "gaussian 3x5x5"),
    ],
)
def test_data_are_found_for_a_model(mine, name, data, shape, words):
    model, found = open_both(mine(name), data=data, samples=8)
    assert found.inputs.shape == shape
    assert words in found.name
    model.module(found.inputs)


def test_a_built_in_network_is_given_digits():
    model, data = open_both("mlp?depth=1", samples=8, generator=generator())
    assert model.module(data.inputs).shape == (8, 10)


def test_where_no_number_is_said_as_many_samples_are_taken_as_of_data_alone(mine):
    of_both = [open_both(name)[1] for name in ("mlp?depth=1", mine("linear"))]
    of_model = default_data(nn.Linear(64, 10))
    many = {len(data.inputs) for data in (*of_both, of_model)}
    assert many == {len(open_data("digits").inputs)}


def test_an_empty_name_of_data_is_not_the_usual_data():
    with pytest.raises(Refusal, match="There is no data set ``"):
        open_both("mlp?depth=2", data="")
