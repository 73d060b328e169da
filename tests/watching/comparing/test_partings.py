"""Where two runs part, beyond what their own variation explains."""

import math
from pathlib import Path

import pytest

from sigmascope.records import Estimate, Reading
from sigmascope.store import Run
from sigmascope.watching import part
from tests.runs_made import SITES, begin, looks, made, reading


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


def test_a_run_that_names_a_path_keeps_it(tmp_path):
    a = made(tmp_path / "a.run", 2)
    assert parting(a, a).runs == (str(Path(a)),) * 2
