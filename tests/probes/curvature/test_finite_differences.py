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
