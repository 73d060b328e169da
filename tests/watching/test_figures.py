"""Runs as figures: over the steps, with alarms where they begin."""

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Finding, Reading
from sigmascope.core.store import Run


def reading(site, value, quantity="loss"):
    return Reading(site, quantity, Estimate(value, value / 2, value * 2, "exact"), "watch")


@pytest.fixture
def run(tmp_path):
    with Run(tmp_path / "a.run") as file:
        for step in range(4):
            rows = [reading(f"layer {i}", 1.0 + step + i, "stable rank") for i in range(2)]
            file.add(step=step, readings=[reading("(loss)", 2.0 - 0.1 * step), *rows])
        alarm = Finding("spike", "(loss)", "warning", (reading("(loss)", 2.0),), "It rose.", "us")
        file.add(step=2, findings=[alarm])
        yield file


def test_the_loss_stands_first_and_an_alarm_where_it_begins(run):
    first, second = run.plot().axes
    assert [ax.get_title(loc="left") for ax in (first, second)] == ["loss", "stable rank"]
    assert list(first.lines[0].get_xdata()) == [0, 1, 2, 3]
    assert [2, 2] in [list(each.get_xdata()) for each in first.lines]
    assert len(second.lines) == 2


def test_what_was_not_read_is_refused(run, tmp_path):
    with pytest.raises(Refusal, match=r"Did you mean `stable rank`"):
        run.plot(quantities="stable ranks")
    with Run(tmp_path / "empty.run") as empty, pytest.raises(Refusal, match="Nothing was read"):
        empty.plot()


def test_a_run_that_was_watched_is_drawn(tmp_path):
    from sigmascope import watching

    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watching.watch(model, optimizer, run=tmp_path / "w.run", budget=1.0):
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().sum().backward()
            optimizer.step()
    with Run(tmp_path / "w.run", write=False) as run:
        assert run.plot(width=3.3).axes
