"""Copies take turns: one is in memory, and what others hold comes back as it was."""

import gc

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.diagnosis.trainability import copies, foretold, probe
from sigmascope.diagnosis.trainability.copies import Turn, Turns
from sigmascope.gate import Refusal, memory
from sigmascope.probes.samples import as_tensor, prepared
from sigmascope.records import Profile
from tests.models_zoo import MODELS, call

G = torch.Generator().manual_seed(0)
X, Y = torch.randn(64, 64, generator=G), torch.randint(10, (64,), generator=G)


def wide(*layers):
    torch.manual_seed(0)
    body = [nn.Linear(64, 256), nn.ReLU(), *(nn.Linear(256, 256) for _ in range(4))]
    return nn.Sequential(*body, *layers, nn.ReLU(), nn.Linear(256, 10))


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def held():
    """Bytes of all tensors that are alive, each memory once."""
    found = {}
    for one in gc.get_objects():
        if type(one) in (torch.Tensor, nn.Parameter):
            for t in (one, one.grad if one.is_leaf else None):
                if t is not None and t.layout == torch.strided:
                    storage = t.untyped_storage()
                    found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


class Averaged(nn.Module):
    """Frozen weights follow trained ones in every forward pass of training."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fast, self.slow = nn.Linear(64, 32), nn.Linear(64, 32).requires_grad_(False)
        self.out = nn.Linear(32, 10)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.training:
            for slow, fast in zip(self.slow.parameters(), self.fast.parameters(), strict=True):
                slow.data.lerp_(fast.detach(), 0.1)
        return self.out(torch.relu(self.fast(x) + self.slow(x)) * (1 + 0.01 * self.calls))


class Drawing(nn.Module):
    """Noise from a generator of its own."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.out = nn.Linear(64, 32), nn.Linear(32, 10)
        self.source = torch.Generator().manual_seed(3)

    def forward(self, x):
        return self.out(self.body(x).relu() + 0.1 * torch.randn(len(x), 32, generator=self.source))


class Tied(nn.Module):
    """One weight in two places."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.out = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.out(self.b(self.a(x).relu()).relu())


def loud():
    model = wide()
    for p in model.parameters():
        p.data.mul_(4)
    return model


KINDS = {
    "plain": wide,
    "dropout and batch statistics": lambda: wide(nn.BatchNorm1d(256), nn.Dropout(0.3)),
    "spectral norm": lambda: wide(nn.utils.parametrizations.spectral_norm(nn.Linear(256, 256))),
    "rates that are lost": loud,
    "frozen, and changed by the forward pass": Averaged,
    "frozen": lambda: nn.Sequential(nn.Linear(64, 64).requires_grad_(False), wide()),
    "a source of its own": Drawing,
    "tied": Tied,
}


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [(k, "adam") for k in KINDS] + [(k, "sgd") for k in ("rates that are lost", "plain")],
)
def test_copies_that_take_turns_read_bit_for_bit_as_copies_at_once(kind, optimizer, monkeypatch):
    def seen(large):
        monkeypatch.setattr(copies, "LARGE", large)
        torch.manual_seed(5)
        model = KINDS[kind]()
        before = {k: v.clone() for k, v in model.state_dict().items()}
        found = probe(model, X[:16], targets=Y[:16], loss=F.cross_entropy, optimizer=optimizer)
        assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
        return found

    at_once, in_turn = seen(1 << 60), seen(0)
    assert repr(at_once) == repr(in_turn)  # every digit, also of what is not finite
    if kind == "rates that are lost" and optimizer == "sgd":
        assert not all(c.finite for c in in_turn.curves)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_of_every_kind_take_turns(name, monkeypatch):
    model, batch = MODELS[name]()
    batch = prepared(model, batch)
    with torch.no_grad():
        out = as_tensor(call(model, batch))[0]
    wanted = torch.zeros(out.shape, dtype=out.dtype)
    found = []
    for large in (1 << 60, 0):
        monkeypatch.setattr(copies, "LARGE", large)
        torch.manual_seed(5)
        measured = foretold(Profile(()), model, batch, targets=wanted, loss=F.mse_loss)
        found.append(repr((measured.readings, measured.skipped)))
    assert found[0] == found[1]


@pytest.mark.parametrize(("optimizer", "most"), [("adam", 5.0), ("sgd", 4.0)])
@pytest.mark.slow
def test_at_most_five_times_the_parameters_are_held(optimizer, most):
    """A copy, its gradients, what the optimizer keeps, and what holds the model still."""
    sizes = []

    class Weighed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = wide(*(nn.Linear(256, 256) for _ in range(4)))

        def forward(self, x):
            out = self.inner(x)
            if self.training and out.requires_grad:  # gradients will come, as large as the weights
                sizes.append(held() + size)
            return out

    model = Weighed()
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    assert size > copies.LARGE
    gc.collect()
    before = held()
    probe(model, X[:8], targets=Y[:8], loss=F.cross_entropy, optimizer=optimizer)
    assert len(sizes) == 42
    assert most - 1 < (max(sizes) - before) / size < most + 0.1  # and what a step computes


def test_who_waits_holds_nothing_and_comes_back(monkeypatch):
    monkeypatch.setattr(copies, "LARGE", 0)
    model = wide()
    order = Turns(model, 2, 2)
    first, second = Turn(adam), Turn(adam)
    order.take(first)
    F.cross_entropy(first.model(X), Y).backward()
    first.by.step()
    weights = [p.detach().clone() for p in first.model.parameters()]
    moments = [s["exp_avg"].clone() for s in first.by.state.values()]
    order.take(second)
    assert first.model[0].weight.untyped_storage().nbytes() == 0
    assert torch.equal(second.model[0].weight, model[0].weight)
    order.take(first)
    assert all(map(torch.equal, first.model.parameters(), weights))
    assert all(
        torch.equal(s["exp_avg"], m) for s, m in zip(first.by.state.values(), moments, strict=True)
    )
    assert second.model[0].weight.untyped_storage().nbytes() == 0
    second.close()
    assert not second.begun
    order.take(None)
    assert first.model[0].weight.untyped_storage().nbytes() == 0


def test_frozen_weights_that_training_leaves_alone_are_shared():
    model = nn.Sequential(nn.Linear(64, 64).requires_grad_(False), nn.Linear(64, 10))
    order = Turns(model, 2, 2)
    first, second = Turn(adam), Turn(adam)
    order.take(first)
    assert first.model[0].weight.data_ptr() != model[0].weight.data_ptr()
    order.settle(first)
    order.take(second)
    for turn in (first, second):
        assert turn.model[0].weight.data_ptr() == model[0].weight.data_ptr()
        assert turn.model[1].weight.data_ptr() != model[1].weight.data_ptr()
    changing = Averaged()
    order = Turns(changing, 2, 2)
    third = Turn(adam)
    order.take(third)
    third.model(X)
    order.settle(third)
    assert third.model.slow.weight.data_ptr() != changing.slow.weight.data_ptr()


def test_more_than_is_allowed_is_refused_before_it_is_copied(as_users_see_it):
    model = wide()
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    with memory(4 * size), pytest.raises(Refusal, match=r"A copy in training needs .*--memory"):
        Turns(model, 4, 2)
    with memory(6 * size):
        assert "of memory besides what a step computes and" in Turns(model, 4, 2).words
    with pytest.raises(Refusal, match="got none that require gradients"):
        Turns(wide().requires_grad_(False), 4, 2)
