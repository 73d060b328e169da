"""A loss without targets is refused by every door that takes both: nothing would be said of it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sigmascope as ss
from sigmascope.core.guard import Refusal

DOORS = {
    "subject": ss.Subject,
    "profile": ss.profile,
    "treat": lambda m, x, loss: ss.treat(m, x, "batch-norm", loss=loss),
    "trial": ss.trial,
    "curvature": ss.curvature,
    "landscape": ss.landscape,
    "rates": ss.layer_rates,
    "compare": lambda m, x, loss: ss.compare(m, ss.duplicate(m), batch=x, loss=loss),
    "batch": lambda m, x, loss: ss.diagnose(ss.Program(m, x, loss)),
    "pair": lambda m, x, loss: ss.diagnose(ss.Program(m, (x, None), loss, "adam")),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_loss_without_targets_is_refused(door):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    words = r"must have targets that .* got cross_entropy and no targets\. Pass some .* or leave"
    with pytest.raises(Refusal, match=words):
        DOORS[door](model, torch.ones(6, 4), loss=F.cross_entropy)
