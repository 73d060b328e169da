"""What training shows: the readings of the user's run."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Budget
from sigmascope.core.records import Reading, Skipped
from sigmascope.diagnosis.programs import recipe_of
from sigmascope.diagnosis.programs.outputs import NotAtHand
from sigmascope.diagnosis.training import TrainingSamples, training_items
from sigmascope.diagnosis.training.trials import PLANNED
from tests.clocks import Ticking

G = torch.Generator().manual_seed(0)
X = torch.randn(64, 5, generator=G)
Y = X[:, :1] - 2 * X[:, 1:2]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))


def readings(rate, *, name="sgd", planned=None, targets=Y, loss=F.mse_loss, size=16):
    model = network()
    items = training_items(
        model,
        TrainingSamples(X, targets, loss, size),
        recipe_of(name, model, rate),
        planned=planned,
    )
    return {(i.quantity, i.form): i.estimate for i in items if isinstance(i, Reading)}


def test_a_good_rate_needs_no_other():
    seen = readings(0.1)
    assert seen["loss left", PLANNED].value < 0.05
    assert seen["score", PLANNED].value > 0.9
    assert {form for _, form in seen} == {PLANNED}


@pytest.mark.parametrize(
    ("rate", "planned", "idle"),
    [
        (0.1, None, "rate x 0.1, rate x 10, other optimizer"),  # nothing could be much better
        (0.01, 20, "rate x 0.1, other optimizer"),  # it learns, and a larger rate might be better
        (1e-5, 200, ""),
    ],
)
def test_what_could_change_nothing_is_not_tried_and_that_is_said(rate, planned, idle):
    model, data = network(), TrainingSamples(X, Y, F.mse_loss, 16)
    items = [*training_items(model, data, recipe_of("sgd", model, rate), planned=planned)]
    said = [i.why for i in items if isinstance(i, Skipped) and i.what == "other settings"]
    assert [why.partition(" were not tried: ")[0] for why in said] == ([idle] if idle else [])
    forms = {i.form for i in items if isinstance(i, Reading)}
    assert forms.isdisjoint(idle.split(", "))


@pytest.mark.parametrize(
    ("error", "site"), [(NotAtHand, "(training)"), (ValueError, "(a training step)")]
)
def test_what_cannot_be_asked_of_a_loss_is_no_fault_of_the_step(error, site):
    def loss(output, targets):
        raise error("as many samples")

    model, data = network(), TrainingSamples(X, Y, loss, 16)
    how = {"planned": None, "ends": (0.0, 1.0)}
    (said,) = training_items(model, data, recipe_of("sgd", model, 0.1), **how)
    assert isinstance(said, Skipped)
    assert said.site == site
    assert said.why.startswith("a limit of sigmascope") == (error is NotAtHand)


def within(seconds):
    """Items of a bad rate, where every loss takes a second."""
    clock = Ticking()
    loss = clock.each(F.mse_loss)
    data, recipe = TrainingSamples(X, Y, loss, 16), recipe_of("sgd", network(), 1e-5)
    ends = (0.0, float(Y.var()))
    budget = Budget(seconds, clock=clock)
    return [*training_items(network(), data, recipe, planned=200, ends=ends, budget=budget)]


def test_what_there_is_no_time_for_is_said():
    items = within(100.0)
    read = [i for i in items if isinstance(i, Reading)]
    steps = [i.estimate.value for i in read if i.quantity == "steps tried"]
    assert steps == [49]  # half of the time, less three losses of other batches
    more, others = (i for i in items if isinstance(i, Skipped))
    assert more.why.startswith("49 of 200 steps were made, a budget of 1.67min had no time")
    assert "`--budget 8.33min` (`budget=500` in Python)" in more.why
    assert others.what == "other settings"
    forms = {i.form for i in read} - {PLANNED}
    assert forms == {"rate x 0.1", "rate x 10"}  # 20 steps each
    assert "rate x 100 " in others.why.replace(",", " ")
    (ended,) = (i for i in within(1e6) if isinstance(i, Skipped))
    assert ended.why.startswith("rate x 0.1 ended half-way")


def test_too_few_steps_tell_nothing():
    (only,) = within(23.0)  # three of them for the loss of other batches
    assert (only.site, only.what) == ("(training)", "training")  # no fault of the program
    assert "must make 16 steps or more, got time for 10 of them" in only.why


def test_no_more_steps_than_are_planned():
    seen = readings(0.001, planned=7)
    assert seen["steps tried", PLANNED].value == seen["planned steps", PLANNED].value == 7


def test_what_is_learned_by_heart_has_a_low_lower_end():
    model = network()
    coins = torch.randn(256, 1, generator=torch.Generator().manual_seed(1))
    wide = torch.randn(256, 5, generator=torch.Generator().manual_seed(2))
    told = torch.stack([wide[:, 0], wide.sum(1)], 1).sum(1, keepdim=True)
    for targets, sure in ((coins, False), (told, True)):
        data = TrainingSamples(wide[:16], targets[:16], F.mse_loss, 16)
        others = TrainingSamples(wide[16:], targets[16:], F.mse_loss, 16)
        items = training_items(
            model, data, recipe_of("adam", model, 0.01), planned=600, unseen=others
        )
        seen = {i.quantity: i.estimate for i in items if isinstance(i, Reading)}
        chance = seen["probability at your settings"]
        assert chance.value > 0.9
        assert (chance.low > 0.5) == sure
        assert (seen["loss left on others"].value < 0.55) == sure
