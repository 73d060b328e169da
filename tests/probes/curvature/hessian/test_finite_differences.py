import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.probes import Subject


def test_the_self_check_finds_a_wrong_second_derivative():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, *grads):
            (x,) = ctx.saved_tensors
            return grads[0] * x.cos().detach()  # a constant to the second derivative

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.second(Wrong.apply(self.first(x)))

    net, x = Net().double(), torch.randn(5, 3, dtype=torch.float64)
    found = Subject(net, x, torch.zeros(5, 2, dtype=torch.float64), F.mse_loss).self_check
    assert found.gap > 1e-3


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_quadratic_loss_agrees_at_once():
    net, x = nn.Linear(3, 2).double(), torch.randn(5, 3, generator=generator(), dtype=torch.float64)
    found = Subject(net, x, torch.zeros(5, 2, dtype=torch.float64), F.mse_loss).self_check
    assert found.gap < 1e-9
    assert found.step == 1e-4  # the first that is tried


def test_without_a_loss_the_outputs_are_differenced():
    x = torch.randn(5, 3, generator=generator(), dtype=torch.float64)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    assert Subject(net, x).self_check.gap < 1e-6

    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, *grads):
            return grads[0] / 2

    net[0].register_forward_hook(lambda m, args, out: Halved.apply(out))
    assert Subject(net, x).self_check.gap > 0.1


def test_a_model_in_float32_is_checked_on_a_copy():
    net, x = nn.Linear(3, 2), torch.randn(5, 3, generator=generator())
    before = net.weight.clone()
    assert Subject(net, x, torch.zeros(5, 2), F.mse_loss).self_check.gap < 1e-9
    assert net.weight.dtype == torch.float32
    assert torch.equal(net.weight, before)


def test_rows_that_stand_for_padding_do_not_move():
    net = nn.Sequential(nn.Embedding(5, 3, padding_idx=0), nn.Flatten(), nn.Linear(6, 2)).double()
    with torch.no_grad():
        net[0].weight[0] = 1.0  # which autograd takes for constants, and differences would not
    tokens = torch.tensor([[0, 1], [2, 0], [3, 4]])
    found = Subject(net, tokens, torch.zeros(3, 2, dtype=torch.float64), F.mse_loss).self_check
    assert found.gap < 1e-6
