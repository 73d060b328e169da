import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.theory.le2022.conservation import invariants
from sigmascope.theory.symmetry import StepSums, StillSum, symmetries
from tests.models_zoo import Net


def test_channels_flattened_with_their_positions_are_one_unit_each():
    net = nn.Sequential(nn.Conv2d(1, 3, 2), nn.Flatten(), nn.Linear(3 * 9, 2))
    (family,) = symmetries(net, torch.randn(2, 1, 4, 4)).scalings
    columns = next(p for p in family.parts if p.side == "columns")
    assert columns.index.tolist() == [list(range(9 * c, 9 * c + 9)) for c in range(3)]
    assert columns.slabs(net[2].weight).shape == (3, 18)


def hidden(between, a=4, b=6, read=6, x=None):
    """A linear layer, something, a linear layer; the families found between them."""
    net = Net(lambda n, x: n.b(between(n.a(x))), a=nn.Linear(a, b), b=nn.Linear(read, 2))
    x = torch.randn(5, a, generator=torch.Generator().manual_seed(0)) if x is None else x
    found = symmetries(net.double(), x)
    for family in found.scalings:
        assert {p.tensor for p in family.parts} == {"b.weight", "a.weight", "a.bias"}
    return found


def in_place(h):
    h = h * 1.0
    h.relu_()
    h.mul_(2.0)
    return h


def sliced_writes(h):
    out = torch.zeros_like(h)
    out[:, :3] = h[:, :3]
    out[:, 3:] = 2 * h[:, 3:]
    return out


KEPT = {
    "relu": (F.relu, 6),
    "in place": (in_place, 6),
    "writes into slices": (sliced_writes, 6),
    "flip": (lambda h: h.flip(1), 6),
    "chosen": (lambda h: h[:, [2, 0, 1, 5, 4, 3]], 6),
    "added to itself": (lambda h: h + h, 6),
    "added to its mirror image": (lambda h: h + h.flip(1), 3),
    "a clamp that is a relu": (lambda h: h.clamp(min=0), 6),
    "a quotient": (lambda h: h / (h.square().mean(1, keepdim=True) + 1e-30).sqrt() * h, 1),
    "masked": (lambda h: h.masked_fill(torch.arange(6) % 2 == 0, 0.0), 6),
    "where": (lambda h: torch.where(h > 1e9, torch.zeros_like(h), h), 0),
    "square root of squares": (lambda h: h.square().sqrt(), 6),
    "two of three": (lambda h: torch.stack([h, 2 * h])[1], 6),
    "the larger of two": (lambda h: torch.maximum(h, 2 * h), 0),
    "softplus": (F.softplus, 0),
    "softmax": (lambda h: h.softmax(1), 0),
    "a constant added": (lambda h: h + 0.5, 0),
    "nothing added": (lambda h: h + 0, 6),
    "clamped from both sides": (lambda h: h.clamp(-0.1, 0.1), 0),
    "a branch on its value": (lambda h: h if float(h.detach().sum()) > -1e9 else -h, 0),
    "sorted": (lambda h: h.sort(1).values, 0),
    "rounded down": (lambda h: h.div(0.1, rounding_mode="floor"), 0),
    "recast": (lambda h: h.float().double(), 6),
}


@pytest.mark.parametrize("name", KEPT)
def test_how_many_units_may_be_rescaled(name):
    between, units = KEPT[name]
    found = hidden(between)
    assert sum(f.units for f in found.scalings) == units, found.fixed


def test_what_cannot_be_followed_is_refused():
    frozen = nn.Linear(3, 2).requires_grad_(False)
    with pytest.raises(Refusal, match="none that need a gradient"):
        symmetries(frozen, torch.ones(1, 3))
    with pytest.raises(Refusal, match="must run on the batch"):
        symmetries(nn.Linear(3, 2), torch.ones(1, 4))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_they_are_the_products_of_the_parts_with_themselves(dtype):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3, groups=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(6 * 4, 5), nn.ReLU(), nn.Linear(5, 3),
    )  # fmt: skip
    found = [
        i for i in invariants(net, torch.randn(7, 2, 6, 6)) if not isinstance(i.what, StillSum)
    ]
    tensors = {n: p.detach().to(dtype) for n, p in net.named_parameters()}
    sums = StepSums(tensors)
    assert len(found) >= 3
    for invariant in found:
        for part in invariant.what.parts:
            exact = part.dots(tensors[part.tensor], tensors[part.tensor])
            torch.testing.assert_close(sums.of(part).double(), exact, rtol=1e-5, atol=1e-9)
    only = StepSums({n: t for n, t in tensors.items() if n.startswith("7")})
    for invariant in found:
        alone = invariant.alone()
        here = {n: t for n, t in tensors.items() if n in only.tensors}
        whole = alone.form(here, here)
        torch.testing.assert_close(alone.squares(only), whole, rtol=1e-5, atol=1e-9)
        assert alone.reach(sums) == pytest.approx(alone.size(tensors, tensors), rel=1e-5)
