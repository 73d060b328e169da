"""Runs as figures: over the steps, with alarms where they begin."""

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import quantities
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


def test_six_quantities_are_drawn_those_of_alarms_behind_the_loss_unless_some_are_asked_for(
    tmp_path,
):
    names = [*(q for q in quantities() if q != "loss")][:8]
    with Run(tmp_path / "many.run") as file:
        for step in range(3):
            rows = [reading("a", 1.0 + step, name) for name in names]
            file.add(step=step, readings=[*rows, reading("(loss)", 2.0)])
        evidence = (reading("a", 2.0, names[-1]),)
        file.add(step=2, findings=[Finding("spike", "a", "warning", evidence, "It rose.", "us")])
        titles = [ax.get_title(loc="left") for ax in file.plot().axes]
        assert titles == ["loss", names[-1], *names[:4]]
        assert len(file.plot(quantities=names).axes) == 8


@pytest.mark.parametrize(("sites", "named"), [(1, False), (2, True), (6, True), (7, False)])
def test_layers_are_named_where_they_are_few(tmp_path, sites, named):
    with Run(tmp_path / "a.run") as file:
        for step in range(2):
            file.add(step=step, readings=[reading(f"fc{i}", 1.0) for i in range(sites)])
        (ax,) = file.plot().axes
    assert len(ax.lines) == sites
    legend = ax.get_legend()
    assert (legend is not None) is named
    if legend is not None:
        assert [text.get_text() for text in legend.get_texts()] == [f"fc{i}" for i in range(sites)]
    assert len({str(drawn.get_color()) for drawn in ax.lines}) == sites


def test_what_was_read_once_is_drawn_only_where_nothing_was_read_again(tmp_path):
    with Run(tmp_path / "a.run") as file:
        file.add(step=0, readings=[reading("a", 1.0, "stable rank"), reading("(loss)", 2.0)])
        assert len(file.plot().axes) == 2
        file.add(step=1, readings=[reading("(loss)", 1.0)])
        assert [ax.get_title(loc="left") for ax in file.plot().axes] == ["loss"]
        file.add(step=1, readings=[reading("b", 1.0, "stable rank")])
        file.add(step=2, readings=[reading("b", 2.0, "stable rank")])
        assert len(file.plot().axes) == 2  # some layer was read again
