from itertools import pairwise

import pytest
import torch
from affine_zoo import NETWORKS, D, built
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.probes.piecewise_affine import (
    jacobian,
    local_affine,
    region_distance,
    regions_along,
)


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_map_is_the_network_inside_its_region(kind):
    for seed in range(50):
        model, x, y = built(kind, seed)
        found = local_affine(model, x)
        reach = region_distance(model, x)
        inside = min(reach, 1.0) * 0.999 * (y - x) / (y - x).norm()
        for at in (x, x + inside, x - inside):
            mapped = found.matrix.apply(at.flatten()[:, None])[:, 0] + found.offset
            assert torch.allclose(mapped, model(at).flatten(), rtol=0, atol=1e-12)
            here = local_affine(model, at).regions
            assert all(torch.equal(a, b) for a, b in zip(here, found.regions, strict=True))


@pytest.mark.parametrize("kind", [k for k in NETWORKS if k != "linear"])
def test_beyond_the_nearest_boundary_something_changes(kind):
    """Along the segment, the pattern is another one in every region and one within each."""
    model, x, y = built(kind)
    found = regions_along(model, x, y)
    assert found.count == len(found.at) + 1
    assert found.count > 1
    if found.at:
        assert found.at[0] * float((y - x).norm()) >= region_distance(model, x) * (1 - 1e-9)
    ends = [0.0, *found.at, 1.0]
    before = None
    for low, high in pairwise(ends[:13]):
        if high - low < 1e-8:
            continue
        first, last = (local_affine(model, x + t * (y - x)) for t in _within(low, high))
        assert all(torch.equal(a, b) for a, b in zip(first.regions, last.regions, strict=True))
        if before is not None:
            same = [torch.equal(a, b) for a, b in zip(before, first.regions, strict=True)]
            assert not all(same)
        before = last.regions


def _within(low, high):
    return low + 0.01 * (high - low), high - 0.01 * (high - low)


def test_the_regions_of_one_layer_are_counted_by_hand():
    model = nn.Sequential(nn.Linear(1, 3), nn.ReLU()).double()
    with torch.no_grad():
        model[0].weight.fill_(1)
        model[0].bias.copy_(torch.tensor([-0.25, -0.5, -2.0]))
    found = regions_along(model, torch.zeros(1, 1, dtype=D), torch.ones(1, 1, dtype=D))
    assert found.count == 3
    assert found.at == pytest.approx((0.25, 0.5))
    assert region_distance(model, torch.zeros(1, 1, dtype=D)) == pytest.approx(0.25)


def test_a_linear_network_has_one_region():
    model, x, y = built("linear")
    assert regions_along(model, x, y).count == 1
    assert region_distance(model, x) == float("inf")


def test_a_part_of_a_network():
    model, x, _ = built("relu")
    found = local_affine(model, x, start="hidden.1", stop="hidden.2.linear")
    z = model.hidden[0](x)
    assert found.matrix.shape == (7, 7)
    assert torch.allclose(found.output, model.hidden[2].linear(model.hidden[1](z)).flatten())
    W1, W2 = model.hidden[1].linear.weight, model.hidden[2].linear.weight
    on = (model.hidden[1].linear(z) > 0).double()
    assert torch.allclose(found.matrix.dense(), W2 @ (on.T * W1), atol=1e-14)


def test_large_maps_are_products_and_agree(monkeypatch):
    from sigmascope.probes.piecewise_affine import segments

    model, x, _ = built("max-pooling")
    dense = local_affine(model, x).matrix.dense()
    monkeypatch.setattr(segments, "DENSE", 0)
    free = local_affine(model, x).matrix
    v, y = torch.randn(200, 3, dtype=D), torch.randn(4, 2, dtype=D)
    assert torch.allclose(free.apply(v), dense @ v, atol=1e-13)
    assert torch.allclose(free.adjoint(y), dense.mT @ y, atol=1e-13)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (nn.GELU(), "got `Gelu`"),
        (nn.Tanh(), "got `Tanh`"),
        (nn.LayerNorm(6), "got `NativeLayerNorm`"),
        (nn.Softmax(1), "got `Softmax`"),
    ],
)
def test_smooth_parts_are_refused_by_name_and_have_a_jacobian(module, says):
    model = nn.Sequential(nn.Linear(5, 6), module, nn.Linear(6, 2)).double()
    x = torch.randn(1, 5, dtype=D)
    with pytest.raises(Refusal, match=says + r".*probes\.piecewise_affine\.jacobian"):
        local_affine(model, x)
    with pytest.raises(Refusal, match="boundaries of the regions must be known"):
        region_distance(model, x)
    J = jacobian(model, x)
    reference = torch.func.jacrev(model)(x).reshape(2, 5)
    assert torch.allclose(J.dense(), reference, atol=1e-14)


class Product(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.layer, self.how = nn.Linear(4, 4), how

    def forward(self, x):
        return self.how(self.layer(x), x)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda a, b: a * b, "a product"),
        (lambda a, b: a @ b.mT, "a product"),
        (lambda a, b: 1 / a, "Reciprocal|division"),
    ],
)
def test_products_of_two_things_that_depend_on_the_input_are_refused(how, says):
    with pytest.raises(Refusal, match=says):
        local_affine(Product(how).double(), torch.randn(1, 4, dtype=D))


def test_products_with_constants_are_affine():
    model = Product(lambda a, b: 2 * a / 3 - b).double()
    x = torch.randn(1, 4, dtype=D)
    expected = 2 / 3 * model.layer.weight - torch.eye(4, dtype=D)
    assert torch.allclose(local_affine(model, x).matrix.dense(), expected)


def test_batch_statistics_unknown_kinks_and_shapes_are_refused(as_users_see_it):
    norm = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).double()
    x = torch.randn(1, 3, dtype=D)
    with pytest.raises(Refusal, match="got `1`, which takes those of the batch"):
        local_affine(norm, x)
    with pytest.raises(Refusal, match="one sample with its batch dimension"):
        local_affine(norm.eval(), torch.randn(2, 3, dtype=D))
    with pytest.raises(Refusal, match="There is no module 'nowhere'"):
        local_affine(norm, x, start="nowhere")
    with pytest.raises(Refusal, match="must have the same shape"):
        regions_along(norm, x, x[:, :2])
    top = Product(lambda a, b: (a + b).sort(1)[0]).double()
    with pytest.raises(Refusal, match="got sort"):
        region_distance(top, torch.randn(1, 4, dtype=D))


def test_the_model_is_left_as_it_was():
    model, x, _ = built("batch norm")
    model.train()
    model.eval()
    modes = [m.training for m in model.modules()]
    local_affine(model, x, start="hidden.1", stop="hidden.2")
    assert [m.training for m in model.modules()] == modes
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_the_map_of_a_subject_is_that_of_its_sample():
    model, x, y = built("relu")
    s = Subject(model, torch.cat([x, y]))
    assert torch.equal(s.local_affine(1).matrix.dense(), local_affine(model, y).matrix.dense())
    with pytest.raises(Refusal, match="got sample 2 of 2 in a Tensor"):
        s.local_affine(2)
