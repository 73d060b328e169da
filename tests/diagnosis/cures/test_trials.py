"""Cures are trained as the user trains, and ranked by what that gives."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sigmascope as ss
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.cures import Cure, cured
from sigmascope.diagnosis.cures.trials import _worth_more

G = torch.Generator().manual_seed(0)
X = torch.randn(120, 6, generator=G)
CLASSES = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()
VALUES = 40 * X[:, :1]


def network(*last, outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, outputs), *last)


def best(model, targets, loss, **more):
    given = {"optimizer": "adam", "lr": 0.01, "batch_size": 24, "epochs": 12, **more}
    return cured(ss.Program(model, (X, targets), loss, **given), samples=120)


def test_the_end_that_is_in_the_way_is_left_out():
    found = best(network(nn.Sigmoid(), outputs=1), VALUES, F.mse_loss, lr=0.1)
    first = found.tried[0]
    assert first.name.startswith("end-in-linear")
    assert first.cause == "out-of-reach"
    assert first.before < 0.2 < 0.8 < first.after


def test_a_cure_that_there_is_no_time_for_is_declined():
    given = {"optimizer": "adam", "lr": 0.01, "batch_size": 24, "epochs": 1}
    program = ss.Program(network(nn.Sigmoid(), outputs=1), (X, VALUES), F.mse_loss, **given)
    none = cured(program, ss.diagnose(program), budget=1e-6)
    assert (none.tried, [*none.declined]) == ((), ["all cures"])
    assert "got time for 0 of them in what was left of" in none.declined["all cures"]


def test_a_rate_is_lowered():
    found = best(network(), CLASSES, "cross_entropy", optimizer="sgd", lr=1e3)
    assert "rate" in found.tried[0].name or "optimizer" in found.tried[0].name
    assert found.tried[0].after > 0.8


def test_one_cure_goes_on_with_another():
    """Without the sigmoid the plan of two epochs is too short."""
    found = best(network(nn.Sigmoid(), outputs=1), VALUES, F.mse_loss, epochs=2)
    both = [c for c in found.tried if c.name.startswith("end-in-linear+")]
    assert both
    assert both[0].after > max(c.after for c in found.tried if "+" not in c.name)
    assert both[0].patch[0].startswith("# Leave out")


def test_where_nothing_was_found_nothing_is_tried_and_without_an_optimizer_it_is_refused():
    assert best(network(), CLASSES, "cross_entropy").tried == ()
    with pytest.raises(Refusal, match="name an optimizer"):
        cured(ss.Program(network(), (X, CLASSES)))


def test_the_model_is_left_as_it_is():
    model = network(nn.Softmax(-1))
    before = [p.clone() for p in model.parameters()]
    state = torch.random.get_rng_state()
    best(model, CLASSES, "cross_entropy")
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert torch.equal(state, torch.random.get_rng_state())
    assert isinstance(model[3], nn.Softmax)


@pytest.mark.parametrize(
    ("scores", "names"),
    [
        ((0.5, 0.7, 0.6), ["0", "1"]),  # the first is meant for the deepest cause
        ((0.7, 0.5), ["0"]),
        ((0.5, 0.9), []),  # one is enough
        ((0.5, 0.9 - 1e-9), ["0", "1"]),
        ((), []),
    ],
)
def test_which_cures_go_on(scores, names):
    program = ss.Program(network(), (X, CLASSES))
    made = [Cure(str(i), "cause", (), program, 0.1, s, 9) for i, s in enumerate(scores)]
    assert [c.name for c in _worth_more(made)] == names


@pytest.mark.slow
def test_what_is_learned_by_heart_is_told_from_what_holds_elsewhere():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(96, 6, generator=g)
    rule, coins = (x[:, 0] > 0).long(), torch.randint(2, (96,), generator=g)

    def tried(samples, y, epochs):
        task = (x[:samples], y[:samples]), F.cross_entropy, "adam", 1e-4, 16, epochs
        return cured(ss.Program(network(nn.Sigmoid(), outputs=2), *task), samples=32).tried

    for y, holds in ((rule, True), (coins, False)):
        found = tried(96, y, 60)
        assert all(c.others == c.others for c in found)
        best = max(found, key=lambda c: c.after)
        assert (best.others > 0.75) == holds
        assert best.after > (0.9 if holds else best.before)
    few = tried(32, rule, 5)
    assert few
    assert all(c.others != c.others for c in few)


def test_options_that_are_too_strong_are_cured_as_the_finding_says():
    how = {"optimizer": "sgd", "lr": 0.5, "epochs": 40, "options": {"weight_decay": 1.0}}
    found = best(network(), CLASSES, F.cross_entropy, **how)
    cure = next(c for c in found.tried if c.name == "less-weight-decay")
    assert cure.patch == ("weight_decay=0.0001",)
    assert cure.after > cure.before + 0.2


@pytest.mark.parametrize(
    ("scores", "places"),
    [
        ([], []),
        ([0.9, 0.2], []),  # one is enough
        ([0.2, 0.95], []),
        ([0.89, 0.2], [0]),
        ([0.2, 0.5, 0.4], [0, 1]),
        ([0.5, 0.2, 0.4], [0]),
        ([0.2, 0.3, 0.89], [0, 2]),
    ],
)
def test_the_first_cure_and_the_best_are_worth_another_where_none_is_enough(scores, places):
    made = [SimpleNamespace(after=score) for score in scores]
    assert _worth_more(made) == [made[i] for i in places]
