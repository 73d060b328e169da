import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Verdict
from sigmascope.models import Subject
from sigmascope.models.gradients import trial_gradients
from sigmascope.theory.le2022 import conservation
from sigmascope.theory.le2022.conservation import rates
from tests.models_zoo import MODELS, Net
from tests.sampling import some
from tests.theory.le2022.conservation.wrong_backward import Wrong
from tests.theory.le2022.networks import KINDS, dense, mlp


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_the_softmax_head_conserves_its_column_sums():
    net = mlp(nn.ReLU, 4, 6, 3).double()
    x, y = drawn(5, 4).double(), torch.tensor([0, 1, 2, 1, 0])
    without = conservation.invariants(net, x)
    with_loss = conservation.invariants(net, x, targets=y, loss=F.cross_entropy)
    sums = {i.tensors[0]: i for i in with_loss if i.kind == "column sum"}
    assert set(sums) == {"2.weight", "2.bias"}
    assert not [i for i in without if i.kind == "column sum"]
    weight = dict(net.named_parameters())
    assert torch.allclose(sums["2.weight"].value(weight), net[2].weight.sum(0))


def test_fixed_sides_say_why():
    net = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 2))
    fixed = {(f.tensor, f.side): f.why for f in conservation.conserved(net, drawn(3, 4)).fixed}
    assert "gelu" in fixed["0.weight", "rows"]
    assert "gelu" in fixed["2.weight", "columns"]
    assert "output" in fixed["2.weight", "rows"]
    assert "input" in fixed["0.weight", "columns"]


def test_a_frozen_layer_takes_part_in_no_balance():
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    net[2].requires_grad_(False)
    assert conservation.invariants(net, drawn(3, 4)) == ()


@pytest.mark.parametrize(
    "between", [lambda h: Wrong.apply(h), lambda h: F.relu(h).detach()], ids=["wrong", "detached"]
)
def test_a_wrong_backward_and_a_detached_part_are_found(between):
    torch.default_generator.manual_seed(0)  # how wrong it is depends on the draw
    net = Net(lambda n, x: n.b(between(n.a(x))), a=nn.Linear(4, 6), b=nn.Linear(6, 2))
    found = conservation.conserved(net, drawn(7, 4))
    assert [i.tensors for i in found.broken] == [("b.weight", "a.weight", "a.bias")]
    assert found.broken[0].rate > 1e-2
    assert not found.invariants


@pytest.mark.parametrize("name", some(MODELS))
def test_every_model_of_the_zoo_is_left_as_found_and_its_claims_hold(name):
    model, batch = MODELS[name]()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state, modes = torch.get_rng_state(), [m.training for m in model.modules()]
    if name in ("all-frozen", "inplace-residual"):  # the second has no gradient: torch refuses it
        with pytest.raises(Refusal, match="trained"):
            conservation.conserved(model, batch)
        return
    found = conservation.conserved(model, batch)
    assert not found.broken
    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def regressed(dtype, steps):
    """A linear network that has reached its stationary point, with its data."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 5, generator=g).to(dtype)
    y = x @ torch.randn(5, 3, generator=g).to(dtype) + 0.1 * torch.randn(64, 3, generator=g).to(
        dtype
    )
    net = dense(5, 7, 3).to(dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()
    return net, x, y


def interpolated(dtype):
    """A network with BatchNorm that fits its labels until the loss is rounding."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(32, 5, generator=g).to(dtype), torch.randint(3, (32,), generator=g)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    net = net.to(dtype)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        net[3].weight *= 8
        net[3].bias *= 8
    return net, x, y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_correct_model_at_a_stationary_point_is_not_broken(dtype):
    net, x, y = regressed(dtype, 1500)
    facts = conservation.BalanceRate.facts(Subject(net, x, y, F.mse_loss))
    assert {t.check().verdict for t in facts} == {Verdict.HOLDS}
    net, x, y = interpolated(dtype)
    found = conservation.conserved(net, x, targets=y, loss=F.cross_entropy)
    assert not found.broken
    assert {i.kind for i in found.invariants} >= {"norm", "neuron", "column sum"}


def test_a_wrong_backward_is_told_at_a_stationary_point_too():
    net, x, y = regressed(torch.float32, 1500)
    half = Net(lambda _, h: h / 2 + h.detach() / 2)  # of it detached from the gradient
    wrong = nn.Sequential(net[0], half, net[1])
    found = conservation.conserved(wrong, x, targets=y, loss=F.mse_loss)
    assert found.broken
    assert not found.invariants


def test_a_gradient_of_rounding_alone_tells_nothing():
    """A softmax so sure of itself that its derivative is a rounding error."""
    (theorem,) = conservation.BalanceRate.facts(Subject(dense(4, 6, 3), torch.ones(2, 4).double()))
    noisy = replace(theorem.invariant, rate=0.3, noise=math.inf)
    found = replace(theorem, invariant=noisy).check()
    assert found.verdict == Verdict.CONSISTENT
    assert [a.met for a in found.assumptions] == [True, True, None]


def test_losses_of_one_precision_and_of_any_are_weighted_by_sample():
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    model, y = dense(4, 6, 3).float(), torch.ones(6, 3)

    def single(out, targets):
        if out.dtype != torch.float32:
            raise TypeError("float32 only")
        return F.mse_loss(out, targets)

    weighted = [
        dict(trial_gradients(model, x, targets=y, loss=loss, pull="reweighted"))
        for loss in (F.mse_loss, single)
    ]
    for name, g in weighted[0].items():
        assert torch.allclose(g, weighted[1][name], rtol=1e-4, atol=1e-6)
    plain = dict(trial_gradients(model, x, targets=y, loss=F.mse_loss))
    moved = dict(trial_gradients(model, x, targets=y, loss=F.mse_loss, nudge=1e-6))
    for name, g in plain.items():
        assert 0 < float((g - moved[name]).norm()) < 1e-3 * float(g.norm())


@pytest.mark.parametrize("nudged", [0, 1, 3])
def test_rounding_is_seen_by_as_many_changes_as_were_asked_for_each_larger(monkeypatch, nudged):
    seen = []

    def watched(*given, nudge=0.0, **named):
        seen.append(nudge)
        return trial_gradients(*given, nudge=nudge, **named)

    monkeypatch.setattr(rates, "trial_gradients", watched)
    net, x, y = regressed(torch.float64, 1)
    made = rates.TrialGradient.of(Subject(net, x, y, F.mse_loss), "loss", nudged=nudged)
    own = sorted(n for n in seen if n)
    assert own == [k * rates.NUDGES * 2.0**-52 for k in range(1, nudged + 1)]
    assert len(made.others) == nudged
    assert (made.contributions is None) == (nudged == 0)


@pytest.mark.parametrize(
    ("told", "noise"),
    [
        ([(0.0, 1e-4), (0.0, 1e-6), (0.0, 1e-5)], 1e-6),
        ([(0.9, 1e-7), (0.0, 1e-5), (0.0, 1e-4)], 1e-5),  # one that keeps it, though others do not
        ([(0.9, 1e-5), (0.9, 1e-6), (0.9, 1e-4)], 1e-6),
    ],
)
def test_of_several_gradients_that_with_the_least_rounding_is_believed(monkeypatch, told, noise):
    net, x, y = regressed(torch.float64, 1)
    subject = Subject(net, x, y, F.mse_loss)
    claim = next(iter(rates.claims(rates.symmetries_of(Subject(net, x)))))
    measured = iter([(0.9, math.inf), *told])

    def measure(self, claim):
        rate, rounding = next(measured)
        return replace(claim, rate=rate, exactness=1e-9, noise=rounding)

    monkeypatch.setattr(rates.TrialGradient, "measure", measure)
    (found,) = rates.judged(subject, [claim])
    assert found.noise == noise


def test_rates_hold_and_have_teeth_and_are_silent():
    model, batch = KINDS["pre_norm_block"](0)
    theorems = list(conservation.BalanceRate.facts(Subject(model, batch)))
    assert theorems
    assert {t.check().verdict for t in theorems} == {Verdict.HOLDS}
    limit = theorems[0].invariant.tolerance
    for factor, verdict in ((1 + 1e-6, Verdict.VIOLATED), (1 - 1e-6, Verdict.HOLDS)):
        moved = replace(theorems[0].invariant, rate=factor * limit)
        assert replace(theorems[0], invariant=moved).check().verdict == verdict
    frozen = nn.Linear(3, 2).requires_grad_(False)
    assert list(conservation.BalanceRate.facts(Subject(frozen, torch.ones(2, 3)))) == []


def test_rates_within_eps_are_consistent():
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, eps=1e-2), nn.Linear(6, 2)).double()
    facts = conservation.BalanceRate.facts(Subject(net, drawn(9, 4).double()))
    found = next(t for t in facts if t.site == "0.weight ~ 0.bias")
    assert found.check().verdict == Verdict.CONSISTENT
    assert found.invariant.slack > 1e-3
    assert found.invariant.rate > 1e-6  # it is not exact, and says so


@pytest.mark.parametrize("factor", [0.5, 2.0, -1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("where", ["0.weight", "2.weight", "0.bias", "2"])
def test_a_hook_that_scales_gradients_is_a_contradiction(where, dtype, factor):
    """Also where rounding is measured on parameters that stand in for those with the hook."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3)).to(dtype)
    if where == "2":  # of what goes in
        net[2].register_full_backward_hook(lambda m, own, out: (factor * own[0],))
    else:
        net.get_parameter(where).register_hook(lambda g: factor * g)
    x, y = torch.randn(12, 6, dtype=dtype), torch.randint(3, (12,))
    subject = Subject(net, x, y, nn.functional.cross_entropy)
    verdicts = {t.check().verdict for t in conservation.BalanceRate.facts(subject)}
    assert Verdict.VIOLATED in verdicts


def test_without_a_gradient_nothing_is_said():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():  # every unit of the first layer is off, and nothing reaches it
        net[0].bias.fill_(-100)
    draw = torch.Generator().manual_seed(0)
    subject = Subject(
        net,
        torch.randn(6, 4, generator=draw),
        targets=torch.randint(2, (6,), generator=draw),
        loss=nn.functional.cross_entropy,
    )
    found = {t.site: t.check() for t in conservation.BalanceRate.facts(subject)}
    assert found["2.weight ~ 0.weight ~ 0.bias"].verdict == Verdict.VACUOUS
    assert found["4.bias"].verdict == Verdict.HOLDS  # which has a gradient, whose sum is 0


@pytest.mark.parametrize(("part", "told"), [(0.99, False), (1.01, True)])
def test_gradients_of_which_underflow_took_parts_tell_nothing(part, told):
    """Below the least number over the precision, of single `9.9e-32`, their parts are lost."""
    net, x = dense(4, 6, 3).float(), drawn(5, 4)
    claim = conservation.invariants(net, x)[0]
    trial = rates.TrialGradient.of(Subject(net, x), "random")
    largest = max(float(g.abs().max()) for n, g in trial.gradients.items() if n in claim.tensors)
    scale = part * 2.0**-126 / 2.0**-23 / largest
    small = replace(trial, gradients={n: scale * g for n, g in trial.gradients.items()})
    assert math.isfinite(small.measure(claim).noise) == told
