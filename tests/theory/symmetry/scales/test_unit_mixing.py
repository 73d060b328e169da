import torch
from torch import nn

from sigmascope.theory.symmetry import Passed, symmetries
from tests.models_zoo import Net


def hidden(between, a=4, b=6, read=6, x=None):
    """A linear layer, something, a linear layer; the families found between them."""
    net = Net(lambda n, x: n.b(between(n.a(x))), a=nn.Linear(a, b), b=nn.Linear(read, 2))
    x = torch.randn(5, a, generator=torch.Generator().manual_seed(0)) if x is None else x
    found = symmetries(net.double(), x)
    for family in found.scalings:
        assert {p.tensor for p in family.parts} == {"b.weight", "a.weight", "a.bias"}
    return found


def test_units_that_are_treated_alike_may_be_mixed():
    (family,) = hidden(lambda h: 3 * h).scalings
    assert bool(family.mask.all())
    assert family.passed == 0
    (scaled,) = hidden(lambda h: h * torch.tensor([1.0, 1, 2, 2, 2, 3], dtype=h.dtype)).scalings
    assert scaled.mask.sum(1).tolist() == [2, 2, 3, 3, 3, 1]
    assert scaled.passed == Passed.DATA


def test_units_of_a_relu_may_be_mixed_where_they_are_on_together():
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(5))
    net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2))
    with torch.no_grad():
        on = net[0](x) > 0
    (family,) = symmetries(net, x).scalings
    alike = (on[:, :, None] == on[:, None]).all(0)
    assert 12 < int(alike.sum()) < 144
    assert torch.equal(family.mask, alike)
