"""Balances measured once, over training, and between two states."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, store, survey
from sigmascope.gate import Refusal
from sigmascope.records import Estimate
from sigmascope.survey import Change


def network(seed=0, act=nn.ReLU):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), act(), nn.Linear(8, 7), nn.Linear(7, 3))


def data(seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(20, 6, generator=g), torch.randint(3, (20,), generator=g)


def loop(net, optimizer, steps, monitor=None):
    x, y = data()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        if monitor is not None:
            yield monitor.step(loss)


def test_the_view_is_read_on_request():
    x, y = data()
    net = network()
    found = survey.profile(net, x, targets=y, loss=F.cross_entropy, views=["balances"])
    assert {r.quantity for r in found.readings} == {
        "imbalance",
        "operator-to-Frobenius ratio",
        "alignment",
    }
    assert {c.theorem for c in found.checks} >= {"balance-rate", "alignment"}
    assert "balances" not in {r.view for r in survey.profile(net, x).readings}
    ratio = found.series("operator-to-Frobenius ratio")[0]
    s = torch.linalg.svdvals(net[0].weight.detach().double())
    assert ratio.estimate.low <= float(s[0] ** 2 / s.square().sum()) <= ratio.estimate.high


def test_a_monitor_reads_when_it_is_due():
    net, (x, _) = network(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with survey.Monitor(net, x, every=5, optimizers=[optimizer]) as monitor:
        found = list(loop(net, optimizer, 12, monitor))
        assert [i + 1 for i, readings in enumerate(found) if readings] == [1, 5, 10]
        quantities = {r.quantity for r in found[-3]}
        assert quantities >= {"loss", "balance drift", "sign changes", "alignment", "stable rank"}
        verdicts = {str(d.verdict) for d in monitor.drifts() if d.invariant.kind != "pair"}
        assert verdicts == {"holds"}
    assert monitor.steps == 12
    assert not optimizer._optimizer_step_post_hooks


def test_a_monitor_changes_nothing():
    plain, watched = network(), network()
    for net in (plain, watched):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        watching = {"every": 2, "optimizers": [optimizer]}
        monitor = survey.Monitor(net, data()[0], **watching) if net is watched else None
        list(loop(net, optimizer, 6, monitor))
    for a, b in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_monitor_keeps_its_readings(tmp_path):
    net, (x, _) = network(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    file = tmp_path / "a.run"
    with survey.Monitor(net, x, every=4, views=["balances"], optimizers=[optimizer], run=file) as m:
        list(loop(net, optimizer, 8, m))
    with store.Run(file, write=False) as run:
        assert run.steps() == (1, 4, 8)
        drifts = [r for r in run.readings() if r.quantity == "balance drift"]
        assert {r.step for r in drifts} == {1, 4, 8}
        assert {c.verdict for c in run.checks()} <= {"holds", "inapplicable"}


def test_a_monitor_says_why_a_balance_broke():
    net, (x, _) = network(1, nn.Identity), data()
    groups = [{"params": net[:1].parameters()}, {"params": net[1:].parameters(), "lr": 0.3}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    with survey.Monitor(net, x, every=100, views=["balances"], optimizers=[optimizer]) as monitor:
        list(loop(net, optimizer, 30, monitor))
        findings = diagnosis.rules.broken_balances(monitor.drifts())
    assert [f.name for f in findings] == ["balance-broken"]
    assert "learning rates differ: 2.weight 0.3, 0.weight 0.1, 0.bias 0.1" in findings[0].says
    assert findings[0].evidence[0].quantity == "balance drift"


def test_a_monitor_that_is_refused_leaves_no_hook(tmp_path):
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(FileNotFoundError, match="mkdir -p"):
        survey.Monitor(net, data()[0], optimizers=[optimizer], run=tmp_path / "no" / "a.run")
    assert not optimizer._optimizer_step_post_hooks


def test_a_monitor_refuses():
    with pytest.raises(Refusal, match="`every` must be 1 or more"):
        survey.Monitor(network(), data()[0], every=0)


# Comparisons


def test_two_models_are_compared():
    before, after, (x, y) = network(), network(), data()
    optimizer = torch.optim.SGD(after.parameters(), lr=0.01)
    start = float(F.cross_entropy(after(x), y).detach())
    for _ in range(50):
        optimizer.zero_grad()
        F.cross_entropy(after(x), y).backward()
        optimizer.step()
    drop = start - float(F.cross_entropy(after(x), y).detach())
    found = survey.compare(before, after, batch=x, learning_rate=0.01, loss_drop=drop, steps=50)
    assert any(c.moved and c.quantity == "spectral norm" for c in found.changes)
    verdicts = {str(d.verdict) for d in found.drifts if d.invariant.kind == "matrix"}
    assert verdicts == {"holds"}
    assert set(found.signs) == {"0.weight", "2.weight", "3.weight"}
    assert found.missing == ()
    same = survey.compare(before, before, batch=x)
    assert not any(c.moved for c in same.changes)
    assert {str(d.verdict) for d in same.drifts} == {"inapplicable"}


def test_checkpoints_are_compared_by_name():
    before, after = network(0).state_dict(), network(1).state_dict()
    after["2.weight"] = torch.outer(torch.arange(7.0), torch.arange(8.0))
    after["new"] = after.pop("3.weight")
    found = survey.compare(before, after)
    ratio = next(c for c in found.changes if (c.site, c.quantity[:8]) == ("2.weight", "operator"))
    assert ratio.after.value == pytest.approx(1, abs=1e-12)
    assert found.missing == ("3.weight", "new")
    assert found.drifts == ()


def test_profiles_are_compared():
    x, _ = data()
    one, two = (survey.profile(network(s), x, views=["weights"]) for s in (0, 1))
    assert len(survey.compare(one, two).changes) == len(one.readings)


def test_a_factor_from_zero_is_infinite():
    of = lambda a, b: Change("s", "q", "weights", "", Estimate.exactly(a), Estimate.exactly(b))
    assert of(0, 1).factor == float("inf")
    assert of(0, 0).factor == 1
    assert of(2, 1).factor == 0.5


@pytest.mark.usefixtures("as_users_see_it")
def test_what_cannot_be_compared_is_refused():
    net = network()
    with pytest.raises(Refusal, match="`batch` is needed"):
        survey.compare(net, net)
    with pytest.raises(Refusal, match="got Sequential and OrderedDict"):
        survey.compare(net, net.state_dict())
    state = network().state_dict()
    state["0.weight"][0, 0] = float("nan")
    with pytest.raises(Refusal, match=r"`0\.weight` must be finite"):
        survey.compare(net.state_dict(), state)


@pytest.mark.parametrize(
    ("one", "two", "says"),
    [
        ({"a": torch.ones(2, 2) * 1j}, {"a": torch.ones(2, 2)}, "`a` must hold real floating"),
        ({"a": torch.ones(2, 2, dtype=torch.int8)}, {}, "`a` must hold real floating"),
        ({"a": torch.ones(2, 3)}, {"a": torch.ones(3, 2)}, r"one shape in both, got \(2, 3\)"),
        ({"bias": torch.ones(2)}, {"bias": torch.ones(2)}, "1 tensors with none"),
    ],
)
def test_tensors_that_would_be_left_out_without_a_word_are_refused(as_users_see_it, one, two, says):
    with pytest.raises(Refusal, match=says):
        survey.compare(one, two)
