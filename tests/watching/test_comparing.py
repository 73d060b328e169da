"""Where two runs part, beyond what their own variation explains."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from sigmascope.core.records import Estimate, Reading
from sigmascope.core.store import Row, Run
from sigmascope.watching import alarm_spans, part
from sigmascope.watching.comparing import (
    Key,
    Trajectory,
    gaps,
    limit,
    on_common_steps,
    scaled,
    standard_errors,
    trajectories,
)
from tests.runs_made import SITES, alarm, begin, looks, made, over, reading

WINDOW = 16


def three(values):
    return np.stack([np.asarray(values, float)] * 3)


def noise(rng, n, rho):
    found = rng.standard_normal(n)
    for i in range(1, n):
        found[i] += rho * found[i - 1]
    return found


def share_that_parts(rho, runs=300, n=150, offset=0.0):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(runs):
        trend = np.linspace(0, 20, n)
        a, b = (three(trend + noise(rng, n, rho)) for _ in range(2))
        times, limits, _ = standard_errors(a, b + offset, n - 1)
        hits += bool((times > limits).any())
    return hits / runs


@pytest.mark.parametrize(("rho", "most"), [(0.0, 0.01), (0.5, 0.01), (0.8, 0.06)])
def test_noise_around_a_common_trend_seldom_parts(rho, most):
    assert share_that_parts(rho) <= most


def test_a_difference_of_five_deviations_parts():
    assert share_that_parts(0.0, runs=50, offset=8.0) == 1.0


def test_a_lag_of_one_reading_between_curves_without_noise_does_not_count():
    t = np.arange(200) / 20
    times, limits, _ = standard_errors(three(np.sin(t)), three(np.sin(t + 0.05)), 199)
    assert not (times > limits).any()


def test_what_does_not_vary_is_infinitely_far_from_the_second_reading_on():
    times, limits, _ = standard_errors(three([1, 1, 1]), three([2, 2, 2]), 2)
    assert times.tolist() == [0, math.inf, math.inf]
    assert (times > limits).tolist() == [False, True, True]


def test_gaps_are_between_intervals():
    a = np.array([[2.0, 2.0, 2.0], [1.0, 1.9, 2.0], [3.0, 2.1, 2.0]])
    b = np.array([[4.0, 4.0, math.inf], [2.5, 3.9, math.inf], [5.0, 4.1, math.inf]])
    assert gaps(a, b).tolist() == pytest.approx([0.0, -1.8, -math.inf])
    assert gaps(b, a).tolist() == pytest.approx([0.0, 1.8, math.inf])


def test_the_limit_grows_with_the_number_of_tests_and_falls_with_readings():
    assert limit(1, 10) == math.inf
    assert limit(WINDOW, 10) < limit(WINDOW, 1000) < limit(WINDOW // 2, 1000)


LOSS = Key("(loss)", "watch", "", "loss")


def row(step, value, site="fc", quantity="update ratio"):
    return (step, "time", site, "watch", "", quantity, value, value - 1, value + 1, "gram", 0.0)


def line(steps, values=None):
    steps = np.array(steps, float)
    values = steps if values is None else np.array(values, float)
    return Trajectory(steps, np.stack([values] * 3), (("exact", 0.0),) * len(steps))


def test_of_a_reading_that_was_filed_again_the_last_counts():
    found = trajectories([row(0, 1.0), row(5, 2.0), row(9, 3.0), row(5, 7.0)])
    (key,) = found
    assert key == Key("fc", "watch", "", "update ratio")
    assert found[key].steps.tolist() == [0, 5, 9]
    assert found[key].estimate(1) == Estimate(7.0, 6.0, 8.0, "gram", 0.0)


def test_steps_in_common_are_enough_where_there_are_many_or_all_of_one():
    a, b, interpolated = on_common_steps(line(range(40)), line(range(0, 80, 2)))
    assert a.steps.tolist() == b.steps.tolist() == [*range(0, 40, 2)]
    assert not interpolated
    a, b, interpolated = on_common_steps(line([0, 5]), line(range(100)))
    assert (b.steps.tolist(), interpolated) == ([0, 5], False)


def test_without_steps_in_common_the_second_is_interpolated_within_its_own():
    a, b, interpolated = on_common_steps(line(range(0, 50, 2)), line(range(11, 31, 5)))
    assert interpolated
    assert a.steps.tolist() == [12, 14, 16, 18, 20, 22, 24, 26]
    assert b.numbers[0].tolist() == pytest.approx(a.steps.tolist())
    assert b.estimate(0).how == "interpolated"


def test_runs_that_do_not_overlap_have_no_common_steps():
    a, _, _ = on_common_steps(line(range(5)), line(range(50, 70)))
    assert a.steps.tolist() == []


def test_quantities_of_many_decades_go_by_their_logarithms_where_all_are_positive():
    (numbers,) = scaled(LOSS, line([1, 2], [1.0, math.e]))
    assert numbers[0].tolist() == pytest.approx([0, 1])
    (numbers,) = scaled(LOSS, line([1, 2], [-1.0, 2.0]))
    assert numbers[0].tolist() == [-1, 2]
    (numbers,) = scaled(LOSS._replace(quantity="dead units"), line([1, 2], [0.5, 0.7]))
    assert numbers[0].tolist() == [0.5, 0.7]


def rows(*pairs):
    return [Row(step, datetime.now(UTC), finding) for step, finding in pairs]


def spans(*pairs):
    return [(s.finding.site, s.begin, s.end) for s in alarm_spans(rows(*pairs))]


def test_an_alarm_lasts_until_its_own_end():
    found = spans((3, alarm("a")), (4, alarm("b")), (9, over("b")), (12, alarm("b")))
    assert found == [("a", 3, None), ("b", 4, 9), ("b", 12, None)]


def test_an_end_without_a_beginning_says_nothing():
    assert spans((3, over("a"))) == []


def test_alarms_of_other_names_at_one_place_are_apart():
    pairs = rows((1, alarm("a")), (2, alarm("a", "dead-units")), (3, over("a", "dead-units")))
    assert [(s.finding.name, s.end) for s in alarm_spans(pairs)] == [
        ("gradient-growth", None),
        ("dead-units", 3),
    ]


def test_one_that_begins_anew_after_a_restart_goes_on():
    assert spans((30, alarm("a")), (20, alarm("a")), (40, over("a"))) == [("a", 20, 40)]


def parting(first, second):
    with Run(first, write=False) as a, Run(second, write=False) as b:
        return part(a, b)


def filed(path, rows, **about):
    with Run(path) as run:
        begin(run, about)
        for step, readings in rows:
            run.add(step=step, readings=readings)
    return path


def test_a_run_and_itself_are_the_same_to_the_last_bit(tmp_path):
    found = parting(made(tmp_path / "a.run"), made(tmp_path / "b.run"))
    assert (found.same_until, found.differs_at, found.differing) == (59, None, ())
    assert found.parted == ()
    assert found.settings == ()
    assert found.alarms == ((), ())
    assert found.losses[0] == found.losses[1]
    assert found.steps == (59, 59)
    assert found.runs == (str(tmp_path / "a.run"), str(tmp_path / "b.run"))
    assert found.compared == 1 + len(SITES)  # without what the watch reads of itself


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_another_seed_differs_but_does_not_part(tmp_path, seed):
    a, b = made(tmp_path / "a.run", 100), made(tmp_path / "b.run", 100, seed=seed)
    found = parting(a, b)
    assert (found.same_until, found.differs_at) == (None, 0)
    assert len(found.differing) == found.compared
    assert found.parted == ()


def test_the_layers_that_grow_part_soon_after_and_no_other(tmp_path):
    a = made(tmp_path / "a.run", 120)
    b = made(tmp_path / "b.run", 120, seed=3, apart=60)
    found = parting(a, b)
    assert {p.site for p in found.parted} == {*SITES[3:]}
    assert all(p.quantity == "gradient norm" for p in found.parted)
    assert all(60 <= p.step <= p.seen <= 80 for p in found.parted)
    assert all(p.second.value > p.first.value and p.times > found.limit for p in found.parted)
    assert [p.step for p in found.order] == sorted(p.step for p in found.order)


def test_runs_of_one_seed_are_the_same_until_they_are_not(tmp_path):
    a, b = made(tmp_path / "a.run", 100), made(tmp_path / "b.run", 100, apart=60)
    found = parting(a, b)
    assert (found.same_until, found.differs_at) == (60, 61)  # at 60 it has grown by nothing
    assert [key.site for key in found.differing] == [*SITES[3:]]
    assert {p.site for p in found.parted} == {*SITES[3:]}


def test_what_never_varies_parts_at_once(tmp_path):
    rate = lambda value: [(s, [reading("(optimizer)", "learning rate", value)]) for s in range(5)]
    a, b = filed(tmp_path / "a.run", rate(0.1)), filed(tmp_path / "b.run", rate(0.05))
    (parted,) = parting(a, b).parted
    assert (parted.step, parted.seen, parted.times) == (0, 1, math.inf)
    assert (parted.first.value, parted.second.value) == (0.1, 0.05)


def test_intervals_that_overlap_do_not_part(tmp_path):
    wide = lambda v: Reading("fc", "stable rank", Estimate(v, v - 1, v + 1, "free"), "watch")
    rows = lambda v: [(s, [wide(v)]) for s in range(9)]
    found = parting(filed(tmp_path / "a.run", rows(5.0)), filed(tmp_path / "b.run", rows(6.0)))
    assert found.parted == ()
    assert found.differs_at == 0


def test_a_number_that_overflows_in_one_run_parts(tmp_path):
    rows = lambda last: [
        (s, [reading("fc", "gradient norm", v)]) for s, v in enumerate((1.0, 1.1, 0.9, 1.0, last))
    ]
    found = parting(filed(tmp_path / "a.run", rows(1.1)), filed(tmp_path / "b.run", rows(math.inf)))
    (parted,) = found.parted
    assert (parted.seen, parted.times) == (4, math.inf)


def test_one_step_alone_is_compared_by_its_bits(tmp_path):
    a, b = made(tmp_path / "a.run", 1), made(tmp_path / "b.run", 1, seed=2)
    found = parting(a, b)
    assert found.parted == ()
    assert found.differs_at == 0
    assert found.unjudged == found.compared


def test_runs_without_steps_in_common_are_interpolated_and_it_is_counted(tmp_path):
    every = [*looks(200)]
    a = filed(tmp_path / "a.run", every[::6])
    b = filed(tmp_path / "b.run", every[1::6])
    found = parting(a, b)
    assert found.interpolated == found.compared
    assert (found.same_until, found.differs_at) == (None, None)  # no bits in common
    assert found.parted == ()


def test_what_only_one_has_is_named(tmp_path):
    a = made(tmp_path / "a.run", 50, {"lr": "0.1", "batch": "8"})
    b = made(tmp_path / "b.run", 30, {"lr": "0.2"}, sites=(*SITES[:5], "head"))
    found = parting(a, b)
    assert found.only == ((SITES[5],), ("head",))
    words = [(s.name, s.first, s.second) for s in found.settings]
    assert words == [("lr", "0.1", "0.2"), ("batch", "8", None)]
    (alone,), none = found.alarms
    assert (alone.finding.site, alone.begin, none) == (SITES[4], 40, ())
    assert found.steps == (49, 29)


def test_quantities_that_one_run_lacks_are_counted(tmp_path):
    more = lambda rows: [*rows, reading(SITES[0], "update ratio", 1.0)]
    a = filed(tmp_path / "a.run", [(s, more(rows)) for s, rows in looks(20)])
    found = parting(a, filed(tmp_path / "b.run", looks(20)))
    assert found.unmatched == 1
    assert found.only == ((), ())


def test_a_gap_to_an_infinity_is_infinite_and_to_itself_none():
    numbers = np.array([-math.inf, 0.0, math.inf])
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            (gap,) = gaps(three([a]), three([b]))
            assert gap == (0.0 if i == j else math.inf if i > j else -math.inf)


@pytest.mark.parametrize(("shared", "interpolated"), [(15, True), (16, False), (17, False)])
def test_sixteen_steps_in_common_are_enough(shared, interpolated):
    first = [*range(shared), *(k + 0.5 for k in range(20))]
    second = [*range(shared), *(k + 0.25 for k in range(20))]
    assert on_common_steps(line(sorted(first)), line(sorted(second)))[2] is interpolated


@pytest.mark.parametrize("gap", [0.0, 1e-9, 0.5, 1.0, 2.0])
def test_a_gap_is_as_wide_as_what_lies_between_the_ends(gap):
    low, high = np.array([[1.0], [0.5], [2.0]]), np.array([[2.5], [2.0], [3.0]])
    high = high + gap
    assert gaps(high, low) == pytest.approx([gap])
    assert gaps(low, high) == pytest.approx([-gap])
