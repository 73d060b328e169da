import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.diagnosis import judge
from sigmascope.models.networks import mlp
from sigmascope.survey.views import zeros


class Spike(torch.autograd.Function):
    """One above zero, with the slope of a softened step."""

    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).to(v)

    @staticmethod
    def backward(ctx, g):
        return g / (1 + 10 * ctx.saved_tensors[0].abs()) ** 2


class Unrolled(nn.Module):
    """A state that starts at zero and is read by the same layers at every step."""

    def __init__(self, kind, steps, shift=0.0):
        super().__init__()
        self.kind, self.steps, self.shift = kind, steps, shift
        self.read, self.state, self.out = nn.Linear(8, 24), nn.Linear(32, 24), nn.Linear(24, 3)

    def forward(self, x):
        h, v, total = x.new_zeros(len(x), 24), 0.0, 0.0
        for _ in range(self.steps):
            if self.kind == "spikes":
                v = 0.9 * v + self.read(x) + self.state(torch.cat([x, h], 1))
                h = Spike.apply(v - 1.0 - self.shift)
                v = v - h.detach()
            elif self.kind == "gates":
                new = self.state(torch.cat([x, h], 1))
                h = 0.5 * h + 0.5 * (self.read(x) + new).tanh()
            else:
                h = (self.state(torch.cat([x, h], 1)) + self.read(x) - self.shift).relu()
            total = total + self.out(h)
        return total / self.steps


@pytest.mark.parametrize("steps", [2, 5])
@pytest.mark.parametrize(
    ("kind", "shift", "lost"),
    [
        ("gates", 0.0, False),
        ("rectified", 0.0, False),
        ("spikes", 0.0, False),
        ("spikes", 2.0, False),  # none in any step, and the slope of the step moves them
        ("rectified", 50.0, True),  # off in every step
    ],
)
def test_a_state_that_starts_at_zero_is_dead_only_where_it_stays_there_and_learns_nothing(
    kind, shift, lost, steps
):
    torch.manual_seed(steps)
    x, y = torch.randn(64, 8), torch.arange(64) % 3
    model = Unrolled(kind, steps, shift)
    before = {n: p.clone() for n, p in model.named_parameters()}
    found = survey.profile(model, x, targets=y, loss=F.cross_entropy)
    told = {f.name for f in judge(found)} & {"dead-units", "silent-samples"}
    assert told == ({"dead-units", "silent-samples"} if lost else set())
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in model.named_parameters())
    assert not any(m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("depth", [8, 24])
def test_one_pass_back_tells_that_no_zero_of_a_deep_network_learns(depth, monkeypatch):
    passes, plain = [], zeros.backward
    monkeypatch.setattr(zeros, "backward", lambda *a, **k: passes.append(a) or plain(*a, **k))
    g = torch.Generator().manual_seed(0)
    net = mlp(inputs=8, outputs=3, depth=depth, width=16, init="he", generator=g)
    with torch.no_grad():
        for block in net.hidden:
            block.linear.bias.sub_(1.0)  # nearly all units are off
    found = survey.profile(net, torch.randn(32, 8, generator=g), views=["representations"])
    dead = [r for r in found.series("dead units") if r.estimate.value > 0.5]
    assert len(dead) > depth // 2
    assert {r.form for r in dead} == {""}
    assert len(passes) == 1
