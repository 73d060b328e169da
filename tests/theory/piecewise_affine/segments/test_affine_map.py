import pytest
import torch
from affine_zoo import NETWORKS, D, built
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.theory.piecewise_affine import (
    jacobian,
    local_affine,
    region_distance,
    regions_along,
    sample_affine,
)


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 50), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", NETWORKS)
def test_the_map_is_the_network_inside_its_region(kind, seeds):
    for seed in seeds:
        model, x, y = built(kind, seed)
        found = local_affine(model, x)
        reach = region_distance(model, x)
        inside = min(reach, 1.0) * 0.999 * (y - x) / (y - x).norm()
        for at in (x, x + inside, x - inside):
            mapped = found.matrix.apply(at.flatten()[:, None])[:, 0] + found.offset
            assert torch.allclose(mapped, model(at).flatten(), rtol=0, atol=1e-12)
            here = local_affine(model, at).regions
            assert all(torch.equal(a, b) for a, b in zip(here, found.regions, strict=True))


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
    with pytest.raises(Refusal, match=says + r".*theory\.piecewise_affine\.jacobian"):
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
    assert torch.equal(sample_affine(s, 1).matrix.dense(), local_affine(model, y).matrix.dense())
    with pytest.raises(Refusal, match="got sample 2 of 2 in a Tensor"):
        sample_affine(s, 2)
