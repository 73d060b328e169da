import pytest
import torch
from affine_zoo import D, Pooled
from torch import nn
from torch.nn import functional as F

from sigmascope.theory.piecewise_affine import (
    local_affine,
)
from sigmascope.theory.piecewise_affine.segments import _kink_of, allowed, tracing


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


def kink(name, x, **more):
    return _kink_of(name, {"self": x, **more})


X = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0], dtype=D)
LAMBD = {"lambd": 0.5}
# what is called, which piece each entry is on, and where it would change it
POINTS = {
    "relu": ({}, [0, 0, 0, 1, 1], [0.0], False),
    "sign": ({}, [-1, -1, 0, 1, 1], [0.0], True),
    "hardtanh": ({}, [0, 1, 1, 1, 2], [-1.0, 1.0], False),
    "clamp": ({"min": None, "max": 0.25}, [0, 0, 0, 1, 1], [0.25], False),
    "threshold": ({"threshold": 0.25, "value": 0.0}, [0, 0, 0, 1, 1], [0.25], True),
    "softshrink": (LAMBD, [0, 0, 1, 1, 2], [-0.5, 0.5], False),
    "hardshrink": (LAMBD, [0, 0, 1, 1, 2], [-0.5, 0.5], True),
    "gt": ({"other": 0.5}, [-1, -1, -1, 0, 1], [0.5], True),
}


@pytest.mark.parametrize("name", POINTS)
def test_pieces_and_heights_of_what_bends_at_points(name):
    more, sides, ends, jumps = POINTS[name]
    found = kink(name, X.clone().requires_grad_(), **more)
    assert found.side.tolist() == sides
    heights = found.heights.detach().reshape(5, -1)
    assert torch.equal(heights, X[:, None] - torch.tensor(ends, dtype=D))
    assert (found.known, found.jumps) == (True, jumps)


def test_without_a_jump_of_its_value_a_threshold_only_bends():
    assert not kink("threshold", X.clone().requires_grad_(), threshold=0.5, value=0.5).jumps


def test_what_has_no_kink_has_none():
    assert kink("mul", X, other=X) is None
    assert kink("median", X) is None  # which of them it was is not told
    assert kink("_to_copy", X, dtype=torch.float32) is None
    whether = kink("_to_copy", X.clone().requires_grad_(), dtype=torch.bool)
    assert whether.name == "bool"
    assert whether.side.tolist() == [-1, -1, 0, 1, 1]


def test_off_the_tape_heights_are_not_known():
    x = X.clone().requires_grad_()
    with tracing() as trace:
        trace.source(x)
        x.relu()
        with torch.no_grad():
            x.relu()
        x.detach().relu()
    kinks = [s.kink for s in trace.steps if s.kink is not None]
    assert [k.known for k in kinks] == [True, True, False]


@pytest.mark.parametrize("name", ["amax", "amin", "argmax"])
def test_the_largest_wins_and_others_lie_behind(name):
    x = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], dtype=D, requires_grad=True)
    found = kink(name, x, dim=[1] if name != "argmax" else 1)
    assert found.side.tolist() == ([1, 0] if name == "amin" else [0, 1])
    behind = [2, 1, 5, 4] if name == "amin" else [2, 1, 5, 1]
    assert found.heights.tolist() == behind
    assert found.jumps == (name == "argmax")
    whole = kink("max", x.detach().clone().requires_grad_())
    assert whole.side.tolist() == 4


@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": [2, 2]},
        {"kernel_size": [3], "stride": [2], "padding": [1]},
        {"kernel_size": [2, 3], "stride": [1, 2], "dilation": [2, 1]},
        {"kernel_size": [3], "stride": [2], "ceil_mode": True},
        {"kernel_size": [3], "stride": [3], "padding": [1], "ceil_mode": True},
    ],
    ids=str,
)
def test_windows_are_those_of_max_pooling(how):
    x = torch.randn(2, 3, 8, 7, generator=torch.Generator().manual_seed(0), dtype=D)
    found = kink("max_pool2d_with_indices", x.clone().requires_grad_(), **how)
    size = {k: tuple(v) if isinstance(v, list) and len(v) > 1 else v for k, v in how.items()}
    size = {k: v[0] if isinstance(v, list) else v for k, v in size.items()}
    pooled = F.max_pool2d(x, **size)
    assert torch.equal(found.windows.detach().amax(-1), pooled)
    winners = found.windows.gather(-1, found.side[..., None])[..., 0]
    assert torch.equal(winners.detach(), pooled)
    real = int(found.windows.isfinite().sum())
    assert len(found.heights) == real - pooled.numel()
    assert (found.heights > 0).all()


def test_what_sorts_tells_its_pieces_by_places_only():
    found = kink("sort", X.flip(0).clone().requires_grad_(), dim=0)
    assert found.side.tolist() == [4, 3, 2, 1, 0]
    assert not found.known


def test_what_may_vary():
    assert allowed({}, {"self", "min"})
    assert not allowed({}, {"self", "threshold"})
    assert not allowed({"training": True}, {"self"})
