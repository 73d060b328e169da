import torch
from torch import nn

from sigmascope.theory.piecewise_affine.segments import between, handwritten


class Mine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, *grads):
        return 2 * grads[0]


def names(nodes):
    return [type(n).__name__ for n in nodes]


def test_the_nodes_that_lie_between_come_in_the_order_of_computation():
    z, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    h = z.sin()
    aside = w.exp()
    out = h.cos() * (aside + h)
    found = between([out.grad_fn], z)
    assert names(found) == ["AccumulateGrad", "SinBackward0", *names(found)[2:]]
    assert sorted(names(found)[2:4]) == ["AddBackward0", "CosBackward0"]
    assert names(found)[4:] == ["MulBackward0"]
    assert aside.grad_fn not in found


def test_nothing_lies_between_what_is_not_connected():
    z, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    assert between([w.exp().grad_fn, None], z) == {}
    assert between([], z) == {}
    assert names(between([w.exp().grad_fn, z.exp().grad_fn], z)) == [
        "AccumulateGrad",
        "ExpBackward0",
    ]


def test_a_deep_graph_is_walked_without_recursion():
    z = torch.ones(1, requires_grad=True)
    out = z
    for _ in range(3000):
        out = out + 1
    assert len(between([out.grad_fn], z)) == 3001


def test_a_function_of_the_users_is_named():
    z = torch.ones(2, requires_grad=True)
    assert handwritten(between([Mine.apply(z).exp().grad_fn], z)) == "Mine"
    assert handwritten(between([z.exp().grad_fn], z)) == ""


def test_a_backward_hook_is_named():
    net = nn.Linear(2, 2)
    net.register_full_backward_hook(lambda *_: None)
    z = torch.ones(1, 2, requires_grad=True)
    out = net(z)  # kept: without it, an old torch forgets what its node was computed from
    assert handwritten(between([out.grad_fn], z)) == "BackwardHookFunction"
