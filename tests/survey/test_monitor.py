import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, store, survey
from sigmascope.gate import Refusal


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
