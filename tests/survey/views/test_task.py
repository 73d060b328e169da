"""What is said of a task holds for tasks that are known."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope import sources, survey
from sigmascope.diagnosis import judge
from sigmascope.models import Subject
from sigmascope.survey.task import constant_loss
from sigmascope.survey.views.task import (
    ComparedInput,
    agreement,
    chance_agreement,
    compared_inputs,
    target_alignment,
    target_rows,
    target_signal,
)
from tests.models_zoo import Net

FEWEST, RIDGE = 48, 0.01


def signal_of(rows, wanted):
    return target_signal(ComparedInput.of("x", rows), wanted)


def near_of(rows):
    return ComparedInput.of("x", rows).near


@pytest.fixture(scope="module")
def digits():
    return sources.open_data("digits", samples=128)


def test_digits_tell_their_targets_and_shuffled_ones_do_not(digits):
    x, Y = digits.inputs.flatten(1), target_rows(digits.targets, 128)
    assert signal_of(x, Y) > 20
    for seed in range(10):
        g = torch.Generator().manual_seed(seed)
        assert signal_of(x, Y[torch.randperm(128, generator=g)]) < 2.5


def test_a_smooth_function_is_told_and_noise_is_not():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, 6, generator=g)
    smooth = (x @ torch.randn(6, 2, generator=g)).tanh()
    assert signal_of(x, target_rows(smooth, 200)) > 10
    assert signal_of(x, target_rows(torch.randn(200, 2, generator=g), 200)) < 3


def test_signal_does_not_depend_on_the_scale_of_inputs_nor_of_targets(digits):
    Y = target_rows(digits.targets, 128)
    signals = [signal_of(s * digits.inputs.flatten(1).double(), Y) for s in (1e-200, 1.0, 1e200)]
    signals += [signal_of(digits.inputs.flatten(1), s * Y) for s in (1e-9, 1e9)]
    assert signals == pytest.approx([signals[1]] * 5, rel=1e-3)


@pytest.mark.parametrize("of", [torch.arange(64), torch.arange(64).flip(0)])
def test_targets_of_which_no_two_are_alike_are_as_good_in_any_order(of):
    """As the numbers of pairs, of which each is to be told from all others."""
    g = torch.Generator().manual_seed(0)
    assert signal_of(torch.randn(64, 6, generator=g), target_rows(of, 64)) is None
    halves = target_rows(of // 2, 64)
    assert signal_of(torch.randn(64, 6, generator=g), halves) is not None


def test_pairs_of_two_towers_are_not_unrelated():
    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(6, 8)

        def forward(self, x, y):
            return F.normalize(self.a(x)) @ F.normalize(self.b(y)).T

    torch.manual_seed(0)
    task = {"targets": torch.arange(96), "loss": F.cross_entropy}
    found = survey.profile(Towers(), (torch.randn(96, 6), torch.randn(96, 6)), **task)
    assert not found.series("target signal")
    assert "target signal" in {s.what for s in found.skipped}


def test_alignment_is_one_for_the_targets_themselves():
    g = torch.Generator().manual_seed(0)
    Y = target_rows(torch.randint(4, (60,), generator=g), 60)
    assert target_alignment(Y, Y) == pytest.approx(1.0)
    assert target_alignment(7 * Y + 3, Y) == pytest.approx(1.0)
    noise = target_alignment(torch.randn(60, 500, generator=g), Y)
    assert abs(noise) < 0.1
    assert target_alignment(torch.ones(60, 3), Y) is None


@pytest.mark.parametrize(
    "targets", [torch.tensor([0, 0, 1, 2]), torch.tensor([[1.0], [2], [4], [9]])]
)
def test_the_constant_loss_is_the_entropy_or_the_variance(targets):
    if targets.is_floating_point():
        assert constant_loss(torch.zeros(4, 1), targets, F.mse_loss) == pytest.approx(
            targets.var(correction=0).item(), rel=1e-4
        )
    else:
        entropy = torch.distributions.Categorical(torch.tensor([0.5, 0.25, 0.25])).entropy()
        found = constant_loss(torch.zeros(4, 3), targets, F.cross_entropy)
        assert found == pytest.approx(entropy.item(), rel=1e-3)


def reach(model, x, y, loss):
    measured = survey.profile(model, x, targets=y, loss=loss, views=["setup"])
    return {r.quantity: r.estimate.value for r in measured.readings if r.site == "(output)"} | {
        r.quantity: r.estimate.value for r in measured.readings if "out of reach" in r.quantity
    }


def test_softmax_before_cross_entropy_leaves_a_known_loss(digits):
    """Scores between 0 and 1 leave log(1 + 9/e) of log 10 at least."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Softmax(-1))
    found = reach(model, digits.inputs, digits.targets, F.cross_entropy)
    floor = torch.tensor(1 + 9 / torch.e).log() / torch.tensor(10.0).log()
    assert found["out of reach"] == pytest.approx(floor.item(), rel=1e-2)


def test_negative_values_are_beyond_relu():
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(4, 1), nn.ReLU())
    assert reach(model, x, x[:, :1].abs(), F.mse_loss)["out of reach"] == 0
    below = reach(model, x, -x[:, :1].abs(), F.mse_loss)["out of reach"]
    assert below > 1  # worse than the best constant, which is negative too


def test_a_narrow_layer_loses_what_its_width_cannot_hold():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(400, 8, generator=g)
    model = nn.Sequential(nn.Linear(8, 2), nn.Linear(2, 8))
    found = reach(model, x, x, F.mse_loss)
    assert found["variance out of reach"] == pytest.approx(6 / 8, abs=0.06)
    assert found["out of reach"] == 0  # of the last operation, of which there is none
    wide = nn.Sequential(nn.Linear(8, 20), nn.Linear(20, 8))
    assert "variance out of reach" not in reach(wide, x, x, F.mse_loss)


def test_alignment_is_zero_on_average_over_all_permutations():
    """What chance gives is taken off exactly: of five samples all 120 orders."""
    g = torch.Generator().manual_seed(3)
    rows, targets = (torch.randn(5, k, generator=g).double() for k in (2, 1))
    wanted = target_rows(targets, 5)
    found = [
        target_alignment(rows, wanted[list(order)]) for order in itertools.permutations(range(5))
    ]
    assert max(found) < 1  # none is cut
    assert sum(found) / 120 == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("columns", [1, 4])
def test_the_signal_is_that_of_fits_without_each_sample(columns):
    """Every sample left out in turn and predicted by a ridge regression on the others."""
    g = torch.Generator().manual_seed(4)
    rows = torch.randn(12, 3, generator=g).double()
    noise = 0.3 * torch.randn(12, columns, generator=g).double()
    targets = target_rows(rows[:, :1] + noise, 12)
    X = (rows - rows.mean(0)) / (rows - rows.mean(0)).square().mean().sqrt()
    K = X @ X.mT
    ridge = RIDGE * K.diagonal().mean()

    def told(Y):
        error = agreement = 0.0
        for i in range(12):
            rest = [j for j in range(12) if j != i]
            own = K[rest][:, rest] + ridge * torch.eye(11, dtype=K.dtype)
            error += float((Y[i] - K[i, rest] @ torch.linalg.solve(own, Y[rest])).square().sum())
            near = sorted(rest, key=lambda j: float((X[i] - X[j]).norm()))[:5]
            agreement += float((Y[near] @ Y[i]).sum())
        return agreement, -math.log(error)

    generator = torch.Generator().manual_seed(0)
    chance = [told(targets[torch.randperm(12, generator=generator)]) for _ in range(200)]
    scores = []
    for mine, others in zip(told(targets), zip(*chance, strict=True), strict=True):
        mean = sum(others) / 200
        spread = math.sqrt(sum((x - mean) ** 2 for x in others) / 199)
        scores.append((mine - mean) / spread)
    assert signal_of(rows, targets) == pytest.approx(max(scores), rel=1e-9)


def test_every_part_of_the_batch_has_its_size():
    torch.manual_seed(0)
    x, t, y = torch.randn(24, 5), 1000 * torch.rand(24, 1), torch.arange(24) % 3
    found = survey.profile(
        Net(
            lambda m, x, t: m.o((m.a(x) + m.t(t)).relu()),
            a=nn.Linear(5, 8),
            t=nn.Linear(1, 8),
            o=nn.Linear(8, 3),
        ),
        (x, t),
        targets=y,
        loss=nn.functional.cross_entropy,
    )
    sizes = {r.site: r.estimate.value for r in found.series("input size")}
    own = {"a": float(x.square().mean().sqrt()), "t": float(t.square().mean().sqrt())}
    assert sizes == pytest.approx(own, rel=1e-5)


def test_a_last_weight_that_is_not_heard_bounds_nothing():
    class Adapted(nn.Module):
        """As adapters whose scale is zero at first."""

        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(5, 3), nn.Linear(3, 3)

        def forward(self, x):
            z = x[:, :3]
            return z + 0.0 * self.b(self.a(x))

    torch.manual_seed(0)
    y = torch.arange(24) % 3
    found = survey.profile(
        Adapted(), torch.randn(24, 5), targets=y, loss=nn.functional.cross_entropy
    )
    said = {r.quantity for r in found.readings if r.site == "(output)" and r.form == "add"}
    assert not said
    assert any("whatever the last weight writes" in s.why for s in found.skipped)


@given(st.integers(0, 2**32), st.integers(4, 6), st.integers(1, 3))
@settings(max_examples=10)
def test_what_chance_gives_is_what_all_orders_of_the_rows_give(seed, n, k):
    g = torch.Generator().manual_seed(seed)
    Y = torch.randn(n, k, generator=g, dtype=torch.float64)
    Y, near = Y - Y.mean(0), near_of(torch.randn(n, 2, generator=g, dtype=torch.float64))
    near = near[:, :2]
    orders = torch.tensor([*itertools.permutations(range(n))])
    every = agreement(Y[orders], near)
    by_hand = sum(float(Y[i] @ Y[j]) for i in range(n) for j in near[i])
    assert float(every[0]) == pytest.approx(by_hand)
    mean, spread = chance_agreement(Y, near)
    assert mean == pytest.approx(float(every.mean()), abs=1e-9)
    assert spread == pytest.approx(float(every.std(correction=0)), rel=1e-6)


@pytest.mark.parametrize(
    ("targets", "loss", "size"),
    [
        (2.0 * torch.arange(1.0, 25)[:, None], F.mse_loss, True),
        (torch.arange(24) % 3, F.cross_entropy, False),
        (torch.full((24, 1), 2.0), F.mse_loss, False),  # all the same
        (torch.arange(24.0)[:, None], lambda o, y: o.square().mean(), False),  # no one reads them
    ],
)
def test_targets_that_are_values_and_are_read_have_a_size(targets, loss, size):
    torch.manual_seed(0)
    model = nn.Linear(4, 1 if targets.is_floating_point() else 3)
    found = survey.profile(model, torch.randn(24, 4), targets=targets, loss=loss, views=["setup"])
    read = [r.estimate.value for r in found.series("target size")]
    assert read == ([pytest.approx(targets.square().mean().sqrt().item())] if size else [])


@pytest.mark.parametrize(("samples", "told"), [(FEWEST - 1, False), (FEWEST, True)])
def test_a_signal_is_asked_for_where_chance_can_be_told(samples, told):
    torch.manual_seed(0)
    x, y = torch.randn(samples, 4), torch.arange(samples) % 3
    found = survey.profile(nn.Linear(4, 3), x, targets=y, loss=F.cross_entropy, views=["setup"])
    assert bool(found.series("target signal")) is told
    assert bool(found.series("target alignment")) is told


@pytest.mark.parametrize(
    ("targets", "count", "columns"),
    [
        (torch.tensor([0, 1, 2, 1]), 4, 3),
        (torch.tensor([[0.0], [1], [2], [5]]), 4, 1),
        (torch.rand(4, 2, 3), 4, 6),
        (torch.tensor([0, 1, 2]), 4, None),
        (torch.tensor([0]), 1, None),
        (torch.tensor([0, 1]), 2, 2),
        (torch.tensor([3, 3, 3, 3]), 4, None),
        (torch.tensor([[0.0], [1], [2], [math.inf]]), 4, None),
        (torch.tensor([[0, 1], [1, 0]]), 2, None),
    ],
)
def test_targets_are_rows_for_each_sample_centred_or_nothing(targets, count, columns):
    found = target_rows(targets, count)
    assert (None if found is None else found.shape) == (columns and (count, columns))
    if found is not None:
        assert found.mean(0).abs().max() < 1e-12
        assert found.abs().max() > 0


@pytest.mark.parametrize("rows", [3, 6, 20])
def test_neighbours_are_the_nearest_others(rows):
    X = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0)).double()
    near = near_of(X)
    assert near.shape == (rows, min(5, rows - 1))
    for i, own in enumerate(near.tolist()):
        by = sorted(range(rows), key=lambda j, i=i: float((X[i] - X[j]).norm()))
        assert set(own) == set(by[1 : 1 + len(own)])


def test_intervals_of_losses_hold_what_arithmetic_says():
    torch.manual_seed(0)
    x, y = torch.randn(60, 4), 3 + torch.randn(60, 1)
    found = survey.profile(nn.Linear(4, 1), x, targets=y, loss=F.mse_loss, views=["setup"])
    exact = {
        "least loss of a constant": y.double().var(correction=0),
        "loss of zeros": y.double().square().mean(),
        "target size": y.double().square().mean().sqrt(),
        "input size": x.double().square().mean().sqrt(),
        "input spread": x.double().var(0, correction=0).mean().sqrt(),
    }
    for quantity, value in exact.items():
        (e,) = (r.estimate for r in found.series(quantity))
        assert e.low <= float(value) <= e.high, quantity
        assert e.high - e.low < 1e-5 * e.value, quantity


def test_what_neighbours_alone_tell_is_their_agreement_beyond_chance_in_its_spread():
    """A square wave, which no linear map follows: the same as by 20 000 orders of the targets."""
    g = torch.Generator().manual_seed(0)
    x = torch.rand(24, 1, generator=g, dtype=torch.float64)
    y = (12 * x).sin().sign()
    y = y - y.mean(0)
    drawn = torch.stack(
        [torch.arange(24), *(torch.randperm(24, generator=g) for _ in range(20_000))]
    )
    orders = agreement(y[drawn], near_of(x))
    beyond = float((orders[0] - orders[1:].mean()) / orders[1:].std())
    assert beyond > 3
    assert signal_of(x, y) == pytest.approx(beyond, rel=0.03)


@pytest.mark.parametrize(("kinds", "columns"), [(2, 2), (5, 5), (64, 64), (65, 1)])
def test_a_class_beside_a_picture_is_one_column_for_each_kind(kinds, columns):
    """As a diffusion model reads one; of very many kinds the number stays what it is."""
    torch.manual_seed(0)
    x, of = torch.randn(130, 6), torch.arange(130) % kinds
    embedded = lambda m, c: m.b(c).reshape(len(c), -1, 3).sum(1)
    model = Net(lambda m, x, c: m.a(x) + embedded(m, c), a=nn.Linear(6, 3), b=nn.Embedding(65, 3))
    first, other = (found.rows for found in compared_inputs(Subject(model, (x, of))))
    assert torch.equal(first, ComparedInput.of("x", x).rows)
    assert other.shape == (130, columns)
    if columns > 1:
        assert torch.equal(other.argmax(1), of)
    rows = compared_inputs(Subject(model, (x, torch.stack([of] * 2, 1))))
    assert (rows == []) is (kinds > 2)  # but of a mask


@pytest.mark.parametrize("size", [31.0, 1e3, 9e-3, 1.0])
@pytest.mark.parametrize(
    ("layers", "forgets"),
    [
        (lambda: (nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4, eps=1e-9)), True),
        (lambda: (nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, eps=1e-9)), True),  # it takes biases away
        (lambda: (nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4, eps=1e-9)), False),
        (lambda: (nn.Conv2d(1, 4, 3, bias=False), nn.ReLU()), False),
        (lambda: (nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4).eval()), False),
    ],
)
def test_inputs_whose_scale_is_forgotten_are_told(layers, forgets, size):
    torch.manual_seed(0)
    net = nn.Sequential(*layers(), nn.Flatten(), nn.Linear(4 * 36, 3))
    x, y = size * torch.randn(32, 1, 8, 8), torch.arange(32).remainder(3)
    x /= x.square().mean().sqrt() / size
    found = survey.profile(net, x, targets=y, loss=F.cross_entropy, views=("setup",))
    asked = size != 1.0  # of inputs of unit size nothing is asked
    assert bool(found.fact("forgotten scale")) == (forgets and asked)
    told = "unscaled-inputs" in {f.name for f in judge(found)}
    assert told == (asked and not forgets)


@pytest.mark.parametrize("shape", [(8, 200_000), (200_000, 1)])
def test_of_wide_and_of_many_targets_no_square_matrix_is_made_that_has_no_room(shape):
    n, _ = shape
    near = (torch.arange(n)[:, None] + torch.tensor([1, 2])) % n
    mean, spread = chance_agreement(torch.ones(shape, dtype=torch.float64), near)
    assert mean == pytest.approx(2 * n * shape[1])  # of equal rows
    assert spread < 1e-3 * mean
