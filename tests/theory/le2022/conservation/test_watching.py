"""Balances followed through every step, and what is said of them at a look."""

import copy

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.core.store import Run
from sigmascope.theory import le2022
from sigmascope.theory.le2022 import conservation
from sigmascope.watching import part, watch
from tests.watching.made import Shelf, at_leisure, stack, task, trained

X, Y = task()


def made(*sizes, kind=torch.optim.SGD, activation=nn.ReLU, **options):
    torch.manual_seed(0)
    model = stack(*(sizes or (5, 8, 7, 3)), activation=activation).double()
    return model, kind(model.parameters(), **{"lr": 0.05, **options})


def followed(model, *optimizers, **options):
    wanted = {"probe_batch": X, "views": ["balances"], "every": 5, **options}
    return watch(model, *optimizers, **wanted)


def test_what_was_asked_for_is_filed_at_the_first_step_and_each_so_many_th(tmp_path):
    model, optimizer = made()
    with followed(model, optimizer, run=tmp_path / "a.run") as watching:
        trained(model, X, Y, optimizer, 12, watching)
    with Run(tmp_path / "a.run", write=False) as run:
        read = [r for r in run.readings() if r.view == "balances"]
        checks = [(c.step, c.verdict) for c in run.checks() if c.theorem == "balance-drift"]
    assert {r.step for r in read} == {1, 5, 10}
    assert {r.quantity for r in read} == {"balance drift", "sign changes", "imbalance",
                                          "operator-to-Frobenius ratio"}  # fmt: skip
    assert {*checks} == {(step, "holds") for step in (1, 5, 10)}


def test_drifts_are_those_of_a_ledger_that_was_there_alone():
    model, optimizer = made(momentum=0.9)
    twin, own = made(momentum=0.9)
    for net, rule in ((model, optimizer), (twin, own)):
        trained(net, X, Y, rule, 3)  # momentum has gathered
    ledger = conservation.Ledger(twin, conservation.invariants(twin, X), blocks=False)
    shelf = Shelf()
    with followed(model, optimizer, sinks=[shelf]) as watching, ledger.watching(own):
        trained(model, X, Y, optimizer, 10, watching)
        trained(twin, X, Y, own, 10)
        one, other = watching.drifts(), ledger.drifts()
    assert [(d.site, d.drift, d.residual, d.verdict) for d in one] == [
        (d.site, d.drift, d.residual, d.verdict) for d in other
    ]
    assert {str(d.verdict) for d in one} == {"holds"}
    found = [r.estimate.value for r in shelf.of(10) if r.quantity == "balance drift"]
    assert found == [d.drift for d in one]
    filed = [check for look in shelf.looks if look.step == 10 for check in look.checks]
    assert filed == [d.check() for d in one]


@pytest.mark.parametrize("blocks", [False, True])
def test_pairs_of_units_are_followed_if_asked_for(blocks):
    model, optimizer = made(activation=nn.Identity)
    with followed(model, optimizer, blocks=blocks) as watching:
        kinds = {d.invariant.kind for d in watching.drifts()}
    assert kinds == {"matrix" if blocks else "neuron"}


def test_signs_are_compared_with_those_of_the_beginning():
    model, optimizer = made()
    signs, shelf = le2022.SignRecord(), Shelf()
    signs.look(model, X, step=0)
    with followed(model, optimizer, sinks=[shelf]) as watching:
        trained(model, X, 10 * Y, optimizer, 10, watching)
    share = {site: s.changed for site, s in signs.look(model, X, step=10).items()}
    found = {r.site: r.estimate.value for r in shelf.of(10) if r.quantity == "sign changes"}
    assert found == share
    assert any(share.values())


def test_it_is_told_why_a_balance_broke():
    model, _ = made(activation=nn.Identity)
    groups = [{"params": model[:1].parameters()}, {"params": model[1:].parameters(), "lr": 0.3}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    with followed(model, optimizer) as watching:
        trained(model, X, Y, optimizer, 10, watching)
    (finding,) = conservation.broken_balances(watching.drifts())
    assert finding.name == "balance-broken"
    assert "learning rates differ: 2.weight 0.3, 0.weight 0.1, 0.bias 0.1" in finding.says
    assert finding.evidence[0].quantity == "balance drift"


def test_of_adam_the_drift_alone_is_known():
    model, optimizer = made(kind=torch.optim.Adam)
    with followed(model, optimizer) as watching:
        trained(model, X, Y, optimizer, 6, watching)
    assert {str(d.verdict) for d in watching.drifts()} == {"inapplicable"}


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_training_is_the_same_to_the_last_bit_and_no_hook_is_left(kind):
    model, optimizer = made(kind=kind, weight_decay=0.1)
    twin = copy.deepcopy(model)
    trained(twin, X, Y, kind(twin.parameters(), lr=0.05, weight_decay=0.1), 12)
    state = torch.get_rng_state()
    with followed(model, optimizer, every=2, blocks=True) as watching:
        trained(model, X, Y, optimizer, 12, watching)
    assert all(map(torch.equal, model.parameters(), twin.parameters()))
    assert torch.equal(state, torch.get_rng_state())
    assert not optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_step_pre_hooks


def test_two_optimizers_are_both_followed():
    model, _ = made()
    two = [torch.optim.SGD(half.parameters(), lr=0.05) for half in (model[:2], model[2:])]
    with followed(model, *two) as watching:
        for _ in range(6):
            model.zero_grad()
            (model(X) - Y).square().mean().backward()
            for optimizer in two:
                optimizer.step()
        assert {str(d.verdict) for d in watching.drifts()} == {"holds"}
    assert not any(o._optimizer_step_post_hooks for o in two)


def test_a_step_that_cannot_be_followed_is_one_line_and_nothing_more_is_said(monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError("on purpose")

    model, optimizer = made()
    twin, own = made()
    trained(twin, X, Y, own, 12)
    with followed(model, optimizer) as watching:
        trained(model, X, Y, optimizer, 6, watching)
        assert watching.drifts()
        monkeypatch.setattr(conservation.Ledger, "stepped", fail)
        trained(model, X, Y, optimizer, 1, watching)
        monkeypatch.undo()
        trained(model, X, Y, optimizer, 5, watching)
        assert watching.drifts() == ()
    assert ["on purpose" in r.message for r in caplog.records] == [True]
    assert all(map(torch.equal, model.parameters(), twin.parameters()))


def test_what_it_costs_is_no_part_of_the_budget_and_of_what_was_taken():
    model, optimizer = made()
    with at_leisure(model, optimizer, probe_batch=X, views=["balances"]) as watching:
        spent = watching._scheduler.buckets
        ledger, clock = (
            next(p for p in watching._probes if p.name == "conservation"),
            watching._clock,
        )
        stepped = ledger._ledger.stepped
        ledger._ledger.stepped = lambda o: (clock.wait(7.0), stepped(o))
        trained(model, X, Y, optimizer, 10, watching)
    assert spent.spent == pytest.approx(70.0, abs=1e-3)
    assert spent.trained == pytest.approx(1000.0, abs=101.0)


def test_without_the_view_there_are_no_drifts():
    model, optimizer = made()
    for options in ({}, {"probe_batch": X}, {"probe_batch": X, "views": ["balances"],
                                             "only": ["profile"]}):  # fmt: skip
        with watch(model, optimizer, **options) as watching:
            assert watching.drifts() == ()
            assert len(optimizer._optimizer_step_post_hooks) == 1


@pytest.mark.slow
def test_runs_with_balances_are_compared(tmp_path):
    runs = []
    for name, rate in (("a", 0.05), ("b", 0.1)):
        model, optimizer = made(lr=rate)
        with followed(model, optimizer, run=tmp_path / name, every=1) as watching:
            trained(model, X, Y, optimizer, 40, watching)
        runs.append(Run(tmp_path / name, write=False))
    found = part(*runs)
    assert any(p.quantity == "balance drift" for p in found.parted)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"probe_batch": X[:, :4]}, r"must run on the batch \(float64\[12, 4\]\)"),
        ({"views": ["balancess"]}, "Did you mean `balances`"),
        ({"views": "balances"}, r"Write a list of it: \['balances'\]"),
        ({"probe_batch": None}, "got no `probe_batch`. Pass one"),
        ({"probe_batch": None, "views": None}, "got no `probe_batch`. Pass one"),
        ({"every": 0}, "`every` must be a number of steps, 1 or more, got 0. Leave it out"),
        ({"every": 2.5}, "got 2.5"),
        ({"views": None, "only": ["conservation"]}, "`conservation` needs `probe_batch` and"),
    ],
)
def test_what_cannot_be_followed_is_refused_and_leaves_no_hook(options, words):
    model, optimizer = made()
    with pytest.raises(Refusal, match=words):
        followed(model, optimizer, **options)
    assert not optimizer._optimizer_step_post_hooks


def test_a_run_file_that_cannot_be_written_leaves_no_hook(tmp_path):
    model, optimizer = made()
    with pytest.raises(FileNotFoundError, match="mkdir -p"):
        followed(model, optimizer, run=tmp_path / "no" / "a.run")
    assert not optimizer._optimizer_step_post_hooks
