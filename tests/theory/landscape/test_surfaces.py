import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.models import Subject, networks
from sigmascope.models.curvature import losses_at
from sigmascope.models.networks import mlp
from sigmascope.theory.landscape import input_regions, loss_line, loss_surface
from tests.theory.landscape.test_conditioning import data, net

D = torch.float64


def digits_like(seed=0):
    g = torch.Generator().manual_seed(seed)
    net = mlp(inputs=5, outputs=3, depth=2, width=8, norm="batch", generator=g).double()
    return net, torch.randn(30, 5, generator=g, dtype=D), torch.randint(3, (30,), generator=g)


def state_of(net):
    return {k: v.clone() for k, v in net.state_dict().items()}


@pytest.mark.parametrize("plane", ["random", "hessian"])
def test_the_centre_is_the_model_and_nothing_is_changed(plane):
    net, x, y = digits_like()
    before, storage = state_of(net), [p.data_ptr() for p in net.parameters()]
    g = torch.Generator().manual_seed(1)
    found = loss_surface(
        net, x, targets=y, loss=F.cross_entropy, plane=plane, points=5, generator=g
    )
    assert found.losses.shape == (5, 5)
    assert found.losses[2, 2].item() == pytest.approx(F.cross_entropy(net(x), y).item(), rel=1e-12)
    net.load_state_dict(before)  # the forward pass above moved the running statistics
    assert [p.data_ptr() for p in net.parameters()] == storage


def test_each_point_is_the_loss_of_the_network_with_those_weights():
    (net, x, y), (other, *_) = digits_like(), digits_like(1)
    net.eval()
    other.eval()
    found = loss_line(net, other.state_dict(), x, targets=y, loss=F.cross_entropy, points=7)
    want = []
    mine, theirs = net.state_dict(), other.state_dict()
    between = mlp(inputs=5, outputs=3, depth=2, width=8, norm="batch").double().eval()
    for t in found.xs.tolist():
        mixed = {
            k: v + t * (theirs[k] - v) if v.is_floating_point() else v for k, v in mine.items()
        }
        between.load_state_dict(mixed)
        want.append(F.cross_entropy(between(x), y).item())
    assert found.losses[0].tolist() == pytest.approx(want, rel=1e-12)
    assert found.along == ""
    assert found.xs[0].item() == -0.25


def test_random_directions_are_as_long_as_the_rows_of_the_weights():
    net = nn.Linear(4, 3).double()
    x, y = torch.randn(6, 4, dtype=D), torch.zeros(6, 3, dtype=D)
    with torch.no_grad():
        net.weight[1] *= 100
        net.weight[2] = 0
    loss = lambda out, _: out.square().mean()
    found = loss_surface(net, x, targets=y, loss=loss, points=3, extent=1.0)
    # a row of zeros has nowhere to go: only the first two rows move, the long one by its length
    at = lambda i, j: found.losses[i, j].item()
    assert at(1, 1) == pytest.approx(loss(net(x), y).item())
    assert at(1, 2) > 0.1 * at(1, 1)


def test_along_the_hessians_directions_the_loss_bends_as_it_says():
    net, x, y = digits_like(3)
    net.train()
    s = Subject(net, x, y, F.cross_entropy)
    found = loss_surface(
        net,
        x,
        targets=y,
        loss=F.cross_entropy,
        plane="hessian",
        points=3,
        extent=1e-5,
        generator=torch.Generator().manual_seed(0),
    )
    size = torch.cat([p.flatten() for p in net.parameters()]).norm().item()
    step = 1e-5 * size
    L = found.losses
    for second, name in (
        (L[1, 0] - 2 * L[1, 1] + L[1, 2], found.across),
        (L[0, 1] - 2 * L[1, 1] + L[2, 1], found.along),
    ):
        said = float(name.removeprefix("curvature "))
        assert second.item() / step**2 == pytest.approx(said, rel=2e-2, abs=1e-3)
    top = torch.linalg.eigvalsh(s.curvature().operator.dense())
    assert float(found.across.split()[-1]) == pytest.approx(top[-1].item(), rel=1e-3)
    assert float(found.along.split()[-1]) == pytest.approx(top[0].item(), rel=1e-2)


def test_surfaces_that_cannot_be_measured_are_refused(as_users_see_it):
    net, x, y = digits_like()
    say = {"targets": y, "loss": F.cross_entropy}
    with pytest.raises(Refusal, match="`points` must be at least 3, got 2"):
        loss_surface(net, x, **say, points=2)
    with pytest.raises(Refusal, match="`extent` must be positive"):
        loss_surface(net, x, **say, extent=-1.0)
    with pytest.raises(Refusal, match="`plane` must be `random` or `hessian`"):
        loss_surface(net, x, **say, plane="line")
    with pytest.raises(Refusal, match="must differ from the model"):
        loss_line(net, net.state_dict(), x, **say)
    with pytest.raises(Refusal, match="none such for"):
        loss_line(net, {}, x, **say)
    wrong = [{"hidden.0.weight": torch.zeros(2)}]
    with pytest.raises(Refusal, match="must have the shapes of the model"):
        losses_at(Subject(net, x, y, F.cross_entropy), wrong, torch.zeros(1, 1, dtype=D))
    for p in net.parameters():
        p.requires_grad_(requires_grad=False)
    with pytest.raises(Refusal, match="weights that are trained"):
        loss_surface(net, x, **say)


def test_the_plane_goes_through_the_samples():
    x = data()[0]
    found = input_regions(net(), x, samples=(4, 1, 2))
    three = x[[4, 1, 2]].double()
    for i in range(3):
        for j in range(i):
            apart = float((found.at[i] - found.at[j]).norm()) * found.half
            assert apart == pytest.approx(float((three[i] - three[j]).norm()), rel=1e-9)
    assert float(found.at.abs().max()) == pytest.approx(0.6)


def test_the_model_stays_in_float32():
    model = net().float()
    before = [p.clone() for p in model.parameters()]
    input_regions(model, data()[0].float())
    for p, q in zip(model.parameters(), before, strict=True):
        assert torch.equal(p, q)
        assert p.dtype == torch.float32


def test_samples_without_a_plane_are_refused(as_users_see_it):
    model, x = net(), data()[0]
    with pytest.raises(Refusal, match="must be a tensor"):
        input_regions(model, (x,))
    with pytest.raises(Refusal, match="must be three of 12, all different"):
        input_regions(model, x, samples=(0, 0, 1))
    with pytest.raises(Refusal, match="must be three of 12"):
        input_regions(model, x, samples=(0, 1, 12))
    x[2] = 2 * x[1] - x[0]
    with pytest.raises(Refusal, match="must not lie on a line"):
        input_regions(model, x)
    with pytest.raises(Refusal, match="running statistics"):
        input_regions(networks.mlp(inputs=5, outputs=3, norm="batch"), data()[0].float())
