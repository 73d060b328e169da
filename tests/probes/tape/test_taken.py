"""Gradients that are taken as each is made: the same as all together, and only of our own pass."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.probes.tape import backward


class Tied(nn.Module):
    def __init__(self, **named):
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.table = nn.Embedding(50, 8, **named)
        self.middle = nn.Linear(8, 8)
        self.head = nn.Linear(8, 50, bias=False)
        self.unused = nn.Parameter(torch.ones(3))
        for p in self.parameters():
            p.data = torch.randn(p.shape, generator=g)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.middle(self.table(ids)).tanh())


IDS = torch.tensor([[1, 2, 3], [3, 2, 49]])


def taken(value, parameters, **named):
    found: dict[nn.Parameter, list] = {p: [] for p in parameters}
    others = backward(value, None, parameters, lambda p, g: found[p].append(g.clone()), **named)
    return found, others


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("how", "times"), [({}, 1), ({"large": 0}, 1), ({"large": 0, "parts": True}, 2)]
)
def test_they_are_those_that_autograd_returns(how, times, sparse):
    net = Tied(sparse=sparse)
    value, own = net(IDS).square().sum(), [*net.parameters()]
    want = torch.autograd.grad(value, own, retain_graph=True, allow_unused=True)
    found, _ = taken(value, own, **how)
    names = {"table.weight": times, "middle.weight": 1, "middle.bias": 1, "unused": 0}
    assert {n: len(found[p]) for n, p in net.named_parameters()} == names
    for p, grad in zip(own, want, strict=True):
        if grad is None:
            assert not found[p]
        else:
            torch.testing.assert_close(sum(found[p]), grad, rtol=1e-6, atol=1e-5)
    assert all(p._backward_hooks is None for p in own)


def test_nothing_of_their_size_is_held_when_the_pass_is_over():
    net = Tied()
    returned = []
    differentiate = torch.autograd.grad

    def watched(*given, **named):
        returned.extend(differentiate(*given, **named))
        return tuple(returned)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.autograd, "grad", watched)
        taken(net(IDS).sum(), [net.table.weight, net.middle.weight])
    assert [g.untyped_storage().nbytes() for g in returned] == [4, 4]


def test_a_tape_that_is_kept_can_be_passed_back_again_and_others_come_back():
    net = Tied()
    out = net.table(IDS)
    value = net.head(net.middle(out)).sum()
    first, (delta,) = taken(value, [net.middle.weight], others=[out], again=True)
    second, (again,) = taken(value, [net.middle.weight], others=[out])
    assert delta is not None
    assert torch.equal(delta, again)
    assert torch.equal(first[net.middle.weight][0], second[net.middle.weight][0])


def test_sparse_gradients_come_whole():
    net = Tied(sparse=True)
    value = net.table(IDS).sum()
    found, _ = taken(value, [net.table.weight])
    (grad,) = found[net.table.weight]
    assert grad.is_sparse
    assert grad.to_dense().sum() == 48


def test_hooks_of_the_users_are_heard_and_see_the_sum():
    net, seen = Tied(), []

    def halve(grad):
        seen.append(grad.clone())
        return grad / 2

    net.table.weight.register_hook(halve)
    value = net(IDS).sum()
    (want,) = torch.autograd.grad(value, net.table.weight, retain_graph=True)
    found, _ = taken(value, [net.table.weight], large=0, parts=True)
    assert len(seen) == 2
    assert torch.equal(seen[0], seen[1])
    torch.testing.assert_close(sum(found[net.table.weight]), want)
    assert len(net.table.weight._backward_hooks) == 1


@pytest.mark.parametrize("large", [None, 0])
def test_a_pass_of_another_thread_keeps_its_gradients(large):
    net, theirs = Tied(), []

    def train():
        theirs.append(torch.autograd.grad(net(IDS).sum(), net.middle.weight)[0])

    def take(p, grad):
        if not theirs:
            thread = threading.Thread(target=train)
            thread.start()
            thread.join()

    backward(net(IDS).sum(), None, [*net.parameters()], take, large=large)
    assert theirs[0].abs().sum() > 0
    torch.testing.assert_close(theirs[0], torch.autograd.grad(net(IDS).sum(), net.middle.weight)[0])


def test_what_fails_in_the_taking_comes_out_and_leaves_no_hook():
    net = Tied()

    def fail(p, grad):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        backward(F.relu(net(IDS)).sum(), None, [*net.parameters()], fail)
    assert all(p._backward_hooks is None for p in net.parameters())


def test_what_has_no_gradient_is_said_in_autograds_words():
    with pytest.raises(RuntimeError, match="does not require grad"):
        backward(torch.ones(()), None, [nn.Parameter(torch.ones(1))], lambda p, g: None)


@pytest.mark.parametrize(("large", "times"), [(None, 0), (0, 1), (10**9, 0)])
def test_memory_that_is_free_goes_back_before_a_large_gradient_is_made(monkeypatch, large, times):
    trimmed = []
    monkeypatch.setattr("sigmascope.probes.tape.trim", lambda: trimmed.append(1))
    net = Tied()
    taken(net(IDS).square().sum(), [*net.parameters()], large=large)
    assert len(trimmed) == times
