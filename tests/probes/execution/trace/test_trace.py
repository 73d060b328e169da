import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.probes import Subject
from sigmascope.probes.execution.trace import FIXED, Operations, run_once, traced
from sigmascope.probes.samples import RUNS
from tests.probes.refusing import Refuses


def test_a_model_that_bears_no_watcher_is_measured_without():
    watched = lambda: torch._C._len_torch_dispatch_stack() > 0
    subject = Subject(Refuses(watched), torch.randn(6, 4))
    assert [c.site for c in subject.calls] == ["layer", "head"]
    assert [s.kind for s in subject.squashes] == ["sigmoid"]
    assert subject.mixing == ""
    with pytest.raises(ValueError, match="not here"):
        _ = subject.uses_outside


class Overwrites(nn.Module):
    """Changes what its layer has read."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        y = self.layer(x)
        x.zero_()
        return (y + x).sigmoid_()


def test_what_is_overwritten_is_copied_in_a_second_run():
    net, x = Overwrites(), torch.ones(4, 3)
    before = RUNS.count
    found = traced(net, x, {"layer": net.layer})
    assert RUNS.count == before + 2
    assert torch.equal(found.calls[0].input, x)
    assert found.seen[0].spoiled
    assert torch.equal(x, torch.ones(4, 3))
    plain = nn.Sequential(net.layer)
    before = RUNS.count
    traced(plain, x, {"0": net.layer})
    assert RUNS.count == before + 1


def test_sums_are_seen_with_their_sizes_and_activations_with_their_kind():
    a, b = torch.full((4,), 2.0, requires_grad=True), torch.full((4,), -3.0)
    with Operations() as seen:
        x = a * 1
        torch.add(x, b, alpha=-2)
        x + 1.0  # a number is no branch
        x + b[:1]  # nor is what is repeated
        y = F.hardtanh_(x.tanh())
        y.relu()
    assert [s.sizes for s in seen.sums] == [(2.0, 6.0)]
    assert seen.sums[0].nodes == (x.grad_fn, None)
    assert [kind for kind, _ in seen.squashed] == ["tanh", "hardtanh"]
    with Operations(sizes=False) as quick:
        x + b
    assert quick.sums[0].sizes == (0.0, 0.0)


class Applies(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.bare = nn.Linear(3, 3), nn.Parameter(torch.ones(3, 3))
        self.register_buffer("fixed", torch.ones(3, 3))
        self.gain = nn.Parameter(torch.ones(1, 3))

    def forward(self, x):
        x = self.layer(x) * self.gain  # a row is a vector
        x = x + self.fixed[:1]  # of buffers only products count
        return (x @ self.bare.T) @ (2 * self.fixed) @ torch.eye(3)


def test_weights_that_are_applied_outside_of_layers_are_named():
    net, x = Applies(), torch.ones(4, 3)
    found = run_once(net, x, {"layer": net.layer}, outside=True)
    assert found.outside == ("bare", "fixed", FIXED)
    assert found.operations is None
    assert run_once(net, x, {"layer": net.layer}).outside is None
    everything = run_once(net, x, {}, outside=True)
    assert everything.outside == ("layer.weight", "bare", "fixed", FIXED)
