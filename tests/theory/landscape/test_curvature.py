import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.models import Subject
from sigmascope.models.networks import mlp
from sigmascope.theory.landscape import curvature

D = torch.float64


def trained(width=9):
    g = torch.Generator().manual_seed(0)
    net = mlp(inputs=6, outputs=3, depth=3, width=width, generator=g).double()
    x, y = torch.randn(40, 6, generator=g, dtype=D), torch.randint(3, (40,), generator=g)
    return net, x, {"targets": y, "loss": F.cross_entropy}


@pytest.mark.parametrize("kind", ["hessian", "gauss-newton", "fisher"])
def test_every_number_holds_the_dense_one(kind):
    net, x, say = trained()
    H = Subject(net, x, **say).curvature(kind).operator.dense()
    lam = torch.linalg.eigvalsh((H + H.mT) / 2)
    g = torch.Generator().manual_seed(1)
    found = curvature(net, x, **say, kind=kind, generator=g)
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
    net, x, say = trained(width=8)
    layers = ["hidden.0.linear", "readout"]
    found = curvature(net, x, **say, layers=layers)
    assert [p.site for p in found.parts] == layers
    for part in found.parts:
        H = Subject(net, x, **say).curvature(layers=[part.site]).operator.dense()
        assert part.trace.value == pytest.approx(H.trace().item(), rel=1e-10)
        assert part.frobenius.value == pytest.approx(H.norm().item(), rel=1e-10)
        assert part.density.how == part.top.how == "exact"


def test_piecewise_linear_networks_have_no_downward_curvature_within_a_layer():
    net, x, say = trained()
    layers = [f"hidden.{i}.linear" for i in range(3)]
    for part in curvature(net, x, **say, layers=layers).parts:
        assert part.bottom.value > -1e-12


def test_the_same_generator_gives_the_same_numbers():
    net, x, say = trained()
    one, two = (
        curvature(net, x, generator=torch.Generator().manual_seed(3), **say).parts[0].trace
        for _ in range(2)
    )
    assert one == two


NAMES = ("top", "bottom", "trace", "frobenius", "density")


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_asked_for_is_measured_and_paid(name):
    net, x, say = trained()
    ask = say | {"steps": 6, "samples": 2}
    part = curvature(net, x, only=[name], **ask).parts[0]
    shares = {"upwards", "downwards"} if name == "density" else set()
    for other in {*NAMES, "upwards", "downwards"}:
        assert (getattr(part, other) is not None) == (other in {name, *shares})
    assert curvature(net, x, only=[name], **ask).check is None
    assert part.products == 6 + {"trace": 16, "frobenius": 16, "density": 12}.get(name, 0)
    whole = curvature(net, x, **ask).parts[0]
    assert whole.products == 6 + 16 + 12
    if name != "density":
        assert getattr(part, name) == getattr(whole, name)


@pytest.mark.parametrize(
    ("tolerance", "seeds"),
    [(0.3, 4), *(pytest.param(t, 12, marks=pytest.mark.slow) for t in (0.1, 0.03))],
)
def test_a_tolerance_is_met_and_spends_less_when_it_is_wider(tolerance, seeds):
    net, x, say = trained(width=24)
    H = Subject(net, x, **say).curvature().operator.dense()
    lam = torch.linalg.eigvalsh((H + H.mT) / 2)
    errors, spent = {"top": [], "trace": [], "frobenius": []}, []
    for seed in range(seeds):
        g = torch.Generator().manual_seed(seed)
        only = list(errors)
        part = curvature(net, x, only=only, tolerance=tolerance, **say, generator=g).parts[0]
        spent.append(part.products)
        for name, true in (("top", lam[-1]), ("trace", lam.sum()), ("frobenius", lam.norm())):
            e = getattr(part, name)
            errors[name].append((e.value / true.item() - 1) ** 2)
            assert e.low <= true <= e.high
    for name, found in errors.items():
        assert (sum(found) / len(found)) ** 0.5 <= 1.5 * tolerance, name
    narrow = curvature(net, x, only=only, tolerance=tolerance / 10, **say).parts[0]
    assert max(spent) < narrow.products <= 2 * 512


def test_the_trace_alone_ends_sooner_than_all_settled_ends_would():
    net, x, say = trained(width=24)
    ask = say | {"tolerance": 1e-6}
    top = curvature(net, x, only=["top"], **ask).parts[0]
    both = curvature(net, x, only=["top", "bottom"], **ask).parts[0]
    assert top.products <= both.products < 120
    assert top.top.value == pytest.approx(both.top.value, rel=1e-5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"only": []}, "must name some of top, bottom, trace, frobenius, density, check, got none"),
        (
            {"only": ["largest"]},
            "`only` must be .* `trace`.* begins with the text 'largest'",
        ),
        ({"tolerance": 0.0}, "`tolerance` must be a relative error above 0 and below 1, got 0.0"),
        ({"tolerance": float("nan")}, "got nan"),
        ({"steps": 1}, "must be at least 2"),
        ({"kind": "hessian"}, "depends on targets"),
    ],
    ids=["nothing", "unknown", "zero", "nan", "steps", "targets"],
)
def test_what_cannot_be_asked_is_refused(as_users_see_it, wrong, words):
    with pytest.raises(Refusal, match=words):
        curvature(nn.Linear(3, 2), torch.ones(4, 3), **({"kind": "gauss-newton"} | wrong))
