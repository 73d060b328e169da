"""What something reaches is put back, and nothing else is touched meanwhile."""

import pytest
import torch
from fingerprints import differences, fingerprint
from torch import nn

from sigmascope.models.state import as_found


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.seen = nn.BatchNorm1d(3), []

    def forward(self, x):
        self.seen.append(float(x.detach().sum()))
        return self.norm(x).square().sum()


@pytest.mark.parametrize("kind", [None, ValueError, KeyboardInterrupt])
def test_everything_is_put_back_and_its_modes_are_its_own_meanwhile(kind):
    loss = Remembering()
    before = fingerprint(loss=loss)
    try:
        with as_found({"in a container": [loss]}):
            assert loss.norm.training
            loss(torch.randn(5, 3)).backward()
            assert len(loss.seen) == 1
            if kind is not None:
                raise kind
    except (ValueError, KeyboardInterrupt):
        assert kind is not None
    assert not differences(before, fingerprint(loss=loss))


def test_weights_may_stay_changed():
    layer = nn.Linear(2, 2)
    with as_found(layer, weights=False):
        layer.weight.data.fill_(7.0)
        layer.note = "gone"
    assert bool((layer.weight == 7).all())
    assert not hasattr(layer, "note")


@pytest.mark.parametrize("thing", [None, torch.nn.functional.mse_loss, 3, "words"])
def test_what_keeps_nothing_is_let_be(thing):
    with as_found(thing):
        pass
