"""Outputs that are drawn: of each function that knows a mode, told it or not."""

import inspect

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.models import Subject
from sigmascope.models.structure.randomness import ATTENTION, MODES, random_outputs
from tests.fingerprints import differences, fingerprint, process
from tests.models_zoo import Net

X = torch.randn(4, 2, 8, 8, generator=torch.Generator().manual_seed(0))


def closing(do):
    """A layer with anything behind it."""
    return Net(lambda m, x: do(m, m.layer(x)), layer=nn.Linear(8, 8))


def outputs(do):
    return random_outputs(closing(do), X)


@pytest.mark.parametrize("name", sorted(MODES))
def test_a_function_that_is_told_to_train(name):
    function = getattr(F, name, None) or getattr(torch, name)
    told = (0.5, True) if name != "rrelu" else (0.1, 0.3, True)
    shaped = lambda y: y.flatten(0, 1) if name.endswith("1d") else y
    with torch.random.fork_rng():
        torch.manual_seed(0)  # two masks of a few channels may be alike
        found = outputs(lambda _, y: function(shaped(y), *told))
    assert found.function == name
    assert found.place.startswith("test_randomness.py:")
    own = lambda m, y: function(shaped(y), *told[:-1], m.training)
    assert outputs(own) is None
    if (builtin := getattr(torch, name, None)) is not None:
        assert outputs(lambda _, y: builtin(y, *told)).function == name


def test_dropout_drops_where_nothing_is_said():
    assert outputs(lambda _, y: F.dropout(y, 0.1)).function == "dropout"
    assert outputs(lambda _, y: F.dropout(y, 0.0)) is None


def test_an_attention_that_drops():
    attend = lambda p: lambda _, y: F.scaled_dot_product_attention(y, y, y, dropout_p=p)
    assert outputs(attend(0.2)).function == ATTENTION
    assert outputs(attend(0.0)) is None


def test_what_draws_in_another_way_is_told_without_a_cause():
    found = outputs(lambda _, y: y + torch.randn_like(y))
    assert found.function == ""
    assert found.change == pytest.approx(1.4 / 0.58, rel=0.5)
    assert outputs(lambda _, y: y + 0 * torch.randn_like(y)) is None


def test_modules_that_follow_the_mode_are_still():
    for part in (nn.Dropout(0.5), nn.RReLU(), nn.TransformerEncoderLayer(8, 2, 8)):
        model = nn.Sequential(nn.Linear(8, 8), part).train()
        assert random_outputs(model, X.flatten(0, 1)) is None
        assert not Subject(model, X.flatten(0, 1)).drew


def test_numbers_of_numpy_and_python_are_drawn_too():
    import random

    import numpy as np

    np.random.rand()  # so that the next one is of the same block
    for draw in (np.random.rand, random.random, lambda: torch.rand(1).item()):
        model = closing(lambda _, y, draw=draw: y * draw())
        assert Subject(model, X).drew
        assert random_outputs(model, X).change > 0


def test_every_function_of_torch_that_knows_a_mode_is_known():
    words = {n for n, f in vars(F).items() if inspect.isfunction(f) and not n.startswith("_")}
    knows = {n for n in words if "training" in inspect.signature(getattr(F, n)).parameters}
    still = {
        "batch_norm",
        "instance_norm",
        "multi_head_attention_forward",
    }  # draw nothing, or hand on
    assert {n.rstrip("_") for n in knows} - still - set(MODES) == set()


def test_the_model_and_random_states_are_as_they_were():
    model = closing(lambda _, y: F.dropout(y, 0.5)).train()
    before, around = fingerprint(model=model), process()
    random_outputs(model, X)
    assert not differences(before, fingerprint(model=model))
    assert process() == around
