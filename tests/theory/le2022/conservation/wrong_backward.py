"""A backward pass that is not the derivative of its forward pass."""

import torch
from torch.nn import functional as F


class Wrong(torch.autograd.Function):
    """A ReLU whose backward is 10 % too large."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.relu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 1.1 * g * (x > 0)
