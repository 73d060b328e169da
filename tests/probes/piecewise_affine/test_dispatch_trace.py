import pytest
import torch
from affine_zoo import REFUSED, D, through
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.probes.piecewise_affine import (
    jacobian,
    local_affine,
)


@pytest.mark.parametrize("f", [lambda h: h * h.detach(), REFUSED["numpy"][0], lambda h: h * h.data])
def test_a_derivative_of_a_part_is_refused(f):
    model, x, _ = through(f)
    with pytest.raises(Refusal, match=r"must follow everything.*got other .*measure a"):
        jacobian(model, x)


def test_branches_that_do_not_reach_the_output_count_for_nothing():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)
            self.kept = None

        def forward(self, x):
            h = self.layer(x)
            self.kept = h.detach().tanh()
            return h.relu(), h.exp()

    x = torch.randn(1, 4, dtype=D)
    model = Aside().double()
    found = local_affine(model, x)
    on = (model.layer(x) > 0).double()
    assert torch.equal(found.matrix.dense(), on.mT * model.layer.weight)
