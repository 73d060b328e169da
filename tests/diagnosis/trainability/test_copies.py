"""What is parked comes back bit for bit, and its memory is free meanwhile."""

import gc
import math
from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Budget, OverBudget, Refusal, memory
from sigmascope.core.records import Profile
from sigmascope.diagnosis.trainability import copies, foretold, probe
from sigmascope.diagnosis.trainability.copies import (
    PIECE,
    STEPS,
    Minibatches,
    Pace,
    Parking,
    RateRun,
    Turn,
    Turns,
    memory_of,
    minibatches,
    optimizer_of,
    require_place,
    right_share,
    target_share,
    thinned,
)
from sigmascope.models.samples import as_tensor, prepared
from tests.clocks import Clock
from tests.models_zoo import MODELS, Net, call

NOTHING = frozenset()


def bits(t):
    t = t.detach()
    return (torch.view_as_real(t) if t.is_complex() else t).view(torch.uint8)


def test_bits_come_back_to_where_they_were():
    weights = [
        nn.Parameter(torch.randn(300, 50)),
        torch.randn(5000).double(),
        torch.randn(3000, dtype=torch.complex64),
        torch.full((5000,), float("nan")),
        torch.randn(PIECE // 4 + 7),  # more than is written at once
    ]
    view = weights[0].detach()[3:9, ::2]
    before, seen, versions = (
        [w.detach().clone() for w in weights],
        view.clone(),
        [w._version for w in weights],
    )
    place = Parking()
    for _ in range(2):
        place.park(weights, but=NOTHING)
        assert place.size == sum(w.untyped_storage().nbytes() for w in before)
        assert all(w.untyped_storage().nbytes() == 0 for w in weights)
        place.fetch()
        assert place.size == 0
    assert all(map(torch.equal, map(bits, weights), map(bits, before)))
    assert torch.equal(view, seen)
    assert [w._version for w in weights] == versions


def test_small_shared_and_strange_memory_stays():
    shared = torch.randn(5000)
    small, mapped = torch.randn(10), torch.randn(5000).share_memory_()
    sparse = torch.randn(100, 100).to_sparse()
    place = Parking()
    place.park([shared, small, mapped, sparse], but=frozenset({shared.data_ptr()}))
    assert place.size == 0
    assert shared.untyped_storage().nbytes() == 20000
    place.fetch()


def test_memory_of_a_model_is_that_of_its_weights_and_buffers():
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(4096))
    known = memory_of(model)
    assert model[0].weight.data_ptr() in known
    assert model[1].running_mean.data_ptr() in known
    assert model[0].bias.data_ptr() not in known  # it is small, and stays in any case


def test_a_full_disk_leaves_all_as_it_was(monkeypatch, as_users_see_it):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copies.tempfile, "TemporaryFile", full)
    weights = torch.randn(5000)
    before = weights.clone()
    with pytest.raises(Refusal, match=r"need 20000 bytes in the folder of temporary files.*TMPDIR"):
        Parking().park([weights], but=NOTHING)
    assert torch.equal(weights, before)


def test_too_little_room_is_said_before_it_starts(as_users_see_it):
    require_place(1)
    with pytest.raises(Refusal, match=r"need 8.59e\+09 GiB .* are free. Name a folder"):
        require_place(2**63)


def test_what_is_closed_leaves_no_file():
    place = Parking()
    place.park([torch.randn(5000)], but=NOTHING)
    file = place._file
    place.close()
    assert file.closed
    assert place.size == 0
    place.fetch()  # of which nothing comes


@pytest.mark.parametrize(("entries", "parked"), [(1024, 0), (1025, 4100)])
def test_memory_of_a_page_stays_and_more_is_parked(entries, parked):
    place = Parking()
    t = torch.arange(float(entries))
    place.park([t], but=frozenset())
    assert place.size == parked
    place.fetch()
    assert torch.equal(t, torch.arange(float(entries)))


G = torch.Generator().manual_seed(0)
WIDE, TEN = torch.randn(64, 64, generator=G), torch.randint(10, (64,), generator=G)


def wide(*layers, width=256):
    torch.manual_seed(0)
    body = [nn.Linear(64, width), nn.ReLU(), *(nn.Linear(width, width) for _ in range(4))]
    return nn.Sequential(*body, *layers, nn.ReLU(), nn.Linear(width, 10))


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
    "plain": lambda: wide(width=64),
    "dropout and batch statistics": lambda: wide(nn.BatchNorm1d(64), nn.Dropout(0.3), width=64),
    "spectral norm": lambda: wide(
        nn.utils.parametrizations.spectral_norm(nn.Linear(64, 64)), width=64
    ),
    "rates that are lost": loud,
    "frozen, and changed by the forward pass": Averaged,
    "frozen": lambda: nn.Sequential(nn.Linear(64, 64).requires_grad_(False), wide(width=64)),
    "a source of its own": Drawing,
    "tied": Tied,
}


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [(k, "sgd" if k in ("rates that are lost", "plain") else "adam") for k in KINDS],
)
def test_copies_that_take_turns_read_bit_for_bit_as_copies_at_once(kind, optimizer, monkeypatch):
    def seen(large):
        monkeypatch.setattr(copies, "LARGE", large)
        torch.manual_seed(5)
        model = KINDS[kind]()
        before = {k: v.clone() for k, v in model.state_dict().items()}
        found = probe(model, WIDE[:16], targets=TEN[:16], loss=F.cross_entropy, optimizer=optimizer)
        assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
        return found

    at_once, in_turn = seen(1 << 60), seen(0)
    assert repr(at_once) == repr(in_turn)  # every digit, also of what is not finite
    if kind == "rates that are lost":
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
    probe(model, WIDE[:8], targets=TEN[:8], loss=F.cross_entropy, optimizer=optimizer)
    assert len(sizes) == 42
    assert most - 1 < (max(sizes) - before) / size < most + 0.1  # and what a step computes


def test_who_waits_holds_nothing_and_comes_back(monkeypatch):
    monkeypatch.setattr(copies, "LARGE", 0)
    model = wide()
    order = Turns(model, 2, 2)
    first, second = Turn(adam), Turn(adam)
    order.take(first)
    F.cross_entropy(first.model(WIDE), TEN).backward()
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
    third.model(WIDE)
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


def made(pace, clock, seconds):
    def step():
        clock.now += seconds
        return "done"

    with pace.budget.counting():
        return pace.made_in_time(step)


def paced(seconds, steps, **more):
    clock = Clock()
    return clock, Pace(Budget(seconds, clock=clock, **more), "It", steps)


@pytest.mark.parametrize(
    ("budget", "first", "rest"),
    [
        (10.0, [], [0.9] * 10),
        (120.0, [1.8] * 3, [0.06] * 333),  # a machine that was busy for a moment
        (100.0, [40.0], [1.0] * 49),  # a slow first step foretells nothing
    ],
)
def test_all_steps_are_made_where_there_is_time(budget, first, rest):
    clock, pace = paced(budget, len(first + rest))
    assert {made(pace, clock, seconds) for seconds in first + rest} == {"done"}
    assert (pace.made, pace.fastest) == (len(first + rest), pytest.approx(rest[0]))


def test_what_is_too_long_is_known_after_a_twentieth_of_the_budget():
    clock, pace = paced(100.0, 336)
    for _ in range(5):
        made(pace, clock, 1.0)
    with pytest.raises(OverBudget, match=r"336 training steps, about 5.6min, and 5 were made"):
        made(pace, clock, 1.0)
    assert clock.now == 5.0  # of 100
    clock, pace = paced(10.0, 336)
    for _ in range(3):
        made(pace, clock, 1.0)
    with pytest.raises(OverBudget, match="3 were made"):
        made(pace, clock, 1.0)


def test_steps_that_grow_slow_end_with_the_budget():
    clock, pace = paced(20.0, 20)
    for _ in range(3):
        made(pace, clock, 0.5)
    with suppress(OverBudget):
        for _ in range(17):
            made(pace, clock, 5.0)
    assert pace.made < 20
    assert 10.0 < clock.now <= 20.0


def test_those_who_share_a_budget_are_told_of_the_whole():
    clock = Clock()
    pace = Pace(Budget(10.0, clock=clock), "It", 60, among=4)
    for _ in range(3):
        made(pace, clock, 1.0)
    assert "in a budget of 10s for each of 4" in pace.words()
    assert "`--budget 5min`" in pace.words()  # 4 times 60 steps of a second, and some more


def test_the_cost_is_told_once_and_only_if_it_is_felt():
    told = []
    clock, pace = paced(1000.0, 100, tell=told.append)
    pace.beside = ", 1 GiB of memory"
    for _ in range(9):
        made(pace, clock, 1.0)
    assert told == ["It: 100 training steps, about 1.67min, 1 GiB of memory; the budget is 16.7min"]
    clock, short = paced(1000.0, 100, tell=told.append)
    for _ in range(9):
        made(short, clock, 0.01)
    assert len(told) == 1


def test_nothing_is_foretold_of_no_steps():
    clock, pace = paced(1.0, 5)
    clock.now = 2.0
    with pace.budget.counting():
        clock.now += 3.0
    with pytest.raises(OverBudget, match="needs 5 training steps, and 0 were made"):
        made(pace, clock, 1.0)
    assert pace.fastest == math.inf


@pytest.mark.parametrize(
    ("budget", "step", "minutes"),
    [(5.0, 0.1, 1), (20.0, 1.3, 3), (29.0, 0.96, 2), (29.0, 0.97, 3), (90.0, 0.1, 3)],
)
def test_the_budget_that_is_proposed_is_whole_minutes_and_enough(budget, step, minutes):
    clock, pace = paced(budget, 100)
    made(pace, clock, step)
    assert f"`--budget {minutes}min` (`budget={60 * minutes}` in Python)" in pace.words()
    assert 60 * minutes >= max(1.25 * 100 * step, 2 * budget)


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (-3, 7), (0.01, 5)])
def test_outputs_that_are_the_targets_but_for_scale_and_shift_tell_all(scale, shift):
    y = torch.tensor([[1.0], [2.0], [4.0], [9.0]])
    told, aligned = target_share(scale * y + shift, y)
    assert told == pytest.approx(1, abs=1e-4)
    assert aligned == pytest.approx(scale, rel=1e-3)


def test_half_of_the_variance_is_told_by_one_of_two_parts():
    x = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    y = x + torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    assert target_share(x, y) == pytest.approx((0.5, 0.5), rel=1e-5)


def test_classes_that_have_no_score_are_left_out():
    """The class 4 of 3 scores, as labels to be ignored are."""
    scores = torch.eye(3)[[0, 1, 2, 0, 1, 2]]
    classes = torch.tensor([0, 1, 2, 0, 1, 4])
    told, aligned = target_share(scores, classes)
    # columns 0 and 1 are told whole; of class 2 the indicator (0,0,1,0,0,0) by (0,0,1,0,0,1)
    sizes = [4 / 3, 4 / 3, 5 / 6]
    assert aligned == pytest.approx((4 / 3 + 4 / 3 + 1 - 2 / 6) / sum(sizes))
    assert told == pytest.approx((4 / 3 + 4 / 3 + (2 / 3) ** 2 / (4 / 3)) / sum(sizes), rel=1e-5)
    assert target_share(scores, torch.tensor([-100, 1, 2, 0, 1, 2]))[0] > 0.8


@pytest.mark.parametrize("value", [1.0, torch.inf, torch.nan])
def test_outputs_that_do_not_vary_tell_nothing(value):
    for targets in (torch.arange(4) % 2, torch.arange(8.0).view(4, 2)):
        assert target_share(torch.full((4, 2), value), targets) == (0.0, 0.0)


def test_more_columns_than_rows_tell_as_much():
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(4, 9, generator=g)
    y = rows @ torch.randn(9, 9, generator=g)
    assert target_share(rows, y)[0] == pytest.approx(1, abs=1e-4)


def test_right_answers_are_counted_above_the_most_frequent_class():
    """Of 3 classes with shares 1/2, 1/4, 1/4: three of four right is half of the way up."""
    classes = torch.tensor([0, 0, 1, 2])
    scores = torch.eye(3)[[0, 0, 1, 0]]
    assert right_share(scores, classes) == pytest.approx(0.5)
    assert right_share(torch.eye(3)[[0, 0, 0, 0]], classes) == 0
    assert right_share(torch.eye(3)[[1, 1, 2, 1]], classes) == 0
    assert right_share(torch.eye(3)[[0, 0, 1, 2]], classes) == 1
    # classes that have no score, as those to be ignored, are left out
    assert right_share(scores, torch.tensor([0, 0, 1, -100])) == 1


def test_there_are_no_right_answers_without_classes():
    assert right_share(torch.randn(4, 2), torch.randn(4, 2)) is None
    assert right_share(torch.randn(4, 2), torch.zeros(4, dtype=torch.long)) is None
    assert right_share(torch.randn(4, 1), torch.arange(4) % 2) is None
    assert right_share(torch.randn(4, 2), None) is None
    assert right_share(torch.randn(3, 2), torch.arange(4) % 2) is None


def test_rows_are_thinned_evenly():
    of_tokens = torch.randn(4, 50, 3), torch.arange(200).reshape(4, 50) % 3
    assert target_share(*of_tokens)[0] < 0.2
    scores, classes = thinned(*of_tokens, most=64)
    assert len(scores) == len(classes) == 50
    assert classes.tolist() == [(4 * i) % 3 for i in range(50)]


X = torch.randn(100, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(100) % 3


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def of(net, targets=Y, loss=F.cross_entropy, **options):
    return minibatches(net, X, targets, loss, count=100, **options)


def test_a_mean_over_samples_is_split():
    data = of(network())
    assert data.split
    assert (data.steps, data.size, data.rows) == (STEPS, 12, 64)
    each = data.each()
    batches = [next(each) for _ in range(9)]
    assert all(len(x) == len(y) == 12 for x, y in batches)
    assert all(
        torch.equal(Y[(row == X).all(1)], y[None])
        for x, y in batches
        for row, y in zip(x, y)  # noqa: B905
    )
    seen = torch.cat([x for x, _ in batches[:8]])
    assert len(seen.unique(dim=0)) == 96  # no sample twice before all were there


def test_the_order_is_the_same_every_time():
    first, second = (next(of(network()).each()) for _ in range(2))
    assert torch.equal(first[0], second[0])


STATE = nn.Parameter(torch.zeros(100, 3))
FIXED = Net(lambda self, x: self.inner(x) + self.state, inner=network(), state=STATE)
MIXING = Net(lambda self, x: self.inner(x).mean(0, keepdim=True), inner=nn.Linear(6, 3))


def contrastive(out, y):
    return F.cross_entropy(out @ out.T, torch.arange(len(out)))


def added(out, y):
    return F.cross_entropy(out, y, reduction="sum")


@pytest.mark.parametrize(
    ("net", "options"),
    [
        (FIXED, {}),
        (MIXING, {"targets": torch.zeros(100, 3), "loss": lambda o, y: (o - y).square().mean()}),
        (network(), {"loss": contrastive}),
        (network(), {"loss": added}),
        (network(), {"loss": lambda o, y: (torch.ones(100) * o[:, 0]).mean()}),
        (network(), {"targets": torch.zeros(99, 3)}),
        (network(), {"targets": None, "loss": lambda o, y: o.mean()}),
        (network(), {"batch_dim": 1}),
    ],
)
def test_what_belongs_together_is_not_split(net, options):
    data = of(net, **options)
    assert not data.split
    assert (data.steps, data.size) == (1, 100)
    assert next(data.each())[0] is X


def test_the_model_is_left_as_it_is():
    net = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)).eval()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    state = torch.random.get_rng_state()
    of(net)
    assert not net.training
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())


def test_an_output_of_a_step_stands_for_all():
    data = of(network())
    whole = data.whole(torch.arange(12.0)[:, None])
    assert whole.shape == (100, 1)
    assert whole[:14, 0].tolist() == [*range(12), 0, 1]


@pytest.mark.parametrize(
    ("count", "size", "steps"),
    [(256, 32, 8), (128, 16, 8), (64, 8, 8), (40, 8, 5), (16, 8, 2), (15, 15, 1), (3, 3, 1)],
)
def test_a_round_is_no_dearer_than_a_pass(count, size, steps):
    data = minibatches(network(), X.repeat(3, 1)[:count], Y.repeat(3)[:count], F.cross_entropy,
                       count=count)  # fmt: skip
    assert (data.size, data.steps, data.split) == (size, steps, count >= 16)
    assert size * steps <= count


DATA = Minibatches(X[:16], Y[:16], 16, split=False)


def going(rate, model):
    run = RateRun("adam", rate, lambda output: None)
    run.begin(model, ())
    return run, Pace(Budget.of(None), "It", 9)


def test_it_is_what_a_plain_loop_does():
    model = network()
    run, pace = going(0.01, model)
    assert run.go_on(DATA, F.cross_entropy, 2, pace) == 2
    assert run.go_on(DATA, F.cross_entropy, 3, pace) == 3  # it goes on where it stopped
    by = optimizer_of([*model.parameters()], "adam", 0.01)
    losses = []
    for _ in range(5):
        by.zero_grad()
        value = F.cross_entropy(model(X[:16]), Y[:16])
        losses.append(value.item())
        value.backward()
        by.step()
    assert run.steps == losses
    assert (len(run.curve().losses), pace.made) == (5, 5)


def test_a_loss_that_is_lost_ends_it():
    model = network()
    model[0].weight.data.fill_(float("inf"))
    run, pace = going(0.01, model)
    assert run.go_on(DATA, F.cross_entropy, 5, pace) == 1
    assert not run.finite
    assert run.curve().losses == ()


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)])
def test_plain_training_is_one_of_two(name, kind):
    by = optimizer_of([*network().parameters()], name, 0.1)
    assert type(by) is kind
    assert by.param_groups[0].get("momentum", 0.9) == 0.9
