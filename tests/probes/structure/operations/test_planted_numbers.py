"""Numbers in the place of what layers write show what lies between them."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from sigmascope.probes import Subject
from sigmascope.probes.execution.state import still
from sigmascope.probes.structure.operations import FINE, SIZES, planted


def runs_of(model, x, **options):
    calls = Subject(model, x).calls
    with still(model):
        return calls, planted(model, x, calls, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_layers_pass_on_both_signs_and_all_sizes_and_no_two_the_same(dtype):
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(2 * FINE))).to(dtype)
    x = torch.ones(3, 8, dtype=dtype)
    _, run = runs_of(model, x)
    assert all(torch.equal(a.output, b.input) for a, b in pairwise(run))
    for call in run:
        assert call.output.shape == (3, 8)
        assert call.output.dtype == dtype
        assert float(call.output.abs().min()) > 0.009
        assert max(SIZES) <= float(call.output.abs().max()) < 2 * max(SIZES)
        assert float(call.output.min()) < 0 < float(call.output.max())
    assert len({tuple(c.output.flatten().tolist()) for c in run}) == len(run)


def test_signs_and_shifts_show_a_single_unit_four_numbers():
    model, x = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)), torch.ones(1, 1)
    seen = {
        float(runs_of(model, x, shift=shift, sign=sign)[1][0].output)
        for shift in (0, 1)
        for sign in (1, -1)
    }
    assert len(seen) == 4
    assert {-1.0, 1.0} < seen


def test_the_model_is_left_as_it_was():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), torch.rand(5, 4)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    runs_of(model, x)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert not any(m._forward_hooks for m in model.modules())


def test_nothing_is_told_of_a_model_that_goes_another_way():
    class Turns(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            h = self.a(x)
            return h if float(h.detach().abs().max()) > 100 else self.b(h)

    assert runs_of(Turns(), torch.rand(3, 4))[1] is None
