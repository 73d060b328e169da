import torch
from affine_zoo import D
from torch import nn

from sigmascope.probes.piecewise_affine import (
    local_affine,
)


class Pooled(nn.Module):
    def __init__(self, size, *, side, relu=True, ceil=False):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.between = nn.ReLU() if relu else nn.Identity()
        self.pool = nn.MaxPool2d(size, ceil_mode=ceil)
        left = self.pool(torch.zeros(1, 3, side - 2, side - 2)).numel()
        self.last = nn.Linear(left, 2)

    def forward(self, x):
        return self.last(self.pool(self.between(self.conv(x))).flatten(1))


def test_the_winners_of_large_windows_are_told_apart():
    model = Pooled(17, side=19, relu=False).double()
    x = torch.randn(1, 1, 19, 19, dtype=D)
    (winners,) = local_affine(model, x).regions
    assert torch.equal(winners.flatten(), model.conv(x).flatten(2).argmax(2).flatten())
    other = x + 0
    first = int(winners.flatten()[0])
    seen = set()
    for place in (first, (first + 256) % 289):
        big = nn.functional.one_hot(torch.tensor(place), 289).reshape(1, 1, 17, 17)
        other = nn.functional.pad(100.0 * big.double(), (1, 1, 1, 1))
        with torch.no_grad():
            model.conv.weight.fill_(0)[:, :, 1, 1] = 1
        (winners,) = local_affine(model, other).regions
        seen.add(int(winners.flatten()[0]))
    assert len(seen) == 2
