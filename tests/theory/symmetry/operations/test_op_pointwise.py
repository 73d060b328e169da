import torch
from torch import nn

from sigmascope.theory.symmetry import symmetries


def test_dropout_keeps_units_apart_in_training_only():
    net = nn.Sequential(nn.Linear(4, 9), nn.Dropout(0.5), nn.Linear(9, 2))
    x = torch.randn(6, 4)
    (training,) = symmetries(net, x).scalings
    (evaluation,) = symmetries(net.eval(), x).scalings
    assert int(training.mask.sum()) < 81
    assert bool(evaluation.mask.all())
