"""Squashing activations are seen as modules, functions and methods, if a layer reads them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.probes.structure import squashes
from tests.models_zoo import Net

SIGMOIDS = [nn.Sigmoid(), torch.sigmoid, F.sigmoid, torch.Tensor.sigmoid]


def found(act, scale=1.0):
    torch.default_generator.manual_seed(0)
    parts = {"a": nn.Linear(4, 6), "b": nn.Linear(6, 2)}
    if isinstance(act, nn.Module):
        parts["act"] = act
    model = Net(lambda self, x: self.b(act(scale * self.a(x))), **parts)
    return squashes(model, torch.randn(40, 4))


@pytest.mark.parametrize("act", SIGMOIDS, ids=["module", "torch", "functional", "method"])
def test_sigmoids_are_seen_however_they_are_called(act):
    (one,) = found(act)
    assert (one.site, one.kind) == ("b", "sigmoid")
    assert one.saturated == 0.0


@pytest.mark.parametrize("act", [torch.tanh, F.hardtanh, torch.sigmoid])
def test_large_signals_saturate(act):
    assert found(act, 0.3)[0].saturated < 0.1
    assert found(act, 1000.0)[0].saturated > 0.9


@pytest.mark.parametrize("act", [F.relu, F.gelu, F.leaky_relu])
def test_others_do_not_squash(act):
    assert found(act) == ()


def test_a_gate_is_not_what_a_layer_reads():
    net = Net(
        lambda self, x: self.b(x * torch.sigmoid(self.a(x))), a=nn.Linear(4, 4), b=nn.Linear(4, 2)
    )
    assert squashes(net, torch.randn(5, 4)) == ()
