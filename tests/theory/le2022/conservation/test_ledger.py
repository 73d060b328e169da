import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.records import Verdict
from sigmascope.theory.le2022 import conservation
from sigmascope.theory.le2022.conservation.ledger import rounding
from tests.theory.le2022.conservation.two_layers import X, Y, balances, data, dense, network
from tests.theory.le2022.networks import KINDS


def watched(net, *optimizers, of=None, **options):
    found = conservation.invariants(net, data(0)[0] if of is None else of)
    return conservation.Ledger(net, found, **options).watching(*optimizers)


def train(net, optimizer, steps, *, of=None, batch=24, seed=0, before_step=None):
    x, y = of or data(seed)
    g = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rows = torch.randperm(len(x), generator=g)[:batch]
        optimizer.zero_grad()
        F.cross_entropy(net(x[rows]), y[rows]).backward()
        if before_step is not None:
            before_step(step)
        optimizer.step()


@pytest.mark.parametrize("options", [
    {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.05},
    {"momentum": 0.8, "weight_decay": 0.05},
    {"momentum": 0.8, "weight_decay": 0.05, "nesterov": True},
    {"weight_decay": 0.05},
])  # fmt: skip
def test_dampened_and_decayed_steps_are_exact_from_the_first(options):
    net = dense(4, 5, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, **options)
    with watched(net, optimizer, of=X) as ledger:
        train(net, optimizer, 6, of=(X, Y))
    for drift in ledger.drifts():
        assert float((drift.now - drift.start - drift.expected).abs().max()) < 1e-13
        assert drift.drift > 1e-4
        assert (drift.suspects, drift.since) == ((), None)


def test_what_rounding_may_do_is_a_random_walk():
    """`16 u √steps max ‖W‖²`."""
    net = dense(4, 5, 3, bias=False)
    (found,) = balances(net)
    size = max(float(p.detach().square().sum()) for p in net.parameters())
    weights = dict(net.named_parameters())
    for steps in (1, 100):
        allowed = 16 * 2.0**-53 * math.sqrt(steps) * size
        assert rounding(found, weights, steps) == pytest.approx(allowed)
    assert rounding(found, weights, 0) == rounding(found, weights, 1)
    single = {n: p.float() for n, p in weights.items()}
    assert rounding(found, single, 1) == pytest.approx(16 * 2.0**-24 * size, rel=1e-6)


def test_what_the_fall_of_the_loss_allows():
    """`2 η (L(0) - L(T)) (1 + μ) / (1 - μ)²` on top of rounding: 2 · 0.1 · 3 · 6 for μ = 1/2."""
    net = dense(4, 5, 3, bias=False)
    found, weights = balances(net), dict(net.named_parameters())

    def allowed(**options):
        return next(conservation.endpoint_drifts(found, weights, weights, **options)).allowed

    still = allowed(learning_rate=0.0, loss_drop=0.0)
    assert still == rounding(found[0], weights, 1)
    assert allowed(learning_rate=0.0, loss_drop=0.0, steps=4) == pytest.approx(2 * still)
    assert allowed(learning_rate=0.1, loss_drop=3.0) == pytest.approx(0.6)
    assert allowed(learning_rate=0.1, loss_drop=3.0, momentum=0.5) == pytest.approx(3.6)
    for wrong in ({"momentum": -0.1}, {"learning_rate": -0.1}, {"loss_drop": -0.1}):
        with pytest.raises(ValueError, match="must be at least 0"):
            allowed(**({"learning_rate": 0.1, "loss_drop": 1.0} | wrong))


def test_end_points_accept_what_was_conserved_and_reject_what_was_not():
    x, y = data(0, n=40)
    net = network(7)
    found = conservation.invariants(net, x)
    before = {n: p.detach().clone() for n, p in net.named_parameters()}
    start = F.cross_entropy(net(x), y)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    train(net, optimizer, 100, of=(x, y), batch=40)
    drop = float((start - F.cross_entropy(net(x), y)).detach())
    after = dict(net.named_parameters())
    drifts = list(
        conservation.endpoint_drifts(
            found, before, after, learning_rate=0.01, loss_drop=drop, steps=100
        )
    )
    for d in drifts:
        change = d.now - d.start
        own = change.diagonal() if change.ndim == 2 else change
        assert float(own.abs().max()) <= d.allowed
        whole = (d.invariant.matrix(after) - d.invariant.matrix(before)).abs()
        assert float(whole.max()) > d.allowed  # units of different patterns are not balanced
    with torch.no_grad():
        net[0].weight *= 1.3
    broken = conservation.endpoint_drifts(found, before, after, learning_rate=0.01, loss_drop=drop)
    assert next(broken).verdict == Verdict.VIOLATED
    unknown = conservation.endpoint_drifts(found, before, after)
    assert {d.verdict for d in unknown} == {Verdict.INAPPLICABLE}


def test_end_points_refuse_other_checkpoints():
    net = network(0)
    found = conservation.invariants(net, data(0)[0])
    good = dict(net.named_parameters())
    with pytest.raises(ValueError, match=r"must hold the parameter `2\.weight`"):
        list(conservation.endpoint_drifts(found, good, {"0.weight": good["0.weight"]}))
    with pytest.raises(ValueError, match="one shape in both"):
        list(conservation.endpoint_drifts(found, good, {**good, "2.weight": good["2.weight"][:2]}))
    with pytest.raises(ValueError, match="momentum"):
        list(conservation.endpoint_drifts(found, good, good, momentum=1.0))


STEPS = 30


OPTIONS = {
    "gradient descent": ({"lr": 0.1}, 24),
    "minibatches": ({"lr": 0.1}, 5),
    "heavy ball": ({"lr": 0.05, "momentum": 0.9}, 5),
    "dampened": ({"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.01}, 5),
    "nesterov": ({"lr": 0.05, "momentum": 0.9, "nesterov": True}, 5),
    "weight decay": ({"lr": 0.1, "weight_decay": 0.01}, 5),
    "all": ({"lr": 0.05, "momentum": 0.7, "weight_decay": 0.02, "nesterov": True}, 5),
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("act", "blocks"), [(nn.Identity, True), (nn.ReLU, False)], ids=["blocks", "units"]
)
def test_the_identities_are_exact(options, act, blocks):
    keywords, batch = OPTIONS[options]
    net = network(1, act)
    x, _ = data(0)
    optimizer = torch.optim.SGD(net.parameters(), **keywords)
    found = conservation.invariants(net, x)
    with conservation.Ledger(net, found, blocks=blocks).watching(optimizer) as ledger:
        train(net, optimizer, STEPS, batch=batch)
    for drift in ledger.drifts():
        gap = drift.now - drift.start - drift.expected
        gap = gap.diagonal() if gap.ndim == 2 and act is nn.ReLU else gap
        assert float(gap.abs().max()) < 1e-10
        assert drift.drift > 1e-4  # it is the identity that is exact, not the balance


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_in_low_precision_units_keep_their_balance_up_to_what_is_allowed(options, dtype):
    keywords, batch = OPTIONS[options]
    net = network(1, nn.ReLU)
    found = conservation.invariants(net, data(0)[0])
    net = net.to(dtype)
    optimizer = torch.optim.SGD(net.parameters(), **keywords)
    with conservation.Ledger(net, found, blocks=False).watching(optimizer) as ledger:
        x, y = data(0)
        train(net, optimizer, STEPS, of=(x.to(dtype), y), batch=batch)
        drifts = ledger.drifts()
    assert drifts
    assert all(d.verdict is not Verdict.VIOLATED for d in drifts)
    if dtype == torch.float32:
        assert max(d.residual for d in drifts) < 1e-4 < max(d.drift for d in drifts)


def test_units_by_themselves_are_the_diagonals_of_their_blocks():
    net = network(5, nn.ReLU)
    x, _ = data(0)
    found = conservation.invariants(net, x)
    assert any(i.kind == "pair" for i in found)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    whole = conservation.Ledger(net, found).watching(optimizer)
    units = conservation.Ledger(net, found, blocks=False).watching(optimizer)
    with whole, units:
        train(net, optimizer, 20)
    for one, other in zip(whole.drifts(), units.drifts(), strict=True):
        assert other.invariant.diagonal
        for name in ("start", "now", "expected"):
            mine, theirs = getattr(other, name), getattr(one, name)
            theirs = theirs.diagonal() if theirs.ndim == 2 else theirs
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_a_schedule_and_a_late_start_are_followed():
    net = network(2, nn.Identity)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98)
    train(net, optimizer, 20)
    with watched(net, optimizer) as ledger:
        train(net, optimizer, 50, before_step=lambda _: schedule.step())
    assert max(d.residual for d in ledger.drifts()) < 1e-11


def test_sums_of_a_softmax_head_are_followed():
    net = network(3)
    x, y = data(0)
    found = conservation.invariants(net, x, targets=y, loss=F.cross_entropy)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5, weight_decay=0.01)
    with conservation.Ledger(net, found).watching(optimizer) as ledger:
        train(net, optimizer, 100)
    sums = [d for d in ledger.drifts() if d.invariant.kind == "column sum"]
    assert len(sums) == 2
    assert all(d.verdict == Verdict.HOLDS for d in sums)
    assert max(d.drift for d in sums) > 1e-3  # by weight decay alone


@pytest.mark.parametrize("name", ["conv_groups", "pre_norm_block", "resnet_free", "batch_norm"])
def test_other_networks_keep_their_balances(name):
    net, batch = KINDS[name](0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
    with watched(net, optimizer, of=batch) as ledger:
        for _ in range(40):
            optimizer.zero_grad()
            net(*batch).square().mean().backward()
            optimizer.step()
    for d in ledger.drifts():
        assert d.verdict in (Verdict.HOLDS, Verdict.CONSISTENT) or d.invariant.kind == "pair"


def test_drift_halves_with_the_step():
    def drift(rate, steps):
        net = network(4, nn.Identity)
        x, y = data(0)
        found = conservation.invariants(net, x)
        with conservation.Ledger(net, found) as ledger:
            for _ in range(steps):
                grads = torch.autograd.grad(F.cross_entropy(net(x), y), list(net.parameters()))
                named = dict(zip(dict(net.named_parameters()), grads, strict=True))
                ledger.observe(named, learning_rate=rate)
                with torch.no_grad():
                    for p, g in zip(net.parameters(), grads, strict=True):
                        p -= rate * g
        assert all(d.verdict == Verdict.HOLDS for d in ledger.drifts())
        return max(d.drift for d in ledger.drifts())

    drifts = [drift(0.1 / 2**k, 50 * 2**k) for k in range(3)]
    assert drifts[0] / drifts[1] == pytest.approx(2, abs=0.05)
    assert drifts[1] / drifts[2] == pytest.approx(2, abs=0.03)


def run(seed, sabotage=None, dtype=torch.float64):
    """One run of a network and options drawn from a seed; its drifts."""
    net = network(seed, (nn.ReLU, nn.Identity)[seed % 2]).to(dtype)
    x, y = data(seed)
    x = x.to(dtype)
    keywords = list(OPTIONS.values())[seed % len(OPTIONS)][0]
    optimizer = torch.optim.SGD(net.parameters(), **keywords)
    with watched(net, optimizer, of=x) as ledger:
        before = None if sabotage is None else lambda step: sabotage(net, optimizer, step)
        train(net, optimizer, 40, of=(x, y), batch=8, seed=seed, before_step=before)
    return ledger.drifts()


def doubled_rate(net, optimizer, step):
    if step == 0:
        first, *rest = optimizer.param_groups[0]["params"]
        optimizer.param_groups[0]["params"] = rest
        optimizer.add_param_group(
            {**optimizer.param_groups[0], "params": [first], "lr": 2 * optimizer.defaults["lr"]}
        )


def hidden_rate(net, optimizer, step):
    net[2].weight.grad *= 2


def clipped(net, optimizer, step):
    g = net[0].weight.grad
    g.clamp_(-0.3 * float(g.abs().max()), 0.3 * float(g.abs().max()))


def frozen(net, optimizer, step):
    if step >= 20:
        net[2].weight.grad = None


def wrong_backward(net, optimizer, step):
    net[2].weight.grad *= 1.05
    net[2].bias.grad *= 0.9


SABOTAGES = [doubled_rate, hidden_rate, clipped, frozen, wrong_backward]
RUNS = [range(10), pytest.param(range(10, 200), marks=pytest.mark.slow)]  # two hundred by hand


@pytest.mark.usefixtures("as_users_see_it")  # runtime type checks take three quarters of the time
@pytest.mark.parametrize("seeds", RUNS, ids=str)
def test_correct_runs_raise_no_alarm(seeds):
    for seed in seeds:
        dtype = torch.float32 if seed % 4 == 3 else torch.float64
        verdicts = [d.verdict for d in run(seed, dtype=dtype)]
        assert Verdict.VIOLATED not in verdicts, seed


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("seeds", RUNS, ids=str)
def test_sabotaged_runs_are_caught(seeds):
    caught = {f.__name__: 0 for f in SABOTAGES}
    for seed in seeds:
        sabotage = SABOTAGES[seed % len(SABOTAGES)]
        verdicts = [d.verdict for d in run(seed, sabotage)]
        caught[sabotage.__name__] += Verdict.VIOLATED in verdicts
    assert sum(caught.values()) >= 0.95 * len(seeds), caught


def test_the_reason_is_named():
    (first, second) = run(1, doubled_rate)
    assert first.verdict == Verdict.VIOLATED
    assert "learning rates differ: 2.weight 0.1, 0.weight 0.2" in " ".join(first.suspects)
    assert second.verdict == Verdict.HOLDS
    late = run(1, frozen)[1]
    assert late.verdict == Verdict.VIOLATED
    assert "2.weight has no gradient (step 21)" in late.suspects


def test_adam_is_inapplicable_and_its_drift_is_reported():
    net = network(0, nn.Identity)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.1)
    with watched(net, optimizer) as ledger:
        train(net, optimizer, 30)
    assert ledger.steps == 30
    assert not optimizer._optimizer_step_post_hooks  # closed
    for d in ledger.drifts():
        assert d.verdict == Verdict.INAPPLICABLE
        assert "AdamW" in d.declines
        assert d.drift > 0.01


def test_two_optimizers_share_a_balance():
    net = network(0, nn.Identity)
    mine = torch.optim.SGD(net[:3].parameters(), lr=0.1)
    other = torch.optim.SGD(net[3:].parameters(), lr=0.1)
    with watched(net, mine, other) as ledger:
        train(net, mine, 0)
        x, y = data(0)
        for _ in range(50):
            net.zero_grad()
            F.cross_entropy(net(x), y).backward()
            mine.step()
            other.step()
    assert all(d.verdict == Verdict.HOLDS for d in ledger.drifts())


def test_half_precision_knows_its_rounding():
    net = network(0).bfloat16()
    x, y = data(0)
    x = x.bfloat16()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched(net, optimizer, of=x) as ledger:
        train(net, optimizer, 40, of=(x, y))
    assert Verdict.VIOLATED not in [d.verdict for d in ledger.drifts()]
    assert all(d.allowed > 0.01 for d in ledger.drifts())


def test_the_first_look_that_found_a_balance_broken_is_told():
    """Weights are looked at every 64 steps; what broke at step 70 is seen at 128, and stays so."""
    net = dense(4, 5, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with watched(net, optimizer, of=X) as ledger:
        for step in range(200):
            optimizer.zero_grad()
            F.cross_entropy(net(X), Y).backward()
            optimizer.step()
            if step == 69:
                with torch.no_grad():
                    net[0].weight.mul_(1.1)
    (drift,) = ledger.drifts()
    assert (drift.verdict, drift.since) == (Verdict.VIOLATED, 128)
