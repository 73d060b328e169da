"""What a step does to each weight, against arithmetic."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.diagnosis.programs.optimizers import recipe_of
from sigmascope.diagnosis.scaling.measuring import read_run
from sigmascope.diagnosis.training import TrainingSamples
from tests.fingerprints import differences, fingerprint


def samples(x, y, size=None):
    return TrainingSamples(x, y, F.cross_entropy, size or len(x))


@pytest.fixture
def task():
    g = torch.Generator().manual_seed(0)
    return torch.randn(32, 6, generator=g), torch.randint(3, (32,), generator=g)


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def rms(t):
    return t.double().square().mean().sqrt().item()


def test_the_first_step_of_gradient_descent_is_read_as_it_is(task):
    x, y = task
    model = net()
    found = read_run(model, recipe_of("sgd", model, 0.1), samples(x, y), 2)
    loss = F.cross_entropy(model(x), y)
    first, _, last = model
    gradients = torch.autograd.grad(loss, [first.weight, last.weight, last.bias])
    hidden = torch.tanh(first(x))
    w = found.weights["0.weight"].values
    assert w["effect at first"] == pytest.approx(rms(0.1 * x @ gradients[0].T), rel=1e-5)
    assert w["gradient"] == pytest.approx(rms(gradients[0]), rel=1e-5)
    assert w["degree"] == pytest.approx(1, abs=1e-3)
    assert "carried at first" not in w  # what it reads does not change
    w = found.weights["2.weight"].values
    assert w["effect at first"] == pytest.approx(rms(0.1 * hidden @ gradients[1].T), rel=1e-5)
    moved = torch.tanh(F.linear(x, first.weight - 0.1 * gradients[0], _bias(model, x, y))) - hidden
    carried = rms(moved @ last.weight.T) / rms(moved)
    assert w["carried at first"] == pytest.approx(carried, rel=1e-4)
    norms = torch.linalg.svdvals(0.1 * gradients[1].double())
    assert w["norm of change at first"] == pytest.approx(norms[0].item(), rel=1e-4)
    acts = (hidden @ gradients[1].T).norm() / (hidden.norm() * norms[0] / 0.1)
    assert w["alignment"] == pytest.approx(acts.item(), rel=1e-4)
    assert 0 < w["alignment"] <= 1
    ranks = (norms.square().sum() / norms[0].square()).item()
    assert w["stable rank of change at first"] == pytest.approx(ranks, rel=1e-3)
    assert found.weights["2.bias"].values["effect at first"] == pytest.approx(
        rms(0.1 * gradients[2]), rel=1e-4
    )
    assert found.weights["2.weight"].is_last
    assert not found.weights["0.weight"].is_last
    assert found.weights["0.weight"].features == (6, 8)
    assert len(found.losses) == 2
    assert found.losses[0] == pytest.approx(loss.item(), rel=1e-5)


def _bias(model, x, y):
    (gradient,) = torch.autograd.grad(F.cross_entropy(model(x), y), [model[0].bias])
    return model[0].bias - 0.1 * gradient


@pytest.mark.parametrize(
    ("name", "options", "low", "high"),
    [("sgd", {}, 0.99, 1.01), ("adam", {}, -0.01, 0.01), ("adam", {"eps": 0.1}, 0.3, 0.999)],
)
def test_the_power_of_the_gradient_by_which_an_optimizer_moves(task, name, options, low, high):
    model = net()
    found = read_run(model, recipe_of(name, model, 1e-2, **options), samples(*task), 1)
    assert all(low < w.values["degree"] < high for n, w in found.weights.items() if n[0] != "(")


def test_the_model_and_the_random_state_are_left_as_found(task):
    model = net().train()
    model.insert(1, nn.Dropout(0.5))
    before = fingerprint(model=model, x=task[0])
    read_run(model, recipe_of("adam", model, 1e-2), samples(*task), 2)
    assert not differences(before, fingerprint(model=model, x=task[0]))


def test_a_multiplier_behind_the_last_layer_is_a_part_of_what_it_does(task):
    class Scaled(nn.Module):
        def __init__(self, by):
            super().__init__()
            self.body, self.by = net(), by

        def forward(self, x):
            return self.by * self.body(x)

    model = Scaled(0.5)
    found = read_run(model, recipe_of("sgd", model, 0.1), samples(*task), 1).weights
    last = found["body.2.weight"]
    assert last.is_last
    assert last.values["multiplier"] == pytest.approx(0.5, rel=1e-6)
    loss = F.cross_entropy(model(task[0]), task[1])
    (gradient,) = torch.autograd.grad(loss, [model.body[2].weight])
    hidden = torch.tanh(model.body[0](task[0]))
    moved = rms(0.5 * 0.1 * hidden @ gradient.T)
    assert last.values["effect at first"] == pytest.approx(moved, rel=1e-4)
    assert "multiplier" not in found["body.0.weight"].values


def test_a_weight_that_is_shared_stands_under_each_name():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok, self.out = nn.Embedding(5, 8), nn.Linear(8, 5, bias=False)
            self.out.weight = self.tok.weight

        def forward(self, ids):
            return self.out(self.tok(ids))

    ids = torch.arange(20) % 5
    model = Tied()
    found = read_run(model, recipe_of("sgd", model, 0.1), samples(ids, ids.roll(1)), 1)
    assert found.shared == (("tok.weight", "out.weight"),)
    assert found.weights["tok.weight"].features == (1, 8)
    assert found.weights["out.weight"].features == (8, 5)


@pytest.mark.parametrize("fused", [True, False])
def test_scores_of_attention_are_read_and_who_asks(fused):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
            self.out = nn.Linear(8, 3)

        def forward(self, x):
            q, k, v = (m(x).unflatten(2, (2, 4)).transpose(1, 2) for m in (self.q, self.k, self.v))
            if fused:
                mixed = F.scaled_dot_product_attention(q, k, v)
            else:
                mixed = (q @ k.mT / 2).softmax(-1) @ v
            return self.out(mixed.transpose(1, 2).flatten(2).mean(1))

    torch.manual_seed(0)
    model, x = Attention(), torch.randn(6, 5, 8)
    found = read_run(model, recipe_of("adam", model, 1e-2), samples(x, torch.arange(6) % 3), 1)
    heads = [m(x).unflatten(2, (2, 4)).transpose(1, 2) for m in (model.q, model.k)]
    scores = found.weights["(scores of attention 1)"].values
    assert scores["written"] == pytest.approx(rms(heads[0] @ heads[1].mT / 2), rel=1e-5)
    assert scores["changed at first"] > 0
    asking = {n for n, w in found.weights.items() if w.asks}
    assert asking == ({"q.weight", "q.bias", "k.weight", "k.bias"} if fused else set())


def test_what_no_call_can_be_read_of_is_read_of_what_holds_it(task):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift, self.body = nn.Parameter(torch.zeros(3)), net()

        def forward(self, x):
            return self.body(x) + self.shift

    model = Own()
    found = read_run(model, recipe_of("sgd", model, 0.1), samples(*task), 1)
    assert not found.unread
    (gradient,) = torch.autograd.grad(F.cross_entropy(model(task[0]), task[1]), [model.shift])
    moved = found.weights["shift"].values["effect at first"]
    assert moved == pytest.approx(rms(0.1 * gradient), rel=1e-4)
