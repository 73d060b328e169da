import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey


def read(model, x, y=None, loss=F.mse_loss):
    of = {} if y is None else {"targets": y, "loss": loss}
    return survey.profile(model, x, views=["gradients"], **of)


def net():
    model = nn.Sequential(nn.Linear(2, 1, bias=False)).double()
    model[0].weight.data.zero_()
    return model


def test_cosines_are_those_between_what_the_layer_reads():
    """Gradients of a linear layer of one output lie along its inputs."""
    x = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0]]).double()
    told = {r.quantity: r.estimate for r in read(net(), x, torch.ones(3, 1).double()).readings}
    assert told["minimum |cos|"].low <= 0 <= told["minimum |cos|"].high
    assert abs(told["mean |cos|"].value - (0.6 + 0.0 + 0.8) / 3) < 1e-12
    assert "3 pairs" in told["mean |cos|"].how


def test_without_a_pair_or_without_targets_it_says_why():
    x = torch.eye(2).double()
    fitted = read(net(), x, torch.zeros(2, 1).double())
    assert [s.why for s in fitted.skipped] == ["no pair of samples has a gradient that is not zero"]
    assert [s.why for s in read(net(), x).skipped] == ["no targets and loss were given"]
