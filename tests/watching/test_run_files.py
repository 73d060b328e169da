"""What of the looks is filed, and when."""

from dataclasses import replace

import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Finding, Reading, Skipped
from sigmascope.core.store import Run, runs
from sigmascope.watching import LOSS, Look, watch
from sigmascope.watching.probes import Losses
from sigmascope.watching.run_files import Filing, RunFile, about_of
from sigmascope.watching.schedule import Buckets
from sigmascope.watching.sinks import Column
from tests.watching.made import Shelf, Ticks, stack, task, trained

POINTS = 200

ALARM = Finding("loss-spike", "a", "warning", (), "It rose.", "x")


def column(value, site="a"):
    return Column("spectral norm", [site], [value], form="matrix")


def rich():
    buckets = Buckets([Losses()], 0.02)
    buckets.earn(1e9, 1)
    return buckets


def test_of_each_quantity_the_newest_is_filed_and_of_each_layer_whose_turn_it_was():
    shelf = Shelf()
    filing = Filing([shelf], 0.02, Ticks())
    filing.keep(2, [column(1.0), column(2.0, "b")], [], [], [])
    filing.keep(4, [column(3.0)], [], [], [])
    filing.keep(5, [replace(column(4.0, "c"), step=3)], [], [], [])
    filing.file(5)
    read = [(look.step, r.site, r.estimate.value) for look in shelf.looks for r in look.readings]
    assert read == [(2, "b", 2.0), (3, "c", 4.0), (4, "a", 3.0)]


def test_looks_are_thinned_to_some_hundreds():
    shelf = Shelf()
    filing = Filing([shelf], 0.02, Ticks(1e-9))
    steps = 20_000
    for step in range(1, steps + 1):
        filing.keep(step, [column(1.0)], [], [], [])
        filing.file_if_due(step, rich())
    assert POINTS < len(shelf.looks) < 10 * POINTS
    gaps = [b.step - a.step for a, b in zip(shelf.looks, shelf.looks[1:], strict=False)]
    assert max(gaps) <= steps // POINTS


def test_filing_waits_until_it_is_paid_and_an_alarm_is_filed_at_once():
    shelf = Shelf()
    filing = Filing([shelf], 0.02, Ticks(1.0))
    poor = Buckets([Losses()], 0.02)
    for step in range(1, 50):
        filing.keep(step, [column(1.0)], [], [], [])
        filing.file_if_due(step, poor)
    assert [look.step for look in shelf.looks] == [1]
    filing.keep(50, [], [], [ALARM], [Skipped("a", "b", "c")])
    filing.file_if_due(50, poor)
    *before, last = shelf.looks
    assert (last.step, last.findings, last.skipped[0].why) == (50, (ALARM,), "c")
    assert not any(look.findings or look.skipped for look in before)


def test_a_sink_that_fails_is_dropped_with_one_line_and_the_others_go_on(caplog):
    class Broken(Shelf):
        def write(self, look):
            raise OSError("the disk is full")

    shelf = Shelf()
    filing = Filing([Broken(), shelf], 0.02, Ticks())
    for step in (1, 2):
        filing.keep(step, [column(1.0)], [], [], [])
        filing.file(step)
    filing.close(3)
    assert len(shelf.looks) == 2
    assert shelf.closed
    assert [r.getMessage() for r in caplog.records] == [
        "sigmascope files nothing more in Broken: the disk is full"
    ]


def test_what_the_first_looks_took_in_advance_does_not_keep_later_ones_from_the_file():
    shelf, clock, buckets = Shelf(), Ticks(0.01), Buckets([Losses()], 0.02)
    filing = Filing([shelf], 0.02, clock)
    for step in range(1, 2001):
        buckets.earn(0.1, 1)
        filing.keep(step, [column(1.0)], [], [], [])
        filing.file_if_due(step, buckets)
    early = [look.step for look in shelf.looks if look.step <= 100]
    assert len(early) > 5
    assert 0.5 * 0.003 * 200 / 0.01 < len(shelf.looks) - len(early) < 0.003 * 200 / 0.01


def test_what_must_be_filed_is_and_what_shares_a_place_is_filed_whole():
    shelf, buckets = Shelf(), Buckets([Losses()], 0.02)
    filing = Filing([shelf], 0.02, Ticks(10.0))
    twins = [Reading("a ~ b", "balance drift", Estimate.exactly(v), "balances") for v in (1.0, 2.0)]
    for step in range(1, 5):
        filing.keep(step, [], twins, [], [])
        filing.file_if_due(step, buckets, must=step == 3)
    assert [look.step for look in shelf.looks] == [1, 3]
    assert all(list(look.readings) == twins for look in shelf.looks)


def look(step, value=1.0):
    return Look(step, (Reading(LOSS, "loss", Estimate.exactly(value), "watch"),))


def test_looks_come_back_with_layers_and_circumstances(tmp_path):
    model = stack(3, 4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    about = about_of(model, [optimizer], budget=0.02, processes=1)
    file = RunFile(tmp_path / "a.run", model, about)
    file.write(look(3))
    file.write(look(7, 2.0))
    file.close()
    with Run(tmp_path / "a.run", write=False) as run:
        assert run.steps() == (3, 7)
        assert [(r.step, r.estimate.value) for r in run.readings()] == [(3, 1.0), (7, 2.0)]
        assert [(x.site, x.parameters) for x in run.layers()] == [
            ("0", ("0.weight", "0.bias")),
            ("2", ("2.weight", "2.bias")),
        ]
        words = {w.name: w.value for w in run.about()}
    assert words["model"] == "Sequential, 26 parameters"
    assert "lr=0.25" in words["optimizer"]


def test_a_file_that_exists_goes_on_and_names_its_layers_once(tmp_path):
    model = stack(3, 2)
    for step in (4, 9):
        file = RunFile(tmp_path / "a.run", model, {})
        assert file.last == (0 if step == 4 else 4)
        file.write(look(step))
        file.close()
    with Run(tmp_path / "a.run", write=False) as run:
        assert run.steps() == (4, 9)
        assert len(list(run.layers())) == 1


def test_all_losses_of_a_look_wait_for_the_disk_once(tmp_path, monkeypatch):
    """A run of some hundred steps files as many means of losses where it ends."""
    waits = []
    real = runs.appending
    monkeypatch.setattr(runs, "appending", lambda path: waits.append(path) or real(path))
    file = RunFile(tmp_path / "a.run", stack(2, 2), {})
    reading = Reading("(loss)", "loss", Estimate.exactly(1.0), "watch", "mean of steps")
    file.write(Look(90, (reading,), losses=tuple((step, reading) for step in range(1, 90))))
    file.close()
    assert len(waits) <= 2
    with Run(tmp_path / "a.run") as run:
        assert run.steps() == tuple(range(1, 91))


def test_a_file_of_a_run_of_other_layers_is_said_to_be_one(tmp_path, caplog):
    for sizes in ((2, 2), (2, 2), (2, 3, 2)):
        assert not caplog.records
        model = stack(*sizes)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with watch(model, optimizer, run=tmp_path / "a.run"):
            trained(model, *task(width=2, outputs=2, dtype=torch.float32), optimizer, 2)
    (said,) = [r.getMessage() for r in caplog.records]
    assert "behind step 4, where it holds a run of other layers (2 is in one" in said


def test_steps_made_before_are_no_fewer_than_none(tmp_path):
    model = stack(2, 2)
    with pytest.raises(Refusal, match="`start` must be the steps made before, 0 or more, got -1"):
        watch(model, torch.optim.SGD(model.parameters(), 0.1), start=-1)
