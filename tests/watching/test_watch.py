"""Watching a model while it trains."""

import gc
import logging
import math
import tracemalloc

import numpy as np
import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.core.store import Run
from sigmascope.watching import OVER, watch
from sigmascope.watching.probes import Gradients
from sigmascope.watching.watch import Watch
from tests.watching.made import Shelf, Ticks, at_leisure, stack, task, trained, watched


def made(kind=torch.optim.SGD, **settings):
    torch.manual_seed(0)
    model = stack(5, 8, 8, 3).double()
    return model, kind(model.parameters(), **{"lr": 0.01, **settings})


def test_two_lines_are_enough_and_looks_are_filed(tmp_path):
    model, optimizer = made()
    with at_leisure(model, optimizer, run=tmp_path / "a.run") as watching:
        losses = trained(model, *task(), optimizer, 20, watching)
    with Run(tmp_path / "a.run", write=False) as run:
        steps, readings = run.steps(), list(run.readings())
    assert steps[0] == 1
    assert steps[-1] == watching.steps == 20
    quantities = {r.quantity for r in readings}
    assert quantities >= {"loss", "gradient norm", "update ratio", "mean square", "dead units",
                          "participation ratio", "spectral norm", "watched share"}  # fmt: skip
    filed = {r.step: r.estimate.value for r in readings if r.quantity == "loss" and not r.form}
    assert filed == {step: losses[step - 1] for step in filed}
    assert filed.keys() >= {1, 20}


def test_steps_are_those_of_the_optimizer_whatever_the_loop_calls():
    model, optimizer = made()
    x, y = task()
    with watch(model, optimizer) as watching:
        for k in range(12):
            (model(x) - y).square().mean().backward()
            if k % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
    assert watching.steps == 4


def test_of_several_optimizers_the_last_is_counted_and_all_are_read():
    torch.manual_seed(0)
    model = stack(5, 8, 3).double()
    one = torch.optim.SGD(model[0].parameters(), lr=0.1)
    other = torch.optim.SGD(model[2].parameters(), lr=0.1)
    x, y = task()
    shelf = Shelf()
    with at_leisure(model, one, other, sinks=[shelf]) as watching:
        for _ in range(5):
            (model(x) - y).square().mean().backward()
            other.step()
            one.step()
    assert watching.steps == 5
    updates = {r.site for r in shelf.readings() if r.quantity == "update norm"}
    assert updates == {"0", "2"}


def test_nothing_is_left_behind_when_it_is_closed():
    model, optimizer = made()
    watching = at_leisure(model, optimizer)
    trained(model, *task(), optimizer, 5, watching)
    watching.close()
    watching.close()
    assert not any(m._forward_hooks for m in model.modules())
    assert not optimizer._optimizer_step_pre_hooks or len(optimizer._optimizer_step_pre_hooks) == 1
    assert not optimizer._optimizer_step_post_hooks


@pytest.mark.parametrize(("budget", "steps"), [(0.02, 1500), (0.2, 300)])
def test_the_budget_is_kept_by_the_clock_it_is_given(budget, steps):
    model, optimizer = made()
    clock = Ticks(1e-4)  # every look costs a millisecond or so
    optimizer.register_step_pre_hook(lambda *_: clock.wait(0.05))
    with watch(model, optimizer, budget=budget, clock=clock) as watching:
        trained(model, *task(), optimizer, steps, watching)
        assert 0.2 * budget < watching.share < budget + 0.2 / clock.now


def test_a_probe_that_fails_is_one_line_and_training_goes_on(monkeypatch, caplog):
    def broken(*_):
        raise ValueError("of ours")

    monkeypatch.setattr(Gradients, "before", broken)
    shelf = watched(*made(), 10)
    said = [r.getMessage() for r in caplog.records]
    assert said == ["sigmascope reads gradients no more: ValueError: of ours"]
    assert {r.quantity for r in shelf.readings()} >= {"update norm", "loss"}
    assert [s.what for look in shelf.looks for s in look.skipped].count("gradients") == 1


def test_an_alarm_is_told_once_filed_and_ended(caplog):
    model, optimizer = made()
    x, y = task()
    shelf = Shelf()
    told = []
    with at_leisure(model, optimizer, sinks=[shelf]) as watching:
        for k in range(120):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            told += watching.step(50.0 if 60 <= k < 70 else loss)
        assert watching.alarms == ()
    names = [f.name for f in told]
    assert names.count("loss-spike") == 1
    assert names.count("loss-spike" + OVER) == 1
    filed = [f.name for look in shelf.looks for f in look.findings]
    assert filed == names
    assert any(
        "loss-spike" in r.getMessage() for r in caplog.records if r.levelno == logging.WARNING
    )


def test_a_watch_shows_how_far_it_is_and_what_is_in_force():
    model, optimizer = made()
    with watch(model, optimizer) as watching:
        trained(model, *task(), optimizer, 20, watching)
        assert "under way" in repr(watching)
        assert "20 steps" in repr(watching)
        assert "no alarm" in repr(watching)
        trained(model, *task(), optimizer, 1)
        watching.step(math.nan)
    assert "over" in repr(watching)
    (alarm,) = watching.alarms
    assert alarm.name in repr(watching)
    assert "no alarm" not in repr(watching)


def test_a_single_loss_that_is_no_number_is_heard_where_one_in_several_is_noted():
    model, optimizer = made()
    with watch(model, optimizer) as watching:
        trained(model, *task(), optimizer, 20, watching)
        for loss in (0.5, torch.tensor(0.5)):  # which are passed over
            watching._listener.skip = 5
            watching.step(loss)
            assert watching._listener.skip == 4
        trained(model, *task(), optimizer, 1)
        watching.step(math.nan)
        trained(model, *task(), optimizer, 1)
        assert [(a.name, a.site) for a in watching.step(0.5)] == [("non-finite", "(loss)")]


@pytest.mark.parametrize("calm", [0, 1, 5])
def test_a_loss_that_is_no_number_is_told_though_no_step_follows(calm, tmp_path):
    model, optimizer = made()
    with watch(model, optimizer, run=tmp_path / "a.run") as watching:
        trained(model, *task(), optimizer, 20, watching)
        watching.step(math.nan)
        for _ in range(calm):  # steps that are left out, say
            watching.step(0.5)
    assert [(a.name, a.site) for a in watching.alarms] == [("non-finite", "(loss)")]
    with Run(tmp_path / "a.run", write=False) as run:
        assert [row.name for row in run.findings()] == ["non-finite"]


def test_a_run_goes_on_after_a_restart(tmp_path):
    file = tmp_path / "a.run"
    for start in (None, 15, None):
        model, optimizer = made()
        with at_leisure(model, optimizer, run=file, start=start) as watching:
            trained(model, *task(), optimizer, 10, watching)
    assert watching.steps == 35
    with Run(file, write=False) as run:
        assert run.steps()[-1] == 35
        assert len(list(run.layers())) == 3


@pytest.mark.usefixtures("as_users_see_it")
def test_what_is_no_optimizer_or_no_share_is_refused():
    model, optimizer = made()
    with pytest.raises(Refusal, match="optimizers of torch, got a Sequential"):
        watch(model, model)
    with pytest.raises(Refusal, match="at least one optimizer"):
        watch(model)
    for budget in (0, -0.1, 1.5, math.nan):
        with pytest.raises(Refusal, match="share of the training time"):
            watch(model, optimizer, budget=budget)
    with pytest.raises(Refusal, match="`only` must name some of gradients"):
        watch(model, optimizer, only=["gradient"])
    assert not optimizer._optimizer_step_pre_hooks


def test_whatever_was_filed_is_there_though_the_watch_was_never_closed(tmp_path):
    """As after a kill, which `tests/core/store/test_kills.py` tries: nothing waits for an end."""
    model, optimizer = made()
    file = tmp_path / "a.run"
    with at_leisure(model, optimizer, run=file) as watching:
        trained(model, *task(), optimizer, 20, watching)
        with Run(file, write=False) as run:
            assert run.steps()[0] == 1
            assert len(run.steps()) >= 10
            assert len(list(run.readings())) > len(run.steps())


@pytest.mark.slow
def test_memory_does_not_grow_with_steps():
    model, optimizer = made()
    x, y = task()
    sizes = []
    with watch(model, optimizer, budget=0.5) as watching:
        tracemalloc.start()
        for _ in range(4):
            trained(model, x, y, optimizer, 800, watching)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert sizes[3] - sizes[1] < 40_000


@pytest.mark.slow
def test_a_hundred_thousand_steps_take_no_more_memory_than_some(tmp_path):
    import resource

    model, optimizer = made()
    x, y = task()
    peaks = []
    with watch(model, optimizer, budget=0.02, run=tmp_path / "a.run") as watching:
        for _ in range(10):
            trained(model, x, y, optimizer, 10_000, watching)
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[9] - peaks[1] < 20_000  # kB
    with Run(tmp_path / "a.run", write=False) as run:
        assert len(run.steps()) < 3000


@pytest.mark.parametrize(
    ("loss", "got"),
    [
        (torch.ones(2), "a Tensor of torch.float32 in shape (2,)"),
        (torch.tensor(1j), "a Tensor of torch.complex64 in shape ()"),
        ("0.3", "a str"),
        ({"loss": 1.0}, "a dict"),
        ((1.0,), "a tuple"),
    ],
)
def test_a_loss_that_is_no_number_at_all_is_left_out_and_no_more(loss, got, caplog, tmp_path):
    model, optimizer = made()
    with at_leisure(model, optimizer, run=tmp_path / "a.run") as watching:
        trained(model, *task(), optimizer, 3, watching)
        for _ in range(3):
            watching.step(loss)
            trained(model, *task(), optimizer, 1)
        trained(model, *task(), optimizer, 3, watching)
        watching.step(loss)
    said = [r.getMessage() for r in caplog.records if "leaves out" in r.getMessage()]
    assert len(said) == 1
    assert f"a loss must be one number, got {got}; hand in" in said[0]
    with Run(tmp_path / "a.run") as run:
        assert "losses" in {s.what for s in run.skipped()}
        assert run.steps()[-1] == watching.steps == 9


@pytest.mark.parametrize("loss", [np.ones(1), np.float32(1.0), torch.ones(1, 1), 1, True])
def test_what_holds_one_number_is_a_loss(loss, caplog):
    model, optimizer = made()
    with at_leisure(model, optimizer) as watching:
        trained(model, *task(), optimizer, 2)
        watching.step(loss)
    assert not caplog.records


def test_losses_whose_steps_were_not_seen_are_told_at_the_end(caplog, tmp_path):
    """As where the optimizer was made anew behind the start of a short training."""
    model, optimizer = made()
    with at_leisure(model, optimizer, run=tmp_path / "a.run") as watching:
        trained(model, *task(), optimizer, 5, watching)
        trained(model, *task(), torch.optim.SGD(model.parameters(), 0.1), 60, watching)
    assert watching.steps == 5
    assert sum("the optimizer watched made no step" in r.getMessage() for r in caplog.records) == 1
    with Run(tmp_path / "a.run") as run:
        assert "steps behind step 5" in {s.what for s in run.skipped()}


@pytest.mark.parametrize("given", [True, False])
def test_a_run_ends_at_the_last_step_whatever_was_read_there(given, tmp_path):
    """And goes on behind it: steps are neither lost nor counted twice."""
    model, optimizer = made()
    for _ in range(2):
        with watch(model, optimizer, run=tmp_path / "a.run") as watching:
            trained(model, *task(), optimizer, 203, watching if given else None)
    assert watching.steps == 406
    with Run(tmp_path / "a.run") as run:
        assert run.steps()[-1] == 406


class Twofold(torch.optim.Optimizer):
    """Makes its steps by another of the same parameters, as SAM does."""

    def __init__(self, params):
        super().__init__(params, {"rho": 0.05})
        self.base_optimizer = torch.optim.SGD(self.param_groups, lr=0.1)
        self.param_groups = self.base_optimizer.param_groups

    def second_step(self):
        self.base_optimizer.step()


def test_steps_of_an_optimizer_inside_of_another_are_counted():
    model, _ = made()
    optimizer = Twofold(model.parameters())
    with watch(model, optimizer) as watching:
        for _ in range(5):
            (model(task()[0])).square().mean().backward()
            optimizer.second_step()
    assert watching.steps == 5


def test_giving_up_inside_of_a_hook_leaves_the_hooks_of_others_alone(monkeypatch):
    model, optimizer = made()
    called = []
    with at_leisure(model, optimizer) as watching:
        optimizer.register_step_pre_hook(lambda *_: called.append("before"))
        optimizer.register_step_post_hook(lambda *_: called.append("behind"))
        trained(model, *task(), optimizer, 3, watching)
        monkeypatch.setattr("sigmascope.watching.processes.Processes.ending", True)
        trained(model, *task(), optimizer, 3, watching)
    assert called == ["before", "behind"] * 6
    assert watching.steps == 6


def test_hooks_are_there_only_for_steps_that_are_looked_at():
    model, optimizer = made()
    clock = Ticks(1e-4)
    optimizer.register_step_pre_hook(lambda *_: clock.wait(0.005))
    free = 0
    with watch(model, optimizer, clock=clock) as watching:
        for _ in range(200):
            trained(model, *task(), optimizer, 1, watching)
            quiet = not watching._scheduler.opened
            free += quiet
            assert len(optimizer._optimizer_step_pre_hooks) == 1 + (not quiet)
            assert len(optimizer._optimizer_step_post_hooks) == 1
    assert free > 100


def test_a_look_is_opened_before_the_step_that_it_is_for_and_no_sooner():
    model, optimizer = made()
    with watch(model, optimizer, sinks=[Shelf()]) as watching:
        for at, opened in ((2, False), (1, True)):
            watching._scheduler.close()
            watching._inputs.next = float("inf")
            watching._scheduler.next = watching.steps + at
            watching._turn()
            assert watching._scheduler.opened == opened


def test_a_watch_that_is_not_made_leaves_no_hook(monkeypatch):
    """Ctrl-C while it is made: nobody has what could be closed."""
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    opens = Watch._open

    def interrupted(self):
        opens(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "_open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        watch(model, optimizer)
    hooks = [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
    hooks += [h for m in model.modules() for h in (m._forward_hooks, m._forward_pre_hooks)]
    assert not any(hooks)


class Lowered(nn.Module):
    """A frozen layer with a branch of low rank, which is zero at first."""

    def __init__(self):
        super().__init__()
        self.own, self.down, self.up = nn.Linear(8, 8), nn.Linear(8, 2), nn.Linear(2, 8)
        self.own.requires_grad_(False)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x):
        return self.own(x) + self.up(self.down(x))


class Pooled(nn.Module):
    """Of a bag at a time, which is pooled to one row."""

    def __init__(self):
        super().__init__()
        self.rows, self.whole, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x):
        return self.last(self.whole(self.rows(x).relu().mean(0, keepdim=True)).relu())


class Looked(nn.Module):
    """Words beside words, of two tables; one begins at zero."""

    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Embedding(20, 8), nn.Embedding(20, 8)
        nn.init.zeros_(self.write.weight)

    def forward(self, x):
        ids = x[:, 0].mul(5).long() % 20
        return self.read(ids) * self.write((ids * 7 + 3) % 20)


HEALTHY = {
    "low rank": (lambda: nn.Sequential(Lowered(), nn.ReLU(), Lowered()), 16),
    "slopes": (lambda: nn.Sequential(nn.Linear(8, 16), nn.PReLU(init=0.02), nn.Linear(16, 8)), 16),
    "bags": (Pooled, 6),
    "tables": (Looked, 16),
    "gains": (lambda: nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 8)), 16),
    "one by one": (lambda: stack(8, 16, 16, 8), 1),
}


@pytest.mark.parametrize(
    ("name", "loss_is_told"),
    [*((n, True) for n in HEALTHY), *((n, False) for n in [*HEALTHY][::2])],
)
def test_healthy_training_of_every_make_rings_no_alarm(name, loss_is_told):
    """Whether or not the losses are handed in: of what is not known there are notes at most."""
    make, count = HEALTHY[name]
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.NAdam([p for p in model.parameters() if p.requires_grad], 3e-3)
    x, wanted = torch.randn(64, 8), torch.randn(8, 8)
    found = []
    with at_leisure(model, optimizer) as watching:
        for _ in range(60):
            some = x[torch.randint(64, (count,))]
            out = model(some)
            loss = (out - (some @ wanted).tanh()[: len(out)]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found += watching.step(loss if loss_is_told else None)
    assert [f for f in found if f.severity != "note"] == []


@pytest.mark.parametrize(("place", "rings"), [(0, True), (1, False), (3, False)])
def test_weights_that_decay_are_matrices_and_neither_slopes_nor_gains(place, rings):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.PReLU(), nn.Linear(16, 8), nn.LayerNorm(8))
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.0), []
    with at_leisure(model, optimizer) as watching:
        for _ in range(25):
            loss = model(torch.randn(32, 8)).square().mean()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for p in model[place].parameters():
                    p.mul_(0.8)
            found += watching.step(loss)
    told = [f.site for f in found if f.name == "decaying-weights"]
    assert told == [str(place)] * rings


def test_the_share_counts_the_steps_since_the_last_look():
    model, optimizer = made()
    with at_leisure(model, optimizer) as watching:
        trained(model, *task(), optimizer, 10, watching)
        share = watching.share
        watching._scheduler.close()
        watching._inputs.next = float("inf")
        trained(model, *task(), optimizer, 90)
        assert watching.share == pytest.approx(share / 10, rel=0.3)


def test_losses_of_a_last_step_that_was_not_made_are_no_steps_unseen(caplog):
    """As where gradients of many batches are added up, and some are left at the end."""
    model, optimizer = made()
    with at_leisure(model, optimizer) as watching:
        for _ in range(4):
            for _ in range(9):
                watching.step(1.0)
            trained(model, *task(), optimizer, 1, watching)
        for _ in range(30):
            watching.step(1.0)
    assert watching.steps == 4
    assert not [r for r in caplog.records if "made no step" in r.getMessage()]
