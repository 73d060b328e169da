import math
import weakref
from itertools import permutations
from statistics import NormalDist

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import sources, survey
from sigmascope.core.guard import memory
from sigmascope.models import Subject
from sigmascope.survey.views.gradients import Gradient, OwnModes, alike, neighbour_limits
from sigmascope.survey.views.task import ComparedInput, target_rows


def read(model, x, y=None, loss=F.mse_loss):
    of = {} if y is None else {"targets": y, "loss": loss}
    return survey.profile(model, x, views=["gradients"], **of)


def net():
    model = nn.Sequential(nn.Linear(2, 1, bias=False)).double()
    model[0].weight.data.zero_()
    return model


def test_cosines_are_those_between_what_the_layer_reads():
    """Gradients of a linear layer of one output lie along its inputs."""
    x = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0]]).double()
    told = {r.quantity: r.estimate for r in read(net(), x, torch.ones(3, 1).double()).readings}
    assert told["minimum |cos|"].low <= 0 <= told["minimum |cos|"].high
    assert abs(told["mean |cos|"].value - (0.6 + 0.0 + 0.8) / 3) < 1e-12
    assert "3 pairs" in told["mean |cos|"].how


def test_without_a_pair_or_without_targets_it_says_why():
    x = torch.eye(2).double()
    fitted = read(net(), x, torch.zeros(2, 1).double())
    assert [s.why for s in fitted.skipped] == ["no pair of samples has a gradient that is not zero"]
    assert [s.why for s in read(net(), x).skipped] == ["no targets with a loss were given"]


# ------------------------------------------------------------------------------
# The first loss in nats, the step that would take it away, and the power of a test of targets.


def read_first_steps(model, x, y, loss):
    found = survey.profile(model, x, targets=y, loss=loss, views=["setup"])
    return {r.quantity: r.estimate.value for r in found.readings if r.site == "(loss)"}


def test_nats_and_the_polyak_step():
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 3), torch.randn(30, 4), torch.randint(3, (30,))
    found = read_first_steps(model, x, y, F.cross_entropy)
    value = F.cross_entropy(model(x), y)
    value.backward()
    square = sum(float(p.grad.double().square().sum()) for p in model.parameters())
    assert found["nats over equal scores"] == pytest.approx(value.item() - math.log(3), rel=1e-4)
    assert found["Polyak step"] == pytest.approx(value.item() / square, rel=1e-4)


def test_places_count_as_samples_and_other_losses_not_in_nats():
    torch.manual_seed(0)
    x, y = torch.randn(6, 5, 4), torch.randint(3, (6, 5))
    by = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten())
    assert "nats over equal scores" in read_first_steps(nn.Linear(4, 3), x, y, by)
    bits = lambda o, t: by(o, t) / math.log(2)
    assert "nats over equal scores" not in read_first_steps(nn.Linear(4, 3), x, y, bits)
    values = torch.randn(6, 5, 3)
    assert "nats over equal scores" not in read_first_steps(nn.Linear(4, 3), x, values, F.mse_loss)


@pytest.mark.parametrize("samples", [128, 256])
def test_digits_are_told_and_shuffled_ones_are_not(samples):
    limits = []
    for seed in range(5):
        g = torch.Generator().manual_seed(seed)
        data = sources.open_data("digits", samples=samples, generator=g)
        x = data.inputs.flatten(1)
        told, power = neighbour_limits(ComparedInput.of("x", x), target_rows(data.targets, samples))
        assert told > 0.5
        assert power > 8
        shuffled = data.targets[torch.randperm(samples, generator=g)]
        limit, same = neighbour_limits(ComparedInput.of("x", x), target_rows(shuffled, samples))
        assert same == power
        limits.append(limit)
    assert sorted(limits)[3] < (0.05 if samples == 128 else 0.04)


def test_the_limit_is_that_of_the_agreements_in_every_order_of_the_targets():
    g = torch.Generator().manual_seed(0)
    x, y = (torch.randn(7, k, generator=g, dtype=torch.float64) for k in (2, 3))
    y -= y.mean(0)
    near = torch.cdist(x, x).argsort(1)[:, 1:6]  # the nearest is the row itself
    orders = torch.tensor([*permutations(range(7))])
    agreements = (y[orders][:, near] * y[orders][:, :, None]).sum((1, 2, 3)) / y.square().sum() / 5
    excess, spread = agreements[0] - agreements.mean(), agreements.std(correction=0)
    limit = float(excess + NormalDist().inv_cdf(0.95) * spread)
    found = neighbour_limits(ComparedInput.of("x", x), y)
    assert found is not None
    assert found[0] == pytest.approx(limit, rel=1e-6)


def test_inputs_without_neighbours_have_no_power():
    """Independent numbers in many dimensions: all samples are equally far from one another."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 3000, generator=g)
    _, power = neighbour_limits(ComparedInput.of("x", x), target_rows(torch.arange(64) % 4, 64))
    assert power < 4


def test_equal_rows_tell_nothing():
    assert (
        neighbour_limits(
            ComparedInput.of("x", torch.ones(60, 3)), target_rows(torch.arange(60) % 2, 60)
        )
        is None
    )


# ------------------------------------------------------------------------------
# One run forward and back in the model's own modes.


@pytest.mark.parametrize("layout", ["strided", "sparse"])
def test_of_a_gradient_its_sizes_are_kept(layout):
    dense = torch.tensor([[3.0, 0.0], [0.0, -4.0]])
    given = dense if layout == "strided" else dense.to_sparse()
    kept = Gradient.of(given, whole=False)
    assert kept == Gradient(25.0, 4.0, 0, None)
    assert torch.equal(Gradient.of(given, whole=True).entries, dense)


@pytest.mark.parametrize(("odd", "bad"), [(math.inf, 1), (-math.inf, 1), (math.nan, 1)])
def test_entries_that_are_not_finite_are_counted(odd, bad):
    kept = Gradient.of(torch.tensor([1.0, odd]), whole=False)
    assert kept.bad == bad
    assert kept.largest != 0  # something is there


def test_of_complex_gradients_the_larger_part_counts(as_users_see_it):
    found = Gradient.of(torch.tensor([1 - 4j, 2 + 1j]), whole=False)
    assert (found.largest, found.square, found.bad) == (4, 22, 0)


def test_the_smallest_numbers_are_not_nothing():
    """Their squares are zero in float64 too."""
    kept = Gradient.of(torch.tensor([1e-200], dtype=torch.float64), whole=False)
    assert kept.square == 0
    assert kept.largest == 1e-200
    assert Gradient.of(torch.zeros(0, 3), whole=False).largest == 0


def networks():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 400), nn.Tanh(), nn.Linear(400, 3))
    nn.init.constant_(model[2].weight, 0.5)
    return model, torch.randn(40, 6), torch.randint(0, 3, (40,))


def test_weights_whose_rows_are_all_the_same_are_found_and_kept():
    model, x, y = networks()
    subject = Subject(model, x, y, F.cross_entropy)
    assert list(alike(subject)) == [("2.weight", 3)]
    nn.init.zeros_(model[2].weight)
    assert not [*alike(subject)]
    nn.init.constant_(model[2].weight, 0.5)
    kept = OwnModes(subject).gradients()
    F.cross_entropy(model(x), y).backward()
    torch.testing.assert_close(kept["2.weight"].entries, model[2].weight.grad)
    assert {n for n, g in kept.items() if g.entries is not None} == {"2.weight"}
    for name, p in model.named_parameters():
        assert math.isclose(kept[name].square, float(p.grad.double().square().sum()), rel_tol=1e-6)


def test_pieces_of_the_batch_add_up_to_the_same():
    model, x, y = networks()
    model.eval()
    whole = OwnModes(Subject(model, x, y, F.cross_entropy)).gradients()
    with memory(200_000):  # a few samples at a time, and a few parameters
        subject = Subject(model, x, y, F.cross_entropy)
        assert subject.part.count < subject.count
        found = OwnModes(subject).gradients()
    assert list(found) == list(whole)
    for name, g in whole.items():
        assert math.isclose(found[name].square, g.square, rel_tol=1e-5)


def test_dropout_is_counted_on_as_few_samples_as_tell_it():
    """A model that takes batches of one size alone is run on all."""
    runs = []

    class Wide(nn.Sequential):
        def forward(self, x):
            runs.append(len(x))
            if self.fixed and len(x) != self.fixed:
                raise ValueError("another size")
            return super().forward(x)

    for fixed, least in ((0, 41), (64, 64)):
        model = Wide(nn.Linear(6, 400), nn.Dropout(0.3), nn.Linear(400, 400)).eval()
        model.fixed = fixed
        subject = Subject(model, torch.randn(64, 6))
        _ = subject.calls
        runs.clear()
        (place,) = OwnModes(subject).dropped()
        assert runs[-1] == least
        assert place.before == least * 400
        assert place.share == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("limit", [None, 100_000])
def test_a_weight_that_is_used_twice_has_the_sum_of_its_gradients(limit):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(400, 8)
            self.head = nn.Linear(8, 400, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids):
            return self.head(self.table(ids))

    torch.manual_seed(0)
    model, ids = Tied(), torch.arange(6)
    (want,) = torch.autograd.grad(F.cross_entropy(model(ids), ids), model.table.weight)
    with memory(limit):
        (found,) = OwnModes(Subject(model, ids, ids, F.cross_entropy)).gradients().values()
    assert math.isclose(found.square, float(want.double().square().sum()), rel_tol=1e-6)
    assert math.isclose(found.largest, float(want.abs().max()), rel_tol=1e-6)


def test_no_gradient_is_held_while_the_next_ones_are_made(monkeypatch):
    model, x, y = networks()
    held = []

    def one_by_one(_):
        last = None
        for name, p in model.named_parameters():
            held.append(last is not None and last() is not None)
            gradient = torch.ones_like(p)
            last = weakref.ref(gradient)
            yield name, gradient
            del gradient

    monkeypatch.setattr(Subject, "loss_gradients", one_by_one)
    found = OwnModes(Subject(model, x, y, F.cross_entropy)).gradients()
    assert len(found) == len(held) > 1
    assert not any(held)


@pytest.mark.parametrize(("scale", "nats"), [(1 + 7e-4, True), (1 - 7e-4, True), (1 + 2e-3, False)])
def test_a_loss_counts_in_nats_where_it_is_near_the_logarithm_of_the_number_of_scores(scale, nats):
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 100), torch.randn(20, 4), torch.randint(100, (20,))
    found = read_first_steps(model, x, y, lambda o, t: scale * F.cross_entropy(o, t))
    assert ("nats over equal scores" in found) is nats


def test_no_step_takes_a_loss_away_that_is_not_above_zero():
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 1), torch.randn(20, 4), torch.randn(20, 1)
    for shift in (-1e3, math.inf):
        found = read_first_steps(model, x, y, lambda o, t, s=shift: F.mse_loss(o, t) + s)
        assert "Polyak step" not in found


@pytest.mark.parametrize(
    ("row", "trained", "found"),
    [
        ([1.0, 2.0, 3.0], True, True),
        ([0.0, 2.0, 3.0], True, True),
        ([0.0, 0.0, 0.0], True, False),
        ([1.0, 2.0, 3.0], False, False),
        ([1.0], True, False),
    ],
)
def test_rows_are_alike_where_they_are_equal_and_not_all_zero(row, trained, found):
    model = nn.Sequential(nn.Linear(len(row), 4), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor(row).expand(4, -1))
    model[0].weight.requires_grad_(trained)
    named = list(alike(Subject(model, torch.randn(6, len(row)))))
    assert named == ([("0.weight", 4)] if found else [])
    with torch.no_grad():
        model[0].weight[3] += 1  # the last alone is another one
    assert not [*alike(Subject(model, torch.randn(6, len(row))))]
