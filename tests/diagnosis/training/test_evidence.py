"""What training shows: the user's run, and others beside it."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.diagnosis.programs import recipe_of
from sigmascope.diagnosis.training import Data, training_items
from sigmascope.diagnosis.training.evidence import (
    FORM,
    PLANNED,
    Scale,
    Trials,
    _worth,
    falling,
    steps_for,
    tried,
    usual_rate,
)
from sigmascope.diagnosis.training.runs import started
from sigmascope.records import Reading
from sigmascope.survey.task import least_losses

G = torch.Generator().manual_seed(0)
X = torch.randn(64, 5, generator=G)
Y = X[:, :1] - 2 * X[:, 1:2]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))


def readings(rate, *, name="sgd", planned=None, targets=Y, loss=F.mse_loss, size=16):
    model = network()
    items = training_items(
        model, Data(X, targets, loss, size), recipe_of(name, model, rate), planned=planned
    )
    return {(i.quantity, i.form): i.estimate for i in items if isinstance(i, Reading)}


def test_a_good_rate_needs_no_other():
    seen = readings(0.1)
    assert seen["loss left", PLANNED].value < 0.05
    assert seen["score", PLANNED].value > 0.9
    assert {form for _, form in seen} == {PLANNED}


@pytest.mark.parametrize(("rate", "better"), [(1e-4, "rate x 100"), (30.0, "rate x 0.01")])
def test_a_bad_rate_is_set_beside_better_ones(rate, better):
    seen = readings(rate)
    broke = ("broke at step", PLANNED) in seen
    mine = math.inf if broke else seen["loss left", PLANNED].value
    assert seen["loss left", better].value < 0.9 * mine
    assert seen["rate", better].value == pytest.approx(rate * float(better.split()[-1]))


@pytest.mark.parametrize(
    ("name", "rate", "form", "usual"),
    [
        ("sgd", 1e-6, "usual rate, higher", 0.1),
        ("adam", 1e-8, "usual rate, higher", 1e-3),
        ("adam", 1e3, "usual rate, lower", 1e-3),
    ],
)
def test_the_usual_rate_is_tried_where_the_users_is_far(name, rate, form, usual):
    seen = readings(rate, name=name)
    assert seen["rate", form].value == pytest.approx(usual)
    broke = ("broke at step", PLANNED) in seen
    assert seen["loss left", form].value < (9.0 if broke else seen["loss left", PLANNED].value)


def test_momentum_lowers_the_usual_rate():
    model = network()
    rate = lambda **options: usual_rate(recipe_of("sgd", model, 1.0, **options))
    assert (rate(), rate(momentum=0.9)) == (pytest.approx(0.1), pytest.approx(0.01))


def test_no_more_steps_than_are_planned():
    seen = readings(0.001, planned=7)
    assert seen["steps tried", PLANNED].value == seen["planned steps", PLANNED].value == 7


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
    assert steps_for(work, Data(X, Y, F.mse_loss, size), planned) == steps


def test_the_loss_that_is_left_is_told_between_the_best_and_a_constant():
    data = Data(X, Y, F.mse_loss, 16)
    scale = Scale.of(*least_losses(data.loss, torch.zeros(64, 1), Y), 9.0)
    assert scale.left(float(Y.var(correction=0))) == pytest.approx(1.0, rel=1e-4)
    assert scale.left(0.0) == pytest.approx(0.0, abs=1e-6)
    alone = Scale.of(*least_losses(F.mse_loss, torch.zeros(1, 1), Y[:1]), 9.0)
    assert alone.left(9.0) == pytest.approx(1.0)  # a constant fits one sample: its first loss


def test_smaller_batches_are_tried_where_an_epoch_has_few():
    model = network()
    trials = tried(model, Data(X, Y, F.mse_loss, 64), recipe_of("sgd", model, 1e-4), 20, clip=None)
    assert trials.others["smaller batch"].size == 8
    samples = {f: r.steps * r.size for f, r in trials.others.items()}
    assert samples["smaller batch"] == samples["rate x 10"]


@pytest.mark.parametrize(
    ("losses", "value"),
    [
        ([9.0] * 8 + [2.0] * 4 + [1.0] * 4, 0.5),  # of the second half alone
        ([9.0] * 8 + [1.0] * 4 + [2.0] * 4, -1.0),
        ([1.0] * 16, 0.0),
        ([1.0] * 14, None),  # seven are too few
        ([0.0] * 16, None),
    ],
)
def test_the_last_fall_is_that_of_the_second_half(losses, value):
    model = network()
    run = started(model, recipe_of("sgd", model, 0.1), 16)
    run.losses += losses
    seen = falling(run)
    assert seen is None if value is None else seen.value == pytest.approx(value)


def test_the_last_fall_has_its_standard_errors():
    model = network()
    run = started(model, recipe_of("sgd", model, 0.1), 16)
    run.losses += [5.0] * 16 + [1.0, 3.0] * 4 + [1.0, 2.0] * 4
    seen = falling(run)
    errors = math.sqrt((8 / 7 + 2 / 7) / 8)  # of the two means: variances over eight
    assert (seen.value, seen.risk) == (pytest.approx(0.25), 0.05)
    assert seen.high - seen.value == pytest.approx(2 * errors / 2, rel=1e-6)


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
