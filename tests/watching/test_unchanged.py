"""Training is bit for bit the same with a watch that reads as often as can be, and without."""

import copy
import pickle
import sys
import warnings
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
import torch
from models_zoo import MODELS, Net as Named, call
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from sigmascope.watching import Watch
from sigmascope.watching.alarms import Alarms
from sigmascope.watching.probes import Activations, Attention, Updates, activations
from tests.sampling import some
from tests.watching.made import stack
from watching.layouts import Kept

STEPS = 14
ALWAYS = {"budget": 1.0, "clock": lambda: 0.0}


class Net(nn.Module):
    """Convolution, statistics of the batch, dropout, attention, saturating units."""

    def __init__(self, reentrant=None):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.drop, self.up = nn.Dropout(0.3), nn.Linear(8, 16)
        self.heads = nn.MultiheadAttention(16, 2, batch_first=True)
        self.act, self.down = nn.Tanh(), nn.Linear(16, 3)
        self.reentrant = reentrant

    def middle(self, x):
        x = self.act(self.up(self.drop(x)))
        return x + self.heads(x, x, x)[0]

    def forward(self, x):
        x = self.norm(self.conv(x)).relu().flatten(2).mT
        if self.reentrant is None:
            x = self.middle(x)
        else:
            x = checkpoint(self.middle, x, use_reentrant=self.reentrant)
        return self.down(x.mean(1))


def images(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(6, 1, 4, 4, generator=generator)


def plain(model, optimizer, step, watch, *before):
    optimizer.zero_grad()
    loss = model(images(step)).square().mean()
    loss.backward()
    for each in (*before, optimizer):
        each.step()
    return loss


def accumulated(model, optimizer, step, watch):
    optimizer.zero_grad()
    for part in images(step).split(2):
        loss = model(part).square().mean() / 3
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    return loss


def halved(model, optimizer, step, watch):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(images(step)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def closing(model, optimizer, step, watch):
    def closure():
        optimizer.zero_grad()
        loss = model(images(step)).square().mean()
        loss.backward()
        return loss

    return optimizer.step(closure)


def averaged(model, optimizer, step, watch):
    loss = plain(model, optimizer, step, watch)
    twin = copy.deepcopy(model)  # between steps a look is open
    with torch.no_grad():
        assert twin(images(0)).isfinite().all()
    twin(images(0)).sum().backward()
    return loss


def scaled():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**15, growth_interval=4)

    def step_of(model, optimizer, step, watch):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = model(images(step)).float().square().mean()
        if step in (3, 4, 11):
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step_of


def everything(model, *optimizers):
    held = [model.state_dict(), *(o.state_dict() for o in optimizers), torch.get_rng_state()]
    held += [np.random.get_state()[1].tolist()]  # Python's own is drawn from by the type checker
    held += [[type(h) for m in model.modules() for h in m._forward_hooks.values()]]
    return _lists(held)


def _lists(one):
    if isinstance(one, torch.Tensor):
        one = one.detach().to_dense() if one.is_sparse else one.detach()
        flat = one.contiguous().flatten().resolve_conj()
        return str(one.dtype), flat.view(torch.uint8).numpy().tobytes() if one.numel() else b""
    if isinstance(one, dict):
        return [(str(k), _lists(v)) for k, v in one.items()]
    return [_lists(v) for v in one] if isinstance(one, list | tuple) else one


def run(build, optimizers, do, watched, steps=STEPS, wrap=None, early=False):
    """All that training leaves behind, and the readings."""
    torch.manual_seed(0)
    np.random.seed(0)
    model, kept = build(), Kept()
    made = optimizers(model)
    called = model if wrap is None else wrap(model)
    watch = None
    if watched:
        watch = Watch(model if early else called, *made, sinks=[kept], **ALWAYS)
    for step in range(steps):
        loss = do(called, *made, step, watch)
        if watch:
            watch.step(loss)
    if watch:
        watch.close()
        assert watch.steps <= steps
    return everything(model, *made), kept


def same(build, optimizers, do, **named):
    one, _ = run(build, optimizers, do() if do is scaled else do, False, **named)
    two, kept = run(build, optimizers, do() if do is scaled else do, True, **named)
    assert one == two
    return kept


def by(kind, **named):
    return lambda model: [kind(model.parameters(), **named)]


def with_muon(model):
    """Muon of matrices, Adam of the rest."""
    sides = [[p for p in model.parameters() if (p.ndim == 2) == side] for side in (True, False)]
    return [torch.optim.Muon(sides[0], lr=0.02), torch.optim.Adam(sides[1], lr=0.01)]


RULES = {
    "sgd": by(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.1),
    "sgd foreach": by(torch.optim.SGD, lr=0.1, foreach=True),
    "adam": by(torch.optim.Adam, lr=0.01, foreach=False),
    "adam fused": by(torch.optim.Adam, lr=0.01, fused=True),
    "adamw foreach": by(torch.optim.AdamW, lr=0.01, foreach=True),
    "adamw fused": by(torch.optim.AdamW, lr=0.01, fused=True),
}
EVERY = {"attention entropy", "gradient norm", "update norm", "mean square", "spectral norm"}
EVERY |= {"loss", "participation ratio", "statistics drift", "saturated share"}
EVERY |= {"update spectral norm", "update spectral ratio", "update stable rank"}


def read(kept):
    return {r.quantity for look in kept.looks for r in look.readings}


def lines(kept):
    return [s for look in kept.looks for s in look.skipped]


@pytest.mark.parametrize("name", RULES)
def test_weights_are_the_same_under_every_rule(name):
    kept = same(Net, RULES[name], plain)
    assert read(kept) >= EVERY
    assert not lines(kept)


@pytest.mark.parametrize("do", [accumulated, halved, averaged, scaled])
def test_weights_are_the_same_however_gradients_are_made(do):
    kept = same(Net, RULES["adam"], do)
    assert read(kept) >= EVERY
    assert not lines(kept)


def test_weights_are_the_same_where_muon_trains_the_matrices_and_adam_the_rest():
    def two(model, muon, adam, step, watch):
        muon.zero_grad()
        return plain(model, adam, step, watch, muon)

    assert read(same(Net, with_muon, two)) >= EVERY


def test_a_step_that_a_scaler_leaves_out_does_not_count():
    _, kept = run(Net, RULES["sgd"], scaled(), True)
    assert kept.looks[-1].step == STEPS - 3


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_activations_are_heard_once(reentrant):
    kept = same(partial(Net, reentrant), RULES["sgd"], plain)
    _, other = run(Net, RULES["sgd"], plain, True)
    assert read(kept) >= EVERY
    ours, theirs = kept.values(), other.values()
    assert ours.keys() == theirs.keys()
    assert all(abs(ours[at] - theirs[at]) <= 1e-5 * abs(theirs[at]) + 1e-9 for at in ours)


def test_gradients_are_those_that_a_closure_has_made():
    kept = same(Net, by(torch.optim.SGD, lr=0.1), closing)
    _, other = run(Net, by(torch.optim.SGD, lr=0.1), plain, True)
    assert kept.values() == other.values()


def test_steps_that_call_their_closure_often_are_watched():
    assert read(same(Net, by(torch.optim.LBFGS, max_iter=4), closing, steps=8)) >= EVERY


def test_frozen_weights_beside_adapters_are_left_alone():
    class Adapted(Net):
        def __init__(self):
            super().__init__()
            self.requires_grad_(False)
            self.a, self.b = nn.Parameter(torch.randn(16, 2)), nn.Parameter(torch.zeros(2, 3))

        def forward(self, x):
            x = self.conv(x).flatten(2).mT.mean(1)
            x = self.act(self.up(x))
            return self.down(x) + x @ self.a @ self.b

    def adapters(model):
        return [torch.optim.AdamW([model.a, model.b])]

    assert "spectral norm" in read(same(Adapted, adapters, plain))


def test_two_optimizers_that_play_against_each_other_are_watched():
    def game():
        return Named(None, make=stack(4, 8, 4), judge=stack(4, 8, 1, activation=nn.Tanh))

    def two(model):
        return [torch.optim.Adam(m.parameters(), 0.01) for m in (model.judge, model.make)]

    def play(model, judging, making, step, watch):
        noise, real = torch.randn(5, 4), torch.randn(5, 4) + 1
        judging.zero_grad()
        made = model.make(noise)
        loss = F.softplus(model.judge(made.detach())).mean() + F.softplus(-model.judge(real)).mean()
        loss.backward()
        judging.step()
        making.zero_grad()
        F.softplus(-model.judge(model.make(noise))).mean().backward()
        making.step()
        return loss

    kept = same(game, two, play)
    sites = {r.site for look in kept.looks for r in look.readings if r.quantity == "update norm"}
    assert sites == {"make.0", "make.2", "judge.0", "judge.2"}


def test_sparse_gradients_are_read_as_they_are():
    def words():
        parts = {"table": nn.Embedding(20, 6, sparse=True), "head": nn.Linear(6, 3)}
        return Named(lambda m, x: m.head(m.table(x).mean(1)), **parts)

    def two(model):
        dense = torch.optim.SGD(model.head.parameters(), 0.1)
        return [torch.optim.SparseAdam(model.table.parameters(), 0.01), dense]

    def step_of(model, sparse, dense, step, watch):
        x = torch.randint(20, (5, 4), generator=torch.Generator().manual_seed(step))
        sparse.zero_grad(), dense.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        sparse.step(), dense.step()
        return loss

    kept = same(words, two, step_of)
    found = {r.site for look in kept.looks for r in look.readings if r.quantity == "gradient norm"}
    assert found == {"table", "head"}


@pytest.mark.parametrize("name", some(sorted(MODELS), of=5))
def test_models_of_the_zoo_train_the_same(name):
    model, batch = MODELS[name]()
    trainable = [p for p in model.parameters() if p.requires_grad and p.is_floating_point()]
    if not trainable or name in NO_BACKWARD:
        pytest.skip("it cannot be trained")

    def step_of(model, optimizer, step, watch):
        optimizer.zero_grad()
        out = call(model, batch)
        found = [t for t in _tensors(out) if t.requires_grad]
        loss = sum((t.abs().square().mean() for t in found), torch.zeros(()))
        if found:
            loss.backward()
        optimizer.step()
        return loss

    def build():
        return copy.deepcopy(model)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(build, by(torch.optim.SGD, lr=1e-3), step_of, steps=6)


NO_BACKWARD = {"inplace-residual"}  # it overwrites what its gradient needs


def _tensors(one):
    if isinstance(one, torch.Tensor):
        return [one]
    if hasattr(one, "values"):
        one = list(one.values())
    return [t for v in one for t in _tensors(v)] if isinstance(one, list | tuple) else []


def test_a_model_saved_while_a_look_is_open_loads_where_there_is_no_sigmascope(tmp_path):
    net = stack(4, 4, 2, activation=nn.Tanh)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with Watch(net, optimizer, **ALWAYS) as watch:
        for _ in range(3):
            watch.step(plain_of(net, optimizer))
        assert any(m._forward_hooks for m in net.modules())
        torch.save(net, tmp_path / "net.pt")
        ours = pickle.dumps(Watch)
        pickle.loads(pickle.dumps(optimizer))
        copy.deepcopy(optimizer)
    absent = [name for name in sys.modules if name.partition(".")[0] == "sigmascope"]
    with patch.dict(sys.modules, dict.fromkeys(absent)):
        with pytest.raises(ImportError):
            pickle.loads(ours)
        loaded = torch.load(tmp_path / "net.pt", weights_only=False)
        assert loaded(torch.ones(3, 4)).shape == (3, 2)


def plain_of(net, optimizer):
    optimizer.zero_grad()
    loss = net(torch.ones(3, 4)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def test_parameters_that_are_added_later_are_said_to_be_left_out():
    net = stack(4, 4, 2, activation=nn.Tanh)
    optimizer, kept = torch.optim.SGD(net[0].parameters(), 0.1), Kept()
    with Watch(net, optimizer, sinks=[kept], **ALWAYS) as watch:
        watch.step(plain_of(net, optimizer))
        optimizer.add_param_group({"params": net[2].parameters(), "lr": 0.01})
        for _ in range(4):
            watch.step(plain_of(net, optimizer))
    (said,) = (s for s in lines(kept) if "added" in s.what)
    assert "2 parameters" in said.why


def test_control_c_in_a_probe_passes_through(monkeypatch):
    net = stack(4, 4, 2, activation=nn.Tanh)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Updates, "local", interrupt)
    with Watch(net, optimizer, **ALWAYS), pytest.raises(KeyboardInterrupt):
        plain_of(net, optimizer)


def fail(*_):
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("method", ["open", "before", "stepped", "agree", "local", "read"])
def test_what_fails_in_a_probe_is_one_line(monkeypatch, method):
    monkeypatch.setattr(Activations, method, fail)
    kept = same(Net, RULES["sgd"], plain)
    (said,) = lines(kept)
    assert (said.what, "on purpose" in said.why) == ("activations", True)
    assert kept.looks[-1].step == STEPS
    assert read(kept) >= EVERY - {"mean square", "statistics drift", "saturated share"}


def test_a_hook_that_fails_lets_the_pass_go_on(monkeypatch):
    monkeypatch.setattr(activations, "channel_of", fail)
    monkeypatch.setattr(Attention, "hear", fail)
    kept = same(Net, RULES["sgd"], plain)
    assert {s.what for s in lines(kept)} == {"activations", "attention", "representations"}


def test_what_fails_in_an_alarm_ends_the_watch_and_not_the_training(monkeypatch):
    monkeypatch.setattr(Alarms, "look", fail)
    kept = same(Net, RULES["sgd"], plain)
    assert "on purpose" in lines(kept)[-1].why


def test_a_watch_with_nothing_left_to_read_goes_on_with_the_loss():
    net = stack(4, 4, 2, activation=nn.Tanh)
    optimizer, kept = torch.optim.SGD(net.parameters(), 0.1), Kept()
    with Watch(net, optimizer, sinks=[kept], only=["attention"], **ALWAYS) as watch:
        for _ in range(40):
            watch.step(plain_of(net, optimizer))
    assert read(kept) == {"loss", "watched share"}
