"""Copies are trained as the user trains, step by step."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.records import Estimate
from sigmascope.diagnosis.programs import recipe_of
from sigmascope.diagnosis.training import TrainingSamples, training_items
from sigmascope.diagnosis.training.runs import (
    boundary,
    chance_below,
    falling,
    scaled_inputs,
    score_of,
    started,
    work_of,
)
from tests.models_zoo import Net

UNDERWAY = 0.55

G = torch.Generator().manual_seed(0)
X, Y = torch.randn(40, 3, generator=G), torch.randn(40, 1, generator=G)


def network(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), *more, nn.Linear(8, 1))


def test_a_run_is_what_a_plain_loop_does():
    model, copy = network(), network()
    run = started(model, recipe_of("sgd", model, 0.1, momentum=0.9), 40)
    data = TrainingSamples(X, Y, F.mse_loss, 40)
    run.go_on(data, 3)
    run.go_on(data, 7)  # it goes on where it stopped
    by = torch.optim.SGD(copy.parameters(), 0.1, momentum=0.9)
    losses = []
    for _ in range(7):
        by.zero_grad()
        value = F.mse_loss(copy(X), Y)
        losses.append(value.item())
        value.backward()
        by.step()
    assert run.losses == pytest.approx(losses, rel=1e-5)
    assert torch.allclose(run.output(data), copy(X), atol=1e-6)
    assert torch.equal(model[0].weight, network()[0].weight)


def test_a_run_that_rests_keeps_its_weights_and_no_moments():
    run = started(network(), recipe_of("adam", network(), 0.1), 40)
    data = TrainingSamples(X, Y, F.mse_loss, 40)
    run.go_on(data, 3)
    output = run.output(data)
    run.rest()
    assert torch.equal(run.output(data), output)
    assert not run.optimizer.state
    assert all(p.grad is None for p in run.model.parameters())
    run.forget()
    assert (run.steps, [*run.model.parameters()]) == (3, [])


def test_batches_go_through_all_samples():
    draws = TrainingSamples(X, Y, F.mse_loss, 16).draws(16)
    rows = torch.cat([next(draws)[0] for _ in range(3)])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, X.tolist()))
    batch, targets = next(draws)
    where = [(row == X).all(1).nonzero().item() for row in batch]
    assert torch.equal(targets, Y[where])


def test_it_is_the_same_every_time_and_leaves_random_states():
    def losses():
        model = network(nn.Dropout(0.5))
        run = started(model, recipe_of("adam", model, 0.01), 8)
        run.go_on(TrainingSamples(X, Y, F.mse_loss, 8), 12)
        return run.losses

    state = torch.random.get_rng_state()
    first = losses()
    network()
    assert losses() == first
    torch.random.set_rng_state(state)


def test_where_it_breaks():
    model = network()
    run = started(model, recipe_of("sgd", model, 1e30), 40)
    run.go_on(TrainingSamples(X, Y, F.mse_loss, 40), 20)
    assert not run.finite
    assert run.steps < 5
    assert run.after(20) == math.inf


def test_gradients_are_clipped():
    model = network()
    run = started(model, recipe_of("sgd", model, 1.0), 40, clip=1e-3)
    run.go_on(TrainingSamples(X, 100 * Y, F.mse_loss, 40), 1)
    both = zip(run.model.parameters(), model.parameters(), strict=True)
    moved = sum((a - b).detach().square().sum().item() for a, b in both)
    assert math.sqrt(moved) == pytest.approx(1e-3, rel=1e-2)


def test_outputs_are_read_without_dropout_and_with_the_statistics_of_training():
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.9), nn.Linear(8, 1))
    run = started(model, recipe_of("sgd", model, 0.0), 40)
    data = TrainingSamples(5 * X + 3, Y, F.mse_loss, 40)
    run.go_on(data, 1)
    out = run.output(data)
    assert torch.equal(out, run.output(data))
    hidden = model[0](5 * X + 3)
    normal = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + 1e-5).sqrt()
    assert torch.allclose(out, model[3](normal), atol=1e-4)


@pytest.mark.parametrize(
    ("model", "batch", "work"),
    [
        (nn.Linear(3, 8), X, 24),
        (nn.Conv2d(2, 4, 3, padding=1), torch.ones(5, 2, 6, 6), 36 * 4 * 2 * 9),
        (nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 8)), X.reshape(10, 4, 3), 4 * (24 + 64)),
    ],
)
def test_work_is_counted_in_multiplications(model, batch, work):
    assert work_of(model, TrainingSamples(batch, Y, F.mse_loss, 4)) == work


def test_an_optimizer_that_searches_evaluates_the_loss_itself():
    model, copy = network(), network()
    run = started(model, recipe_of("lbfgs", model, 0.5, max_iter=3), 40)
    assert run.evaluations == 3
    run.go_on(TrainingSamples(X, Y, F.mse_loss, 40), 4)
    by = torch.optim.LBFGS(copy.parameters(), 0.5, max_iter=3)

    def again():
        by.zero_grad()
        value = F.mse_loss(copy(X), Y)
        value.backward()
        return value

    losses = [by.step(again).item() for _ in range(4)]
    assert run.losses == pytest.approx(losses, rel=1e-4)
    assert started(model, recipe_of("adam", model, 0.1), 40).evaluations == 1


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_sparse_gradients_are_what_some_optimizers_take(name):
    """Another family takes none of them, which takes nothing of what the user's run tells."""
    ids = torch.randint(20, (64, 5), generator=G)
    torch.manual_seed(0)
    parts = {"words": nn.Embedding(20, 8, sparse=True), "head": nn.Linear(8, 3)}
    model = Net(lambda self, ids: self.head(self.words(ids).mean(1)), **parts)
    data = TrainingSamples(ids, (ids == 3).any(1).long(), F.cross_entropy, 16)
    recipe = recipe_of(name, model, 1e-4)
    forms = {r.form for r in training_items(model, data, recipe, planned=40)}
    assert {"as planned", "rate x 10"} <= forms
    assert ("other optimizer" in forms) is (name == "adagrad")


def test_a_last_single_sample_is_left_out_unless_all_are_single():
    """Batch normalisers take none."""
    sizes = lambda data, size: [len(b) for b, _ in itertools.islice(data.draws(size), 6)]
    odd = TrainingSamples(X[:9], Y[:9], F.mse_loss, 4)
    assert sizes(odd, 4) == [4, 4] * 3
    assert sizes(odd, 1) == [1] * 6
    assert sizes(TrainingSamples(X[:10], Y[:10], F.mse_loss, 4), 4) == [4, 4, 2] * 2


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("shape", [(64, 3), (16, 1, 4, 4), (16, 5, 2)])
def test_inputs_of_another_size_are_brought_to_one(size, shape):
    x = size * torch.rand(shape, generator=torch.Generator().manual_seed(0)) + size / 9
    made = scaled_inputs(TrainingSamples(x, torch.zeros(len(x)), F.mse_loss, 8))
    assert (made is None) == (0.01 <= float(x.square().mean().sqrt()) <= 30)
    if made is not None:
        assert float(made.batch.square().mean()) == pytest.approx(1.0, rel=1e-3)
        assert float(made.batch.mean()) == pytest.approx(0.0, abs=1e-3)


def test_what_has_no_size_is_not_scaled():
    for x in (torch.arange(100, 200)[:, None], (torch.ones(4, 2) * 99,)):
        assert scaled_inputs(TrainingSamples(x, torch.zeros(4), F.mse_loss, 2)) is None
    constant = torch.cat([torch.full((8, 1), 500.0), torch.arange(8.0)[:, None]], 1)
    made = scaled_inputs(TrainingSamples(constant, torch.zeros(8), F.mse_loss, 2))
    assert made is not None
    assert made.batch[:, 0].eq(0).all()  # a column that is the same for all tells nothing


LINE = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
YES = (LINE[:, :1] - 2 * LINE[:, 1:2] > 0).float()


@pytest.mark.parametrize(
    ("loss", "at"),
    [(F.binary_cross_entropy, 0.5), (F.binary_cross_entropy_with_logits, 0.0), (F.mse_loss, 0.5)],
)
def test_where_yes_begins(loss, at):
    data = TrainingSamples(LINE, YES, loss, 16)
    assert boundary(torch.full((64, 1), 0.3), data) == at


CLASSES = torch.arange(64) % 3


@pytest.mark.parametrize(
    ("outputs", "targets", "loss", "right"),
    [
        (3, CLASSES, F.cross_entropy, lambda out: out.argmax(1) == CLASSES),
        *(
            (1, y, F.binary_cross_entropy_with_logits, lambda out, y=y: (out > 0) == (y > 0))
            for y in (YES, torch.ones(64, 1))
        ),
    ],
)
def test_scores_are_accuracies_of_classes_and_of_yes_and_no(outputs, targets, loss, right):
    model = nn.Sequential(nn.Linear(5, outputs))
    with torch.no_grad():  # says yes to some and no to others, whatever was drawn before
        model[0].weight[0] = torch.tensor([1.0, -1.0, 0.0, 0.0, 0.0])
        model[0].bias.zero_()
    data = TrainingSamples(LINE, targets, loss, 64)
    run = started(model, recipe_of("sgd", model, 0.0), 64)
    run.go_on(data, 1)
    share = right(model(LINE)).double().mean().item()
    assert 0 < share < 1
    assert score_of(run, data) == share


def test_the_probability_is_that_of_a_normal_logarithm():
    assert chance_below(Estimate.exactly(UNDERWAY)).value == pytest.approx(0.5)
    wide = Estimate(1.0, 0.25, 4.0, "made up")  # a standard deviation of log(4) / 1.645
    z = math.log(UNDERWAY) / (math.log(4.0) / 1.645)
    assert chance_below(wide).value == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2)), rel=1e-3)
    values = [chance_below(Estimate.exactly(v)).value for v in (0.0, 0.3, 0.54, 0.56, 1.0, 9.0)]
    assert values == sorted(values, reverse=True)
    assert (values[0], values[-1]) == (0.995, 0.005)


def scored(output, targets, loss):
    run = SimpleNamespace(model=nn.Identity(), output=lambda data: output)
    return score_of(run, TrainingSamples(torch.ones(len(targets), 2), targets, loss, 4))


FOUR = torch.tensor([[1.0], [0], [1], [0]])


@pytest.mark.parametrize(
    ("output", "targets", "loss", "score"),
    [
        (torch.tensor([[3.0], [-2], [-1], [-4]]), FOUR, F.binary_cross_entropy_with_logits, 0.75),
        (torch.tensor([[0.3], [0.2], [0.1], [0.4]]), FOUR, F.binary_cross_entropy_with_logits, 0.5),
        (torch.tensor([[0.9], [0.2], [0.4], [0.1]]), FOUR, F.binary_cross_entropy, 0.75),
        (torch.eye(4), torch.tensor([0, 1, 2, 0]), F.cross_entropy, 0.75),
        (torch.eye(4), torch.tensor([0, 1, -100, -100]), F.cross_entropy, 1.0),
        (torch.tensor([[1.5], [2.5], [3.5], [4.5]]), torch.tensor([[1.5], [2.5], [3.5], [5.5]]),
         F.mse_loss, 1 - 1 / 8.75),
        (torch.full((4, 1), 99.0), torch.tensor([[1.5], [2.5], [3.5], [5.5]]), F.mse_loss, -1.0),
        (torch.zeros(4, 1), torch.full((4, 1), 2.5), F.mse_loss, None),
        (torch.zeros(4, 3), torch.tensor([[1.5], [2.5], [3.5], [5.5]]), F.mse_loss, None),
        (torch.full((4, 1), math.nan), FOUR, F.binary_cross_entropy_with_logits, None),
    ],
)  # fmt: skip
def test_a_score_is_the_share_of_right_answers_or_of_variance_that_is_told(
    output, targets, loss, score
):
    assert scored(output, targets, loss) == (None if score is None else pytest.approx(score))


def fell(losses):
    model = network()
    run = started(model, recipe_of("sgd", model, 0.1), 16)
    run.losses += losses
    return falling(run)


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
    seen = fell(losses)
    assert seen is None if value is None else seen.value == pytest.approx(value)


def test_the_last_fall_has_its_standard_errors():
    seen = fell([5.0] * 16 + [1.0, 3.0] * 4 + [1.0, 2.0] * 4)
    errors = math.sqrt((8 / 7 + 2 / 7) / 8)  # of the two means: variances over eight
    assert (seen.value, seen.risk) == (pytest.approx(0.25), 0.05)
    assert seen.high - seen.value == pytest.approx(2 * errors / 2, rel=1e-6)
