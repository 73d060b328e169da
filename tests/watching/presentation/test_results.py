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


@pytest.mark.parametrize(("length", "cut"), [(36, False), (37, True)])
def test_names_of_layers_are_given_their_columns(tmp_path, length, cut):
    site = "x" * (length - 3) + "end"
    for i, value in enumerate((1.0, 9.0)):
        with Run(tmp_path / f"{i}.run") as run:
            for step in range(20):
                run.add(step=step, readings=[Reading(site, "gradient norm", Estimate.exactly(value),
                                                     "watch")])  # fmt: skip
    first, second = (Run(tmp_path / f"{i}.run", write=False) for i in range(2))
    text = report.text(part(first, second), width=160).partition("In order")[2]
    text = text.partition("Last loss")[0]
    assert (site not in text) is cut
    assert ("…" in text) is cut


@pytest.mark.parametrize(
    ("first", "second", "differ"), [(1.0, 1.5, True), (1.0, 1.05, False), (None, 2.0, False)]
)
def test_last_losses_differ_by_more_than_a_tenth(tmp_path, first, second, differ):
    for i, last in enumerate((first, second)):
        with Run(tmp_path / f"{i}.run") as run:
            for step, loss in enumerate((6.0, 5.0, last)):
                if last is not None:
                    run.add(
                        step=step, readings=[Reading(LOSS, "loss", Estimate.exactly(loss), "watch")]
                    )
                same = Reading("fc", "gradient norm", Estimate.exactly(1.0), "watch")
                run.add(step=step, readings=[same])
    runs = [Run(tmp_path / f"{i}.run", write=False) for i in range(2)]
    assert report.text(part(*runs)).startswith("Their last losses differ") is differ


@pytest.mark.parametrize(("count", "more"), [(12, False), (13, True)])
def test_twelve_rows_are_listed_unless_all_are_wanted(tmp_path, count, more):
    for i in range(2):
        with Run(tmp_path / f"{i}.run") as run:
            run.add(step=0, about={f"option {k:02}": str(i) for k in range(count)})
    found = part(*(Run(tmp_path / f"{i}.run", write=False) for i in range(2)))
    text = report.text(found)
    assert text.count("option ") == 12
    assert ("… 1 more (--whole lists them)" in text) is more
    assert report.text(found, whole=True).count("option ") == count
