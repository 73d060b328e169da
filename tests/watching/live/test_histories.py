"""Rows of a run file as columns, thinned to what a screen shows."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from sigmascope.store import Run, since
from sigmascope.watching.live import LEAST, MOST, POINTS, History, Panel, names, thinned
from tests.runs_made import SITES, made, reading, spectrum


def told(path):
    found = History(path.name)
    found.take(since(path))
    return found


def doubles(text):
    return np.frombuffer(base64.b64decode(text), "<f8")


def places(text, count):
    raw = base64.b64decode(text)
    return np.frombuffer(raw, "<u2" if len(raw) == 2 * count else "<u4")


def unpacked(form):
    """Rows of series, step and value."""
    n = form["count"]
    steps = doubles(form["grid"])[places(form["at"], n)]
    values = np.frombuffer(base64.b64decode(form["value"]), "<f4")
    return list(
        zip(places(form["series"], n).tolist(), steps.tolist(), values.tolist(), strict=True)
    )


def test_a_state_says_what_there_is(tmp_path):
    found = told(made(tmp_path / "a.run"))
    state = json.loads(json.dumps(found.state(), allow_nan=False))
    assert (state["name"], state["step"]) == ("a.run", 59)
    assert state["about"] == {"optimizer": "AdamW"}
    panels = {p["quantity"]: p["rows"] for p in state["panels"]}
    assert panels == {"loss": 60, "gradient norm": 60 * len(SITES), "watched share": 60}
    assert [state["ranks"][state["sites"].index(s)] for s in SITES] == [*range(len(SITES))]
    assert [(a["site"], a["begin"], a["end"]) for a in state["alarms"]] == [
        (SITES[1], 20, 30),
        (SITES[4], 40, None),
    ]
    assert state["alarms"][1]["evidence"][0]["quantity"] == "gradient norm"
    (gradients,) = [p for p in state["panels"] if p["quantity"] == "gradient norm"]
    assert gradients["log"]
    assert state["first"] == gradients["key"]
    assert [s["rows"] for s in state["spectra"]] == [4, 4]
    assert [row[0] for row in found.scrubbed(0)] == [0, 16, 32, 48]


def test_what_is_told_of_a_run_stays_while_the_run_goes_on(tmp_path):
    found = told(made(tmp_path / "a.run"))
    said = found.told(note="n")
    assert (said.name, said.step, said.note, said.places) == ("a.run", 59, "n", len(SITES))
    assert said.layers
    assert said.loss is not None
    assert said.loss[0] == 59
    assert [s.finding.site for s in said.alarms] == [SITES[1], SITES[4]]
    assert list(said.panels.values()) == ["loss", "gradient norm", "watched share"]
    assert [site for site, _ in said.spectra.values()] == [*SITES[:2]]
    found.about["more"], found.skipped["fc", "rank", "why"] = "yes", 3
    assert "more" not in said.about
    assert not said.skipped


def test_panels_of_one_quantity_are_told_apart(tmp_path):
    path = tmp_path / "a.run"
    with Run(path) as run:
        rows = [reading("(loss)", "loss", 1.0), reading("(loss)", "loss", 1.1, "mean of steps")]
        run.add(step=0, readings=rows)
    state = told(path).state()
    assert [p["title"] for p in state["panels"]] == ["loss", "loss (mean of steps)"]
    assert state["first"] in [p["key"] for p in state["panels"]]


def test_what_is_new_comes_alone(tmp_path):
    path = made(tmp_path / "a.run", 5)
    found = told(path)
    place = [p["quantity"] for p in found.state()["panels"]].index("loss")
    first = unpacked(found.numbers(place))
    assert [step for _, step, _ in first] == [0, 1, 2, 3, 4]
    mark = since(path).mark
    with Run(path) as run:
        run.add(step=9, readings=[reading("(loss)", "loss", 0.25)])
    found.take(since(path, mark))
    form = found.numbers(place, 5)
    assert (form["after"], form["rows"]) == (5, 6)
    assert unpacked(form) == [(found.sites["(loss)"], 9.0, 0.25)]
    assert found.numbers(place, 6)["count"] == 0


def test_steps_filed_again_after_a_restart_count_once(tmp_path):
    path = tmp_path / "a.run"
    with Run(path) as run:
        for step, value in ((0, 1.0), (5, 2.0), (10, 3.0), (5, 7.0), (12, 8.0)):
            row = [reading("fc", "gradient norm", value)]
            run.add(step=step, readings=row, spectra=[spectrum("fc", step)])
    found = told(path)
    assert unpacked(found.numbers(0)) == [(0, 0, 1), (0, 5, 7), (0, 10, 3), (0, 12, 8)]
    assert [row[0] for row in found.scrubbed(0)] == [0, 5, 12]


def test_many_readings_are_thinned_and_extremes_stay():
    panel, rng = Panel(), np.random.default_rng(0)
    values = rng.standard_normal((3, 50_000))
    values[1, 31_234], values[2, 77] = 99.0, -99.0
    for step in range(50_000):
        for site in range(3):
            panel.add(site, step, (values[site, step],) * 3)
    rows = unpacked(panel.form())
    assert len(rows) <= 3 * (MOST + 4)
    assert (1, 31_234.0, 99.0) in rows
    assert (2, 77.0, -99.0) in rows
    for site in range(3):
        own = [row for row in rows if row[0] == site]
        assert [own[0][1], own[-1][1]] == [0, 49_999]
        assert [step for _, step, _ in own] == sorted({step for _, step, _ in own})


def test_many_layers_share_what_a_screen_draws():
    panel = Panel()
    for step in range(500):
        for site in range(400):
            panel.add(site, step, (float(step),) * 3)
    assert panel.form()["count"] <= 400 * (max(LEAST, POINTS // 400) + 4)


@pytest.mark.parametrize("most", [1, 2, 7, 100])
def test_thinning_keeps_the_order_and_the_ends_at_any_size(most):
    rng = np.random.default_rng(1)
    series = rng.integers(0, 4, 300).astype(np.uint32)
    steps, values = rng.integers(0, 60, 300).astype(float), rng.standard_normal(300)
    kept = thinned(series, steps, values, most)
    pairs = [(series[i], steps[i]) for i in kept]
    assert pairs == sorted({*pairs})
    for s in range(4):
        last = {step: i for i, step in enumerate(steps) if series[i] == s}
        own = [i for i in kept if series[i] == s]
        assert {*own} <= {*last.values()}
        assert {min(last), max(last)} <= {steps[i] for i in own}
        assert max(values[i] for i in own) == max(values[i] for i in last.values())
    assert len(thinned(series[:0], steps[:0], values[:0], most)) == 0


def test_intervals_and_infinities_come_through():
    panel = Panel()
    panel.add(0, 1, (2.0, 1.0, 3.0))
    panel.add(0, 2, (float("inf"),) * 3)
    form = json.loads(json.dumps(panel.form(), allow_nan=False))
    assert "gaps" in form
    assert form["odd"]["1"][0] == "Infinity"


def test_files_of_one_name_are_called_by_their_paths():
    a, b = Path("x/a.run"), Path("y/a.run")
    assert names([a, b]) == [str(a), str(b)]
    assert names([a, Path("b.run")]) == ["a.run", "b.run"]
