"""A longer memory: steps neither shrink nor blow up gradients, and nothing else changes."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.diagnosis import judge
from sigmascope.diagnosis.remedies import Inapplicable
from sigmascope.diagnosis.remedies.long_memory import LongMemory
from tests.survey.views.test_setup import Reads

STEPS = 80


def factor(model, x):
    found = survey.profile(model, x, views=["setup"])
    return {r.site: r.estimate.value for r in found.series("step factor")}["layer"]


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("layers", [1, 2])
def test_gradients_keep_their_size(kind, layers):
    torch.manual_seed(0)
    model, x = Reads(kind(3, 24, layers, batch_first=True)), torch.randn(20, STEPS, 3)
    made = LongMemory().apply(model, x)
    assert factor(model, x) ** (STEPS - 1) < 1e-9
    assert 1e-6 < factor(made, x) ** (STEPS - 1) < 1e3
    assert torch.equal(made.last.weight, model.last.weight)
    assert torch.equal(made.layer.weight_ih_l0, model.layer.weight_ih_l0)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    ("options", "steps"),
    [({"bias": False}, 30), ({"proj_size": 5}, 2), ({"bidirectional": True}, 30)],
)
def test_recurrent_weights_are_orthogonal_block_by_block(options, steps):
    """Biases keep what was read for 1 to all but one of the steps, and 2 at least."""
    torch.manual_seed(0)
    layer = nn.LSTM(3, 12, batch_first=True, **options)
    size = {"proj_size": 5}.get(next(iter(options)), 24 if "bidirectional" in options else 12)
    model = Reads(layer)
    model.last = nn.Linear(size, 2)
    made = LongMemory().apply(model, torch.randn(4, steps, 3)).layer
    for name, p in made.named_parameters():
        if name.startswith("weight_hh"):
            for block in p.split(12):
                torch.testing.assert_close(block.mT @ block, torch.eye(block.shape[1]))
        if name.startswith("bias_ih"):
            write, keep = p.detach()[:12], p.detach()[12:24]
            torch.testing.assert_close(write, -keep)
            assert bool((keep >= 0).all())
            assert 0.6 < float(keep.max()) / math.log(max(steps - 1, 2)) <= 1
        if name.startswith("bias_hh"):
            assert not p[:24].any()


def test_explosion_is_cured():
    torch.manual_seed(0)
    model, x = Reads(nn.RNN(3, 24, nonlinearity="relu", batch_first=True)), torch.randn(20, 60, 3)
    with torch.no_grad():
        model.layer.weight_hh_l0.mul_(5)
    y = torch.arange(20) % 2
    before, after = (
        {f.name for f in judge(survey.profile(m, x, targets=y, loss=F.cross_entropy))}
        for m in (model, LongMemory().apply(model, x))
    )
    assert "exploding-through-time" in before
    assert not after & {"exploding-through-time", "vanishing-through-time"}


def test_without_recurrent_layers_there_is_nothing_to_do():
    with pytest.raises(Inapplicable, match="needs recurrent layers"):
        LongMemory().apply(nn.Linear(3, 2), torch.randn(4, 3))
