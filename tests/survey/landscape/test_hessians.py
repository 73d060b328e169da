import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.networks import mlp
from sigmascope.probes import Subject
from sigmascope.survey.landscape import curvature

D = torch.float64


def trained(width=14):
    g = torch.Generator().manual_seed(0)
    net = mlp(inputs=6, outputs=3, depth=3, width=width, generator=g).double()
    x, y = torch.randn(40, 6, generator=g, dtype=D), torch.randint(3, (40,), generator=g)
    return net, x, y


@pytest.mark.parametrize("kind", ["hessian", "gauss-newton", "fisher"])
def test_every_number_holds_the_dense_one(kind):
    net, x, y = trained()
    H = Subject(net, x, y, F.cross_entropy).curvature(kind).operator.dense()
    lam = torch.linalg.eigvalsh((H + H.mT) / 2)
    g = torch.Generator().manual_seed(1)
    found = curvature(net, x, targets=y, loss=F.cross_entropy, kind=kind, generator=g)
    part = found.parts[0]
    floor = 1e-3 * lam.abs().max()
    for e, true in (
        (part.top, lam[-1]),
        (part.bottom, lam[0]),
        (part.trace, lam.sum()),
        (part.frobenius, lam.norm()),
        (part.upwards, (lam > floor).double().mean()),
        (part.downwards, (lam < -floor).double().mean()),
    ):
        assert e.low - 1e-12 <= true.item() <= e.high + 1e-12
    assert part.top.value == pytest.approx(lam[-1].item(), rel=1e-6)
    assert part.parameters == len(H)
    assert found.check.gap < 1e-6


def test_small_blocks_are_exact_and_stand_by_themselves():
    net, x, y = trained(width=8)
    layers = ["hidden.0.linear", "readout"]
    found = curvature(net, x, targets=y, loss=F.cross_entropy, layers=layers)
    assert [p.site for p in found.parts] == layers
    for part in found.parts:
        H = Subject(net, x, y, F.cross_entropy).curvature(layers=[part.site]).operator.dense()
        assert part.trace.value == pytest.approx(H.trace().item(), rel=1e-10)
        assert part.frobenius.value == pytest.approx(H.norm().item(), rel=1e-10)
        assert part.density.how == part.top.how == "exact"


def test_piecewise_linear_networks_have_no_downward_curvature_within_a_layer():
    net, x, y = trained()
    layers = [f"hidden.{i}.linear" for i in range(3)]
    for part in curvature(net, x, targets=y, loss=F.cross_entropy, layers=layers).parts:
        assert part.bottom.value > -1e-12


def test_the_same_generator_gives_the_same_numbers():
    net, x, y = trained()
    say = {"targets": y, "loss": F.cross_entropy}
    one, two = (
        curvature(net, x, generator=torch.Generator().manual_seed(3), **say).parts[0].trace
        for _ in range(2)
    )
    assert one == two


def test_refusals(as_users_see_it):
    net, x = nn.Linear(3, 2), torch.ones(4, 3)
    with pytest.raises(Refusal, match="must be at least 2"):
        curvature(net, x, kind="gauss-newton", steps=1)
    with pytest.raises(Refusal, match="depends on targets"):
        curvature(net, x)
