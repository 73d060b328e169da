"""Hooks hear training passes alone, and do not outlive what they are for."""

import copy
import pickle

import pytest
import torch
from torch import nn

from sigmascope.watching.hooks import inaudible, listening, removed
from sigmascope.watching.probes import Losses


def heard(act):
    """What an ear on a linear layer hears while something is done with the layer."""
    layer, found, probe = nn.Linear(2, 2), [], Losses()
    handles = listening([(layer, lambda x, _: found.append(len(x)))], probe)
    act(layer)
    removed(handles)
    layer(torch.ones(9, 2))
    assert handles == []
    return found, probe


@pytest.mark.parametrize("call", [lambda layer, x: layer(x), lambda layer, x: layer(input=x)])
def test_a_training_pass_is_heard_and_timed(call):
    found, probe = heard(lambda layer: call(layer, torch.ones(3, 2)))
    assert found == [3]
    assert probe.seconds > 0


def test_validation_copies_and_files_are_silent():
    def act(layer):
        with torch.no_grad():
            layer(torch.ones(3, 2))
        copy.deepcopy(layer)(torch.ones(4, 2))
        pickle.loads(pickle.dumps(layer))(torch.ones(5, 2))

    assert heard(act)[0] == []


def test_what_fails_in_a_hook_is_kept_and_the_pass_goes_on():
    layer, probe = nn.Linear(2, 2), Losses()

    def broken(*_):
        raise ValueError("of ours")

    handles = listening([(layer, broken)], probe)
    assert layer(torch.ones(3, 2)).shape == (3, 2)
    removed(handles)
    assert isinstance(probe.error, ValueError)


def test_modules_inside_of_what_is_compiled_cannot_be_heard_and_others_can():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert inaudible(model) == set()
    model[1].compile()
    assert inaudible(model) == {model[1], *model[1]}
