import pytest
import torch
from models_zoo import MODELS
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.probes.execution.gradients import (
    again,
    differentiable_twice,
    joined,
    pushforward,
)


def smooth(output, targets):
    """Neither quadratic nor separable into columns."""
    return (output - targets).square().mean() + (output.exp().sum(-1) + 1).log().mean()


def subject(name, loss=smooth):
    module, batch = MODELS[name]()
    module = module.double()
    output = Subject(module, batch).output
    targets = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
    return Subject(module, batch, targets, loss)


def test_weight_normalisation_is_differentiated_by_its_parts():
    s = subject("weight-norm")
    H = s.curvature("hessian").operator.dense()
    assert torch.allclose(H, H.mT, atol=1e-13)
    assert s.self_check.gap < 1e-6


def drawn(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def test_pushing_forward_is_the_jacobian_times_a_vector():
    W, x = drawn(3, 4), drawn(4, seed=1)
    f = lambda W, x: (W @ x).tanh()
    along = drawn(3, 4, seed=2), drawn(4, seed=3)
    live = [t.clone().requires_grad_() for t in (W, x)]
    found = pushforward(f(*live), live)(along)
    torch.testing.assert_close(found.detach(), torch.func.jvp(f, (W, x), along)[1])


def test_what_depends_on_nothing_has_no_derivative():
    x, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    assert pushforward(x.exp(), [other])([torch.ones(3)]) is None
    assert again([None, torch.ones(3)], [x], [torch.ones(3)] * 2) == [None]
    (slope,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    (found,) = again([slope, None], [x], [torch.ones(3), torch.ones(3)])
    assert found.tolist() == [6, 6, 6]


def test_parts_are_joined_with_zeros_for_those_that_are_not_there():
    sparse = torch.tensor([[0.0, 5.0]]).to_sparse()
    found = joined([None, sparse], [torch.ones(2, 2), torch.ones(1, 2)])
    assert found.tolist() == [0, 0, 0, 0, 0, 5]


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_normalisation_by_its_parts_is_the_same_map(dim):
    net = nn.utils.weight_norm(nn.Linear(4, 3).double(), dim=dim)
    x = drawn(2, 4)
    with differentiable_twice(net):
        by_parts = net(x)
    torch.testing.assert_close(by_parts, net(x))


def test_running_statistics_stay_and_the_tape_outlives_the_block():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    before = net[1].running_mean.clone()
    with differentiable_twice(net):
        value = net(drawn(6, 3).float()).square().sum()
    assert torch.equal(net[1].running_mean, before)
    (slope,) = torch.autograd.grad(value, net[0].weight, create_graph=True)
    assert torch.autograd.grad(slope.square().sum(), net[2].weight)[0].isfinite().all()


def test_what_autograd_cannot_do_is_said_in_its_words():
    net = nn.Linear(3, 3)
    with pytest.raises(Refusal, match="must be differentiable, got RuntimeError"):
        with_no_tape(net)


def with_no_tape(net):
    with differentiable_twice(net):
        torch.autograd.grad(net(torch.ones(1, 3)).detach().sum(), net.weight)
