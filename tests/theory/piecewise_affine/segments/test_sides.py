import torch
from affine_zoo import PIECEWISE, through
from torch.nn import functional as F

from sigmascope.theory.piecewise_affine import (
    activation_patterns,
)


def test_patterns_are_seen_in_every_spelling():
    model, x, _ = through(PIECEWISE["where"], PIECEWISE["mask"], F.relu)
    found = activation_patterns(model, x)
    assert list(found) == ["gt #1", "gt #2", "relu #3"]
    hidden = model.first(x)
    assert torch.equal(found["gt #1"], hidden.sign().to(torch.int8))
