"""How two runs side by side look, as text, JSON and rows."""

import json

import pytest

from sigmascope import report
from sigmascope.core.records import Estimate, Reading
from sigmascope.core.store import Run
from sigmascope.watching import LOSS, part
from tests.runs_made import SITES, made


@pytest.fixture(scope="module")
def parting(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    made(home / "a.run", 90)
    made(home / "b.run", 35, {"lr": "0.1"}, apart=12, sites=(*SITES[:5], "head"))

    def of(first, second):
        with Run(home / first, write=False) as a, Run(home / second, write=False) as b:
            return part(a, b)

    return of


def test_where_runs_part_comes_first_and_in_the_order_of_steps(parting):
    found = parting("a.run", "b.run")
    lines = report.text(found).splitlines()
    first = found.parted[0]
    assert lines[0].startswith(f"They part at step {first.step}: gradient norm at {first.site} is")
    assert any(line.startswith("first: ") for line in lines)
    text = " ".join("\n".join(lines).split())
    assert first.seen > first.step
    assert f" at step {first.seen}, by which it is sure. " in text
    assert "it counts above" in text
    assert "Settings that differ" in text
    assert "Only in" in text
    assert "alarms" in text
    assert f"step 40 warning gradient-growth {SITES[4]}" in text
    assert "of step 89" in text


def test_what_cannot_be_compared_is_said(parting):
    text = " ".join(report.text(parting("a.run", "b.run")).split())
    assert f"a.run: {SITES[5]}." in text
    assert "b.run: head." in text


def test_runs_that_are_the_same_are_said_to_be(parting):
    text = report.text(parting("a.run", "a.run"))
    assert text.startswith("They do not part")
    assert "bit for bit the same until step 89, the last." in text
    assert "In order" not in text


def test_runs_without_anything_in_common_are_said_to_have_none(parting, tmp_path):
    Run(tmp_path / "none.run").close()
    with Run(tmp_path / "none.run", write=False) as run:
        text = report.text(part(run, run))
    assert text.startswith("The runs have no reading of the same quantity at the same place.")
    assert "none was read" in text


def test_losses_that_end_apart_are_not_said_not_to_part(tmp_path):
    for i, ends in enumerate((4.0, 2.0)):
        with Run(tmp_path / f"{i}.run") as run:
            for step, loss in enumerate((6.0, 5.0, ends)):
                reading = Reading(LOSS, "loss", Estimate.exactly(loss), "watch")
                run.add(step=step, readings=[reading])
    runs = [Run(tmp_path / f"{i}.run", write=False) for i in range(2)]
    assert report.text(part(*runs)).startswith("Their last losses differ, and where they part")


def test_one_reading_is_no_variation(tmp_path):
    runs = [Run(made(tmp_path / f"{i}.run", 1, seed=i), write=False) for i in range(2)]
    text = " ".join(report.text(part(*runs)).split())
    assert "have fewer than two readings in common" in text


def test_the_form_and_the_table_have_every_trajectory(parting):
    found = parting("a.run", "b.run")
    form = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert next(iter(form)) == "schema"
    assert len(form["parted"]) == len(found.parted)
    assert set(form["differing"][0]) == {"site", "view", "form", "quantity"}
    assert len(report.table(found)["site"]) == len(found.parted)
