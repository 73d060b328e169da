"""Which probes a watch has."""

import pytest
import torch
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.watching.parameters import places
from sigmascope.watching.probes import Losses, ProbeBatch
from sigmascope.watching.processes import Processes
from sigmascope.watching.schedule import chosen
from tests.watching.made import stack, task

X, Y = task()


def names(probe=None, views=None, only=None):
    model = stack(5, 4, 3).double()
    found = places(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    wanted = {"probe": probe, "views": views, "only": only, "compiled": False}
    return [p.name for p in chosen(model, found, Processes(), Losses(), **wanted)]


def test_without_a_probe_batch_training_itself_is_read():
    assert names() == ["loss", "gradients", "updates", "activations", "attention",
                       "representations", "spectra"]  # fmt: skip


def test_a_probe_batch_adds_what_it_is_enough_for():
    assert names(ProbeBatch(X))[-1] == "profile"
    assert names(ProbeBatch(X, Y, nn.MSELoss()))[-2:] == ["sharpness", "profile"]
    assert names(ProbeBatch(X, Y, nn.MSELoss()), views=())[-1] == "sharpness"
    assert names(ProbeBatch(X), views=["balances"])[-2:] == ["profile", "conservation"]


def test_some_are_chosen_and_the_loss_is_always_there():
    assert names(only=["updates"]) == ["loss", "updates"]


def test_what_is_not_there_is_refused_with_what_it_needs():
    with pytest.raises(Refusal, match="`sharpness` needs `probe_batch`"):
        names(only=["sharpness"])
