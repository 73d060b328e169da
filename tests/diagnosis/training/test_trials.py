"""What is tried beside the user's run, and between which losses it goes."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Budget
from sigmascope.diagnosis.programs import recipe_of
from sigmascope.diagnosis.training import TrainingSamples
from sigmascope.diagnosis.training.runs import started
from sigmascope.diagnosis.training.trials import (
    FORM,
    PLANNED,
    Scale,
    Trials,
    _worth,
    steps_for,
    tried,
    usual_rate,
)
from sigmascope.survey.task import least_losses
from tests.clocks import Ticking
from tests.diagnosis.training.test_evidence import X, Y, network, readings


@pytest.mark.parametrize(
    ("name", "rate", "form", "better"),
    [
        ("sgd", 1e-4, "rate x 100", 1e-2),
        ("sgd", 30.0, "rate x 0.01", 0.3),
        ("sgd", 1e-6, "usual rate, higher", 0.1),
        ("adam", 1e-8, "usual rate, higher", 1e-3),
        ("adam", 1e3, "usual rate, lower", 1e-3),
    ],
)
def test_a_bad_rate_is_set_beside_better_ones_and_the_usual_where_it_is_far(
    name, rate, form, better
):
    seen = readings(rate, name=name, planned=None if form.startswith("rate") else 200)
    broke = ("broke at step", PLANNED) in seen
    mine = math.inf if broke else seen["loss left", PLANNED].value
    assert seen["loss left", form].value < min((0.9 if form[0] == "r" else 1.0) * mine, 9.0)
    assert seen["rate", form].value == pytest.approx(better)


def test_momentum_lowers_the_usual_rate():
    model = network()
    rate = lambda **options: usual_rate(recipe_of("sgd", model, 1.0, **options))
    assert (rate(), rate(momentum=0.9)) == (pytest.approx(0.1), pytest.approx(0.01))


@pytest.mark.parametrize(
    ("work", "size", "planned", "steps"),
    [
        (1e12, 16, None, 32),  # 8 passes over 64 samples
        (1e12, 1, None, 60),
        (1e12, 64, None, 16),
        (1.0, 16, None, 1000),
        (4e9 / (16 * 300), 16, None, 300),
        (1.0, 16, 12, 12),
    ],
)
def test_how_many_steps(work, size, planned, steps):
    assert steps_for(work, TrainingSamples(X, Y, F.mse_loss, size), planned) == steps


def test_the_loss_that_is_left_is_told_between_the_best_and_a_constant():
    data = TrainingSamples(X, Y, F.mse_loss, 16)
    scale = Scale.of(*least_losses(data.loss, torch.zeros(64, 1), Y), 9.0, room=9e-6)
    assert scale.left(float(Y.var(correction=0))) == pytest.approx(1.0, rel=1e-4)
    assert scale.left(0.0) == pytest.approx(0.0, abs=1e-6)
    alone = Scale.of(*least_losses(F.mse_loss, torch.zeros(1, 1), Y[:1]), 9.0, room=9e-6)
    assert alone.left(9.0) == pytest.approx(1.0)  # a constant fits one sample: its first loss


def beside(rate, *, steps=40, targets=Y, **how):
    model = network()
    data = TrainingSamples(X, targets, F.mse_loss, 16)
    return tried(model, data, recipe_of("sgd", model, rate), steps, clip=None, **how)


def test_a_rate_that_is_no_better_half_way_is_ended():
    trials = beside(1e-4)
    assert trials.halved == ["rate x 0.1"]
    made = {form: run.steps for form, run in trials.others.items()}
    assert made == {form: 25 if form == "rate x 0.1" else 51 for form in made}  # of 128 of its own


def test_beside_a_run_that_breaks_later_no_rate_is_ended_for_what_it_was_before():
    trials = beside(30.0)
    assert not trials.mine.finite
    assert trials.mine.steps == 8
    assert not trials.halved
    assert trials.others["rate x 0.01"].steps == 16


def test_a_run_that_learns_late_goes_on_until_it_does():
    more = TrainingSamples(X + 0.01, Y, F.mse_loss, 16)
    slow = beside(1e-3, steps=16, unseen=more)
    assert slow.mine.steps == slow.wanted == 80
    assert slow.scale.left(slow.mine.elsewhere) < 0.9
    blind = beside(1e-3, steps=16)  # where nothing says that it is no learning by heart
    assert blind.mine.steps == 128
    assert blind.mine.losses[:80] == slow.mine.losses


def test_a_run_that_goes_on_keeps_what_its_optimizer_remembers():
    model, data = network(), TrainingSamples(X, Y, F.mse_loss, 16)
    recipe = recipe_of("sgd", model, 1e-5, momentum=0.9)
    plain = started(model, recipe, 16)
    plain.go_on(data, 128)
    assert tried(model, data, recipe, 16, clip=None).mine.losses == plain.losses


def test_runs_beside_the_users_leave_time_for_what_is_to_follow():
    def made(seconds, kept):
        clock = Ticking()
        model = network()
        data = TrainingSamples(X, Y, clock.each(F.mse_loss), 16)
        budget = Budget(seconds, clock=clock)
        how = {"ends": (0.0, float(Y.var())), "budget": budget, "planned": 100, "clip": None}
        with budget.counting():
            return tried(model, data, recipe_of("sgd", model, 1e-5), 100, kept=kept, **how)

    whole, spared = made(260.0, 0), made(260.0, 20)
    assert {*spared.others} < {*whole.others}
    assert "rate x 10" in {*spared.left_out} & {*whole.others}
    assert {*made(260.0, 5000).others} == {*whole.others}  # for which there is no time anyway


def test_smaller_batches_are_tried_where_an_epoch_has_few():
    model = network()
    trials = tried(
        model, TrainingSamples(X, Y, F.mse_loss, 64), recipe_of("sgd", model, 1e-4), 20, clip=None
    )
    assert trials.others["smaller batch"].size == 8
    samples = {f: r.steps * r.size for f, r in trials.others.items()}
    assert samples["smaller batch"] == samples["rate x 10"]


@pytest.mark.parametrize(
    ("outer", "inner", "mine", "finite", "worth"),
    [
        (100.0, 0.5, 1.0, True, True),
        (100.0, 1.0, 1.0, True, False),  # no better: the way leads nowhere
        (100.0, 2.0, 1.0, False, True),
        (0.01, 0.5, 1.0, True, True),
        (0.01, 2.0, 1.0, True, False),
        (10.0, 2.0, 1.0, True, True),  # the inner ones are always tried
    ],
)
def test_an_outer_rate_is_tried_where_the_inner_one_was_better(outer, inner, mine, finite, worth):
    model = network()
    made = lambda: started(model, recipe_of("sgd", model, 0.1), 16)
    own, before = made(), made()
    own.losses += [mine] * 8
    before.losses += [inner] * 8
    before.finite = finite
    others = {FORM[0.1]: before, FORM[10.0]: before}
    assert _worth(outer, Trials(own, others, Scale(0.0, 1.0))) is worth


@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
def test_a_loss_that_blew_up_is_not_the_one_to_beat(size):
    """Beside a first loss of 1e8 that of a constant is nothing, and still what counts."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 3))
    with torch.no_grad():
        model[1].weight.mul_(size)
    x, y = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3
    recipe = recipe_of("adam", model, 1e-6)
    trials = tried(model, TrainingSamples(x, y, F.cross_entropy, 20), recipe, 16, clip=None)
    assert trials.scale.same == pytest.approx(math.log(3), rel=0.01)
