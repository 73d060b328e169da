"""What runs compiled is run once more as it is written, and nothing is left of that."""

import copy
import pickle

import pytest
import torch
from torch import nn

from sigmascope.watching import Watch
from sigmascope.watching.extra_passes import EagerPass, _own
from sigmascope.watching.probes import ProbeBatch
from sigmascope.watching.processes import Processes
from tests.models_zoo import Net
from tests.watching.made import Shelf, at_leisure, stack, task

MISSED = 3

X, Y = task(samples=8)


class Odd(nn.Module):
    """Draws, averages, counts, and works in place on what it is given."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(5), nn.Dropout(0.3)
        self.up, self.act, self.down = nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)

    def forward(self, x, *, scale=1.0, more=()):
        x = self.drop(self.norm(x.mul_(2.0)))
        return scale * self.down(self.act(self.up(x))) + sum(more)


def compiled(model, *, in_place=False):
    torch._dynamo.reset()
    if not in_place:
        return torch.compile(model, backend="eager")
    model.compile(backend="eager")
    return model


def trained(model, called, steps=8, watched=True, **options):
    """Weights, buffers, the batch and the next random number, and what was read."""
    torch.manual_seed(1)
    optimizer, shelf, x = torch.optim.SGD(model.parameters(), lr=0.01), Shelf(), X.clone()
    watch = at_leisure(called, optimizer, sinks=[shelf], **options) if watched else None
    for _ in range(steps):
        optimizer.zero_grad()
        x = x / 2
        (called(x, scale=0.5, more=[torch.ones(3).double()]) - Y).square().mean().backward()
        optimizer.step()
    if watch:
        watch.close()
    after = [*(p.detach() for p in model.parameters()), *model.buffers(), x, torch.rand(3)]
    return after, shelf


def odd():
    torch.manual_seed(0)
    return Odd().double()


@pytest.mark.parametrize("in_place", [False, True])
def test_nothing_is_left_of_the_pass(in_place):
    alone, _ = trained(model := odd(), compiled(model, in_place=in_place), watched=False)
    watched, shelf = trained(model := odd(), compiled(model, in_place=in_place))
    assert all(torch.equal(a, b) for a, b in zip(alone, watched, strict=True))
    assert not any(p._forward_hooks or p._forward_pre_hooks for p in model.modules())
    assert {"dead units", "participation ratio"} <= {r.quantity for r in shelf.readings()}


def test_it_reads_what_a_pass_of_the_new_weights_on_the_same_batch_would():
    model = stack(5, 6, 3).double()
    optimizer, shelf = torch.optim.SGD(model.parameters(), lr=0.1), Shelf()
    called = compiled(model)
    with at_leisure(called, optimizer, sinks=[shelf]):
        for step in range(4):
            optimizer.zero_grad()
            called((step + 1) * X).square().mean().backward()
            optimizer.step()
    for site, read in (("0", 4 * X), ("2", model[:2](4 * X).detach())):
        size = shelf.estimates()["mean square", site].value
        assert size == pytest.approx(float(read.square().mean()), rel=1e-12)


def test_it_keeps_no_tape():
    model, taped = odd(), []
    model.up.register_forward_hook(lambda *_: taped.append(torch.is_grad_enabled()))
    trained(model, compiled(model), steps=8)
    assert taped.count(True) == 8  # those of training
    assert False in taped


def test_it_runs_in_the_precision_of_the_step():
    model, seen = nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 3)), []
    model[1].register_forward_pre_hook(lambda m, args: seen.append(args[0].dtype))
    optimizer, called = torch.optim.SGD(model.parameters(), lr=0.1), compiled(model)
    with at_leisure(called, optimizer):
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = called(X.float()).float().square().mean()
            loss.backward()
            optimizer.step()
    assert len(seen) > 4
    assert set(seen) == {torch.bfloat16}


def test_another_watch_of_the_same_parts_does_not_hear_it():
    whole = stack(5, 6, 3).double()
    optimizer, shelf = torch.optim.SGD(whole.parameters(), lr=0.1), Shelf()
    called = compiled(whole)
    with (
        at_leisure(whole, optimizer, sinks=[shelf], only=["activations"]),
        at_leisure(called, optimizer),
    ):
        for _ in range(5):
            optimizer.zero_grad()
            whole(X).square().mean().backward()  # as it is written
            called(X)
            optimizer.step()
    sizes = {
        r.estimate.value for r in shelf.readings() if (r.quantity, r.site) == ("mean square", "0")
    }
    assert [*sizes] == pytest.approx([float(X.square().mean())] * len(sizes), rel=1e-12)
    assert sizes


class Ask:
    x = X


def test_what_cannot_be_kept_is_said_and_training_goes_on():
    model, shelf = Net(lambda m, ask: m.one(ask.x), one=nn.Linear(5, 3)).double(), Shelf()
    optimizer, called = torch.optim.SGD(model.parameters(), lr=0.1), compiled(model)
    with at_leisure(called, optimizer, sinks=[shelf]) as watch:
        for _ in range(6):
            optimizer.zero_grad()
            called(Ask()).square().mean().backward()
            optimizer.step()
    said = {s.what: s.why for look in shelf.looks for s in look.skipped}
    assert said["passes of compiled modules"] == "it is called with a Ask, which cannot be kept"
    assert "run compiled" in said["activations of compiled modules"]
    assert watch.steps == 6


def test_where_calls_are_not_seen_the_probe_batch_is_run():
    model, shelf = stack(5, 6, 3).double(), Shelf()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with at_leisure(model, optimizer, sinks=[shelf], probe_batch=3 * X, views=()):
        called = compiled(model)  # behind the start of the watch
        for _ in range(9):
            optimizer.zero_grad()
            called(X).square().mean().backward()
            optimizer.step()
    found = shelf.estimates()["mean square", "0"].value
    assert found == pytest.approx(float((3 * X).square().mean()))


def test_a_model_is_copied_and_saved_in_the_middle_of_a_step():
    for in_place in (False, True):
        model = nn.Sequential(nn.Linear(5, 3)).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        called = compiled(model, in_place=in_place)
        with at_leisure(called, optimizer):
            for _ in range(4):
                optimizer.zero_grad()
                called(X).square().mean().backward()
                twin = copy.deepcopy(model)
                pickle.loads(pickle.dumps(model))
                optimizer.step()
        assert not any(m._forward_pre_hooks for m in twin.modules())


def test_an_error_in_the_users_step_leaves_nothing_in_front():
    model = nn.Sequential(nn.Linear(5, 3)).double()
    compiled(model, in_place=True)
    before = model._compiled_call_impl
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = Watch(model, optimizer, budget=1.0, clock=lambda: 0.0)
    for _ in range(3):
        model(X).square().mean().backward()
        optimizer.step()
    with pytest.raises(RuntimeError):
        model(X[:, :2])
    watch.close()
    assert model._compiled_call_impl is before


def test_structures_are_kept_with_tensors_of_their_own():
    given = {"a": [X, (Y, 2)], "b": None}
    mine = _own(given)
    assert torch.equal(mine["a"][0], X)
    assert mine["a"][0].data_ptr() != X.data_ptr()
    assert (mine["a"][1][1], mine["b"]) == (2, None)


@pytest.mark.parametrize(("count", "waits", "runs"), [(1, True, True), (2, True, False),
                                                     (2, False, True)])  # fmt: skip
def test_one_process_does_not_run_what_waits_for_the_others(count, waits, runs):
    norm = nn.SyncBatchNorm(5) if waits else nn.BatchNorm1d(5)
    model = nn.Sequential(norm, nn.Linear(5, 3))
    again = EagerPass(model, model, None, Processes(count=count))
    assert bool(again.of) == runs
    assert bool(again.why) != runs


def test_where_calls_were_missed_often_enough_it_is_said_and_not_before():
    model = nn.Linear(5, 3)
    again = EagerPass(model, model, None, Processes())
    for _ in range(MISSED - 1):
        assert again.run(()) == ()
    (told,) = again.run(())
    assert "its calls are not seen" in told.why


def test_where_a_call_is_met_in_compiled_code_it_is_said_at_once():
    model = nn.Linear(5, 3)
    again = EagerPass(model, model, None, Processes())
    again.catch(compiled_around=False)
    compiled(lambda x: model(x))(torch.ones(2, 5))
    (told,) = again.run(())
    assert "its calls are not seen" in told.why


def test_where_calls_were_missed_no_hook_is_put_before_them_any_more():
    """The probe batch is run instead; a hook would be compiled each time."""
    model = nn.Linear(5, 3)
    again = EagerPass(model, model, ProbeBatch(torch.ones(2, 5)), Processes())
    for _ in range(MISSED):
        again.catch(compiled_around=False)
        assert model._forward_pre_hooks
        assert again.run(()) == ()
    again.catch(compiled_around=False)
    assert not model._forward_pre_hooks
