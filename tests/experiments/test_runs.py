"""Rows are computed once, a cut run goes on, and what they show is said."""

import json
import pickle
import sys

import pytest

from sigmascope.core.guard import Refusal
from sigmascope.integrations.processes import WorkerProcesses
from sigmascope_experiments import FIGURES, Claim, reproduce
from sigmascope_experiments.figures import Figure, generator_of

COUNTED: list[dict] = []


def tasks(config):
    return [{"n": n} for n in range(config["count"])]


def row(task, _):
    COUNTED.append(task)
    return {"square": task["n"] ** 2}


def plot(rows, canvas):
    canvas.add_subplot().plot([r["task"]["n"] for r in rows], [r["square"] for r in rows])


def claims(rows, config):
    total = sum(r["square"] for r in rows)
    yield Claim("the squares add up", f"{total}", total == config["total"])


def squares(count=4, total=14):
    usual = {"count": count, "total": total}
    return Figure("test/squares", "Squares.", 0, usual, usual, tasks, row, plot, claims, "Four.")


@pytest.fixture(autouse=True)
def fresh():
    COUNTED.clear()


def test_rows_claims_plot_and_configuration_are_kept(tmp_path):
    found = reproduce(squares(), tmp_path / "a" / "b")
    assert [r["square"] for r in found.rows] == [0, 1, 4, 9]
    assert found.claims == (Claim("the squares add up", "14", True),)
    assert found.picture.read_bytes().startswith(b"\x89PNG")
    head, *rows = map(json.loads, (tmp_path / "a/b/rows.jsonl").read_text().splitlines())
    assert head["recipe"] == {"figure": "test/squares", "count": 4, "total": 14}
    assert {tuple(row["versions"]) for row in rows} == {("sigmascope", "torch", "python", "device")}
    assert json.loads((tmp_path / "a/b/claims.json").read_text())[0]["holds"]


def test_rows_that_are_there_are_not_computed_again(tmp_path):
    first = reproduce(squares(), tmp_path)
    COUNTED.clear()
    assert reproduce(squares(), tmp_path).rows == first.rows
    assert not COUNTED


def test_a_torn_line_is_computed_again(tmp_path):
    reproduce(squares(), tmp_path)
    file = tmp_path / "rows.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:3]) + lines[3][:9])
    COUNTED.clear()
    found = reproduce(squares(), tmp_path)
    assert [r["square"] for r in found.rows] == [0, 1, 4, 9]
    assert COUNTED == [{"n": 2}, {"n": 3}]
    assert len(file.read_text().splitlines()) == 5


def test_other_sizes_in_the_same_folder_are_refused(tmp_path):
    reproduce(squares(), tmp_path)
    with pytest.raises(Refusal, match="count is 4 there and 5 here"):
        reproduce(squares(5, 30), tmp_path)
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 5


def test_without_matplotlib_all_but_the_plot_is_there(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    found = reproduce(squares(), tmp_path)
    assert found.picture is None
    assert found.claims[0].holds


def test_several_processes_give_the_same_rows(tmp_path, monkeypatch):
    asked = []

    def sent(self, run, many):  # real processes: tests/integrations/test_processes.py
        asked.append(self.workers)
        return (pickle.loads(pickle.dumps((run, one)))[0](one) for one in reversed([*many]))

    monkeypatch.setattr(WorkerProcesses, "__call__", sent)
    alone = reproduce(squares(), tmp_path / "one")
    assert reproduce(squares(), tmp_path / "two", workers=2).rows == alone.rows
    assert asked == [2]
    assert len(COUNTED) == 8


def test_steps_are_told(tmp_path):
    told = []
    reproduce(squares(), tmp_path, progress=lambda *step: told.append(step[1:]))
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_random_numbers_depend_on_the_task_alone():
    a, b = generator_of({"x": 1, "y": 2}), generator_of({"y": 2, "x": 1})
    assert a.initial_seed() == b.initial_seed() != generator_of({"x": 1, "y": 3}).initial_seed()


def test_every_figure_of_the_paper_is_there():
    names = {f.name.removeprefix("daneshmand2020/") for f in FIGURES}
    expected = {"fig1", "fig2", "fig3a", "fig3b", *(f"fig{i}" for i in range(4, 14))}
    assert expected <= names
    assert len(FIGURES) == len({f.name for f in FIGURES})


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.name)
def test_sizes_are_plain_and_tasks_differ(figure):
    for config in filter(None, (figure.usual, figure.quick, figure.full)):
        assert json.loads(json.dumps(dict(config))) == dict(config)
        found = [json.dumps(t, sort_keys=True) for t in figure.tasks(config)]
        assert len(found) == len(set(found)) > 0


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.name)
def test_the_work_of_every_figure_can_be_sent_to_another_process(figure):
    """Its claims and its plot stay here, and may be anything."""
    assert pickle.loads(pickle.dumps(figure.row)) == figure.row
