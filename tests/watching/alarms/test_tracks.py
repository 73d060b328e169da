"""What is usual of losses, of the learning rate and of any quantity."""

import math
import random

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from sigmascope.watching.alarms.tracks import LossTrack, RateTrack, Track, Tracks, trained_matrices
from sigmascope.watching.sinks import Column
from tests.watching.made import stack

KEPT, SETTLED, YOUNG = 24, 40, 8


def fed(values, kind="log"):
    track = Track(kind)
    for step, value in enumerate(values, 1):
        track.add(step, value)
    return track


def test_logarithms_are_followed_of_what_spans_orders_of_magnitude():
    track = fed([1.0, 100.0] * 10)
    assert track.at_first == pytest.approx(10.0)
    assert track.value == pytest.approx(100.0)


def test_what_strays_far_is_not_taken_into_what_is_usual():
    calm = [1.0, 1.1] * 20
    track = fed([*calm, 50.0, 60.0])
    assert track.level == pytest.approx(fed(calm).level)
    assert track.score > 10
    assert track.moved == 41


def test_what_stays_far_becomes_usual():
    track = fed([1.0, 1.1] * 20 + [50.0] * (SETTLED + 5))
    assert math.exp(track.level) == pytest.approx(50.0, rel=0.1)
    assert abs(track.score) < 2
    assert track.moved is None


def test_zeros_among_others_are_not_taken_into_what_is_usual():
    """The logarithm that stands for zero would drown all others in a mean."""
    track = fed([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, *[1.0] * 10, 0.0])
    assert track.is_zero
    assert track.level == track.first == 0
    assert track.score < -100
    assert (track.zeros, track.zeros_before) == (1, 3)
    settled = fed([1.0] * 10 + [0.0] * SETTLED)
    assert settled.score == 0
    settled.add(100, 2.0)
    assert settled.level == pytest.approx(math.log(2))
    assert settled.first == 0
    begun = fed([0.0] * 20 + [3.0])
    assert (begun.count, begun.at_first) == (1, pytest.approx(3.0))


def test_a_young_track_has_no_score():
    assert fed([1.0] * (YOUNG - 1) + [1e6]).score == 0


def test_what_is_not_a_number_has_no_last_reading():
    assert fed([1.0, math.nan]).last is None
    assert fed([1.0, math.inf]).last is None


def test_growth_is_told_only_where_every_reading_is_larger():
    track = fed([math.exp(0.5 * k) for k in range(6)])
    assert track.growth(5) == (pytest.approx(0.5), pytest.approx(2.0))
    assert fed([1.0, 2.0, 1.9, 3.0, 4.0]).growth(5) is None
    assert fed([1.0, 2.0]).growth(5) is None


@given(st.lists(st.floats(0, 1e30), max_size=200))
def test_memory_does_not_grow_and_nothing_breaks(values):
    track = fed(values)
    assert len(track.recent) <= KEPT
    assert math.isfinite(track.level + track.usual + track.score)


def test_tracks_are_by_quantity_form_and_site():
    tracks = Tracks()
    tracks.add(1, [Column("dead units", ["a", "b"], [0.1, 0.2])])
    tracks.add(1, [Column("saturated share", ["a"], [0.5], form="Tanh")])
    assert {site: t.value for site, t in tracks.of("dead units").items()} == {"a": 0.1, "b": 0.2}
    assert [form for form, _ in tracks.forms("saturated share")] == ["Tanh"]
    assert tracks.one("dead units", "c") is None


def test_at_first_the_level_is_the_mean_of_what_was_read():
    assert fed([1.0, math.exp(2.0)]).level == pytest.approx(1.0)
    assert fed([1.0, math.exp(1.0), math.exp(5.0)]).level == pytest.approx(2.0)


def lost(losses):
    track = LossTrack()
    for loss in losses:
        track.add(loss)
    return track


def noisy(level, count, scatter, seed=0):
    draw = random.Random(seed)
    return [level * math.exp(scatter * draw.gauss(0, 1)) for _ in range(count)]


@pytest.mark.parametrize(("at", "speed"), [(60, 10), (100, 10), (100, 25), (200, 25), (200, 60)])
def test_learning_that_is_lost_early_is_a_rise(at, speed):
    """While the loss falls its fall is no scatter, behind which a fault could hide."""
    for seed in range(10):
        noise = noisy(1.0, at + 10, 0.1, seed)
        track = LossTrack()
        for k in range(at):
            track.add(2.3 * math.exp(-k / speed) * noise[k] + 0.02 * noise[-k - 1])
            assert track.excess <= 1
        for k in range(10):
            track.add(2.3 * noise[at + k])
        assert track.excess > 1


def test_scattered_losses_of_batches_are_usual():
    for seed in range(20):
        track = LossTrack()
        for loss in noisy(0.05, 2000, 0.6, seed):
            track.add(loss)
            assert track.excess <= 1


def test_a_loss_that_falls_by_orders_of_magnitude_is_usual():
    track = LossTrack()
    for k in range(1000):
        track.add(2.3 * math.exp(-k / 100) * (1 + 0.3 * math.sin(k)))
        assert track.excess < 1


def test_one_bad_batch_among_thousands_is_no_rise():
    calm = noisy(1.0, 300, 0.1)
    assert lost([*calm, 1.6, *calm[:3]]).excess < 1


def test_what_is_not_a_number_shows_at_once():
    track = lost([1.0] * 50 + [math.nan])
    assert not track.finite
    assert track.hints
    assert track.rises


def test_a_new_level_becomes_usual():
    assert abs(lost([1.0] * 100 + [3.0] * 500).excess) < 0.5


@pytest.mark.parametrize(("level", "size"), [(5.0, 9.0), (-3.0, 1.0), (1.0, 2.0), (1.0, 10.0),
                                             (1.0, 1e3), (1.0, 1e6)])  # fmt: skip
def test_a_jump_of_any_size_is_a_rise_within_three_steps(level, size):
    calm = [level + 0.1 * math.sin(k) for k in range(100)]
    assert lost(calm).excess < 0.5
    assert lost([*calm, *[size] * 3]).excess > 1


def test_losses_that_stand_for_several_steps_lead_to_the_same_usual_loss():
    losses = [0.5 + 2 * math.exp(-k / 40) for k in range(400)]
    every, some = lost(losses), lost(losses[:100])
    for loss in losses[100::8]:
        some.add(loss, 8)
    assert some.slow == pytest.approx(every.slow, rel=0.02)
    assert lost(losses[:100] + losses[100::8]).slow > 1.05 * every.slow


@pytest.mark.parametrize(
    ("scatter", "slow", "start", "limit"),
    [
        (0.2, 2.0, 2.0, 1.1),  # 5.5 times the scatter
        (0.0, -2.0, -2.0, 0.6),  # three tenths of what is usual
        (0.1, 2.0, 12.0, 0.8),  # 8 % of the way so far
        (0.0, 0.0, 0.0, 1e-12),
    ],
)
def test_a_loss_rises_beyond_a_share_of_the_largest_of_three_limits(scatter, slow, start, limit):
    track = LossTrack(count=16, slow=slow, fast=slow, scatter=scatter, start=start)
    assert track.limit == pytest.approx(limit, rel=1e-9, abs=0)
    assert track.top - slow == pytest.approx(limit / 2, rel=1e-9, abs=0)
    for name, share in (("hints", 0.25), ("rises", 0.35)):
        for times in (0.999, 1.001):
            track.fast = slow + times * share * limit
            assert getattr(track, name) is (times > 1)
    assert track.top == -math.inf
    track.count = 15  # too young
    assert (track.excess, track.rises, track.hints, track.top) == (0, False, False, -math.inf)


@pytest.mark.parametrize(
    ("count", "fast", "slow", "start", "told"),
    [
        (41, 0.901, 0.9, 1.0, "stuck"),
        (40, 0.901, 0.9, 1.0, ""),
        (41, 0.899, 0.9, 1.0, ""),
        (41, 0.9801, 1.0, 1.0, "stuck"),  # it falls by less than two hundredths
        (41, 0.9799, 1.0, 1.0, ""),
        (41, -1.0, -1.0, -1.0, "stuck"),  # nobody knows what is left
        (41, -1.001, -1.0, -1.0, ""),
        (41, -0.001, 0.0, 1.0, ""),  # as a log-likelihood that falls through zero
        (41, 0.0, 0.0, 1.0, "fitted"),
        (1, 0.0999, 0.5, 1.0, "fitted"),
        (1, 0.1001, 0.5, 1.0, ""),
        (0, 0.0, 0.0, 1.0, ""),
    ],
)
def test_a_loss_is_stuck_near_its_start_and_fitted_below_a_tenth(count, fast, slow, start, told):
    track = LossTrack(count=count, fast=fast, slow=slow, start=start)
    assert track.stuck is ("stuck" in told)
    assert track.fitted is ("fitted" in told)


@pytest.mark.parametrize(("steps", "wanted", "fewer"), [(1, 48, 0), (2, 24, 2), (8, 16, 3)])
def test_what_is_undone_is_told_by_the_order_of_the_losses_of_48_steps(steps, wanted, fewer):
    noise = noisy(1.0, 600, 0.2)
    losses = [x * (0.1 + abs(1 - k / 200)) for k, x in enumerate(noise[:400])] + noise[400:]
    start, best, drifted, undone, track = sum(losses[:15]) / 15, None, 0, 0.0, LossTrack()
    for n, loss in enumerate(losses, 1):
        track.add(loss, steps)
        if n >= wanted and n * steps % 8 == 0:
            last = sorted(losses[n - wanted : n])
            low, middle, high = (last[round(q * (wanted - 1))] for q in (0.25, 0.5, 0.9))
            if best is None or middle < best[0]:
                best, drifted, undone = (middle, high), 0, 0.0
            else:
                low = last[round(0.25 * (wanted - 1)) - fewer]
                undone = max(0.0, (middle - best[0]) / (start - best[0]))
                worse, again = undone > 0.03 and low > best[1], undone < 0.015 or low <= best[0]
                drifted = drifted + 1 if worse else 0 if again else drifted
        assert (track.best, track.drifted, track.drifts) == (best, drifted, drifted > 1)
        assert track.undone == pytest.approx(undone)
    assert drifted > 1


SCHEDULES = {
    "warm-up and cosine": lambda k: min(k / 100, 1) * (1 + math.cos(math.pi * k / 1000)),
    "one cycle": lambda k: 0.04 + math.sin(math.pi * min(k / 300, 1) / 2) - max(0, k - 300) / 800,
    "steps": lambda k: 0.1 ** (k // 250),
    "warm restarts": lambda k: 1 + math.cos(math.pi * (k % 200) / 200),
    "cyclic": lambda k: 0.1 + 0.9 * abs((k / 100) % 2 - 1),
    "constant": lambda k: 1.0,
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_usual_schedules_do_not_jump(name):
    track = RateTrack()
    for k in range(1, 1001):
        track.add(SCHEDULES[name](k))
        assert not track.jumped
        assert not track.dropped


def rates(*values):
    track = RateTrack()
    for rate in values:
        track.add(rate)
    return track


LONG = [1.0] * 31  # a plateau; one step less is none


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((1.0, 0.0, 0.0), "dropped"),
        ((1.0, 0.0501, 0.0), "dropped"),  # from a twentieth of the highest
        ((1.0, 0.0499, 0.0), ""),
        ((1.0, 0.0, 0.0499), "dropped"),  # until it is back there
        ((1.0, 0.0, 0.0501), ""),
        ((*LONG, 3.01), "jumped"),
        ((*LONG, 2.99), ""),
        ((*LONG[1:], 3.01), ""),
        ((*LONG, 4.0, 1.0), ""),
        ((*[1.0] * 20, *[1.009] * 20, 3.01), "jumped"),  # a hundredth more is the same plateau
        ((*[1.0] * 20, *[1.011] * 20, 3.9), ""),
        ((*LONG, 4.0, *[1.49] * 30, 3.01), "jumped"),  # forgotten once it was back for as long
        ((*LONG, 4.0, *[1.49] * 31, 3.01), ""),
        ((*LONG, 4.0, *[1.51] * 31, 3.01), "jumped"),
        ((*LONG, 3.1, *[4.0] * 31, 12.1), "jumped"),  # the first plateau counts
    ],
)
@pytest.mark.parametrize("unit", [1e-3, 7.0])
def test_a_rate_has_dropped_or_jumped_until_it_is_back(values, told, unit):
    track = rates(*(unit * v for v in values))
    assert track.dropped is (told == "dropped")
    assert track.jumped is (told == "jumped")


def test_a_rate_that_grows_from_a_plateau_has_jumped_when_it_is_three_times_as_high():
    track = rates(*[1.0] * 100)
    steps = next(k for k in range(1, 100) if track.add(1.1**k) or track.jumped)
    assert 1.1**steps > 3 >= 1.1 ** (steps - 1)


@pytest.mark.parametrize("least", [2, 3, 5])
def test_growth_is_that_of_the_last_readings(least):
    track = Track("share")
    for step, value in ((0, 9.0), (10, 1.0), (20, 2.0), (40, 5.0), (50, 6.0), (60, 8.0)):
        track.add(step, value)
    steps, values = [10, 20, 40, 50, 60][-least:], [1.0, 2.0, 5.0, 6.0, 8.0][-least:]
    apart = values[-1] - values[0]
    assert track.growth(least) == pytest.approx((apart / (steps[-1] - steps[0]), apart))
    assert track.growth(6) is None
    assert track.growth(7) is None


def test_the_spread_is_between_the_least_and_the_largest_of_the_last():
    track = fed([9.0, 1.0, 4.0, 2.0], "share")
    assert [track.spread(count) for count in (1, 2, 3, 4, 9)] == [0.0, 2.0, 3.0, 8.0, 8.0]
    assert Track("share").spread(3) == 0.0


@pytest.mark.parametrize(
    ("values", "again"), [((1.0, 0.1, 0.19), False), ((1.0, 0.1, 0.21), True), ((1.0, 1.0), False)]
)
def test_a_rate_that_was_low_and_has_doubled_rises_again(values, again):
    assert rates(*values).again is again


def test_usual_rates_lie_between_a_hundredth_of_the_last_and_the_half_more_of_the_highest():
    assert rates(1.0, 4.0, 2.0).usual == pytest.approx((0.02, 6.0))
    assert rates().usual == (math.inf, -math.inf)


def test_a_thousandth_at_once_is_next_to_nothing_however_it_is_rounded():
    assert rates(0.1, 0.1 / 1000).dropped
    assert rates(0.1, 0.1 * 1e-3).dropped
    assert not rates(0.1, 0.1 / 900).dropped


# ------------------------------------------------------------------------------
# Trained matrices in their model, and which optimizers are meant to be Muon.


class Words(nn.Module):
    """An embedding, a hidden layer and a readout."""

    def __init__(self):
        super().__init__()
        self.words, self.hidden = nn.Embedding(50, 8), nn.Linear(8, 8)
        self.norm, self.readout = nn.LayerNorm(8), nn.Linear(8, 50)

    def forward(self, x):
        return self.readout(self.norm(torch.relu(self.hidden(self.words(x)))))


def matrices(model):
    return [p for p in model.parameters() if p.ndim == 2]


def test_roles_are_those_of_the_model_and_vectors_are_none():
    model = Words()
    found = trained_matrices(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    roles = {name: m.role for name, m in found.items()}
    assert roles == {"words.weight": "embedding", "hidden.weight": "", "readout.weight": "readout"}
    assert not any(m.meant for m in found.values())


def test_a_readout_that_is_the_embedding_is_an_embedding_and_no_hidden_layer_a_readout():
    model = Words()
    model.readout.weight = model.words.weight
    found = trained_matrices(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    assert {n: m.role for n, m in found.items()} == {
        "words.weight": "embedding",
        "hidden.weight": "",
    }


def test_what_no_optimizer_trains_is_not_there():
    model = stack(5, 6, 3)
    assert [*trained_matrices(model, [torch.optim.SGD(model[0].parameters(), lr=0.1)])] == [
        "0.weight"
    ]


class Muonlike(torch.optim.SGD):
    """A name that says what it is meant to be."""


def test_muon_is_told_by_its_name_its_flag_or_its_steps():
    model = stack(5, 6, 3)
    a, b = matrices(model)
    rest = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": [a], "use_muon": True}, {"params": [b, *rest], "use_muon": False}]
    muon = torch.optim.Muon([a], ns_steps=3)
    for optimizers, meant, steps in (
        ([muon, torch.optim.Adam([b])], (True, False), (3, None)),
        ([Muonlike([a, b], lr=0.1)], (True, True), (None, None)),
        ([Muonlike(groups, lr=0.1)], (True, False), (None, None)),
        ([torch.optim.SGD(groups, lr=0.1)], (True, False), (None, None)),
        ([torch.optim.SGD([{"params": [a], "ns_steps": 2}], lr=0.1)], (True,), (2,)),
    ):
        found = trained_matrices(model, optimizers)
        assert tuple(m.meant for m in found.values()) == meant
        assert tuple(m.steps for m in found.values()) == steps


def test_one_row_is_a_vector_where_muon_of_torch_trains_it():
    model = stack(5, 6, 1)
    found = trained_matrices(model, [torch.optim.Muon(matrices(model))])
    assert found["2.weight"].role == "vector"
    assert "2.weight" not in trained_matrices(model, [Muonlike(matrices(model), lr=0.1)])


@pytest.mark.parametrize("shape", [(200, 200), (400, 100), (100, 400)])
def test_noise_has_the_stable_rank_of_noise(shape):
    torch.manual_seed(0)
    layer = nn.Linear(shape[1], shape[0], bias=False)
    found = trained_matrices(layer, [torch.optim.SGD(layer.parameters(), lr=0.1)])["weight"]
    s = torch.linalg.svdvals(torch.randn(shape))
    assert found.side == min(shape)
    assert found.of_noise == pytest.approx(float(s.square().sum() / s[0] ** 2), rel=0.06)
