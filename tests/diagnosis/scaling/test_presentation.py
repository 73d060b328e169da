"""How what scales with width is shown."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope import report
from sigmascope.diagnosis.scaling import widths
from sigmascope.diagnosis.scaling.rates import best_rate
from tests.diagnosis.scaling.test_depth import Net


@pytest.fixture(scope="module")
def found():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 16, generator=g)
    y = (x @ torch.randn(16, 5, generator=g)).argmax(1)
    make = lambda n: nn.Sequential(
        nn.Linear(16, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, 5)
    )
    return widths(make, (32, 64, 128, 256), (x, y), lr=1e-3, steps=1, batch_size=64, cure=True)


def test_the_text_has_each_weight_with_its_verdict_who_is_in_the_way_and_the_cure(found):
    text = report.text(found, width=100)
    assert max(map(len, text.splitlines())) <= 100
    for weight in found.weights:
        (line,) = [t for t in text.splitlines() if t.startswith(weight.name) and "[" in t and
                   weight.kind in t]  # fmt: skip
        assert line.rstrip().endswith(weight.verdict)
    for obstacle in found.obstacles:
        assert obstacle.cure in text
    assert found.code in text
    assert repr(found)


def test_json_is_strict_and_has_all_of_it(found):
    form = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert form["schema"] == "sigmascope/widths/1"
    assert [w["name"] for w in form["weights"]] == [w.name for w in found.weights]
    law = form["weights"][0]["laws"]["effect"]["exponent"]
    assert law["low"] <= law["value"] <= law["high"]
    assert [w["verdict"] for w in form["after"]] == [w.verdict for w in found.after]
    assert set(form["losses"]) == {"32", "64", "128", "256"}


def test_rows_and_a_figure(found):
    table = report.table(found)
    assert len({len(column) for column in table.values()}) == 1
    assert table["verdict"] == [w.verdict for w in found.weights]
    assert table["effect"][0] == found.weights[0].laws["effect"].exponent.value
    pytest.importorskip("matplotlib")
    over_width, exponents = found.plot().axes
    lines = [line for line in over_width.lines if len(line.get_xdata())]
    assert len(lines) == len(found.weights)
    steepest = max(found.weights, key=lambda w: w.laws["effect"].exponent.value)
    most = max(line.get_ydata()[-1] for line in lines)
    assert most == pytest.approx(max(w.curve[-1] / w.curve[0] for w in found.weights))
    assert steepest.curve[-1] > 2 * steepest.curve[0]
    assert [t.get_text() for t in exponents.get_yticklabels()] == [w.name for w in found.weights]
    assert "power of width" in exponents.get_xlabel()


@pytest.mark.parametrize(
    ("by", "seeds", "says"),
    [(1.0, 3, "; it stays"), (8.0, 3, "; it moves, by a factor 8 "),
     (0.125, 3, "; it moves, by a factor 0.12 "), (1.9, 3, "is not told"), (0.55, 3, "is not told"),
     (1.5, 1, "is not told"), (0.7, 1, "is not told")],
)  # fmt: skip
def test_a_best_rate_stays_or_moves_or_that_is_not_told(found, by, seeds, says):
    small, large = (
        best_rate(n, lambda f, _, at=at: 1 + math.log2(f / at) ** 2, seeds)
        for n, at in ((32, 1.0), (256, 1 / by))
    )
    (line,) = (
        text
        for text in report.text(replace(found, best=(small, large)), width=1000).splitlines()
        if "as it is:" in text
    )
    told = ("; it stays", "; it moves", "is not told")
    assert says in line
    assert sum(word in line for word in told) == 1


@pytest.fixture(scope="module")
def deep():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 16, generator=g)
    y = (x @ torch.randn(16, 5, generator=g)).argmax(1)
    how = {"data": (x, y), "depths": (2, 4, 8), "steps": 1, "seeds": 2, "batch_size": 64}
    return widths(Net, **how, lr=1e-3)


def test_what_is_said_of_depth_is_said_in_its_words(deep):
    text = report.text(deep, width=100)
    assert "depth 2 holds at depth 8" in text
    assert "width" not in text
    ranks = deep.beside["rank of the last representation"]
    assert all(f"{rank:.3g}" in text for rank in ranks)
    form = json.loads(json.dumps(report.json_form(deep), allow_nan=False))
    assert form["axis"] == "depth"
    assert form["beside"]["rank of the last representation"] == list(ranks)


@pytest.mark.parametrize("count", [7, 8, 9, 30])
def test_eight_obstacles_are_listed_the_largest_first_and_the_others_counted(found, count):
    one = found.obstacles[0]
    many = tuple(
        replace(one, name=f"w{i}", says=f"w{i}: it is off", cure=f"Turn knob {i}.")
        for i in range(count)
    )
    text = report.text(replace(found, obstacles=many), width=100)
    shown = [i for i in range(count) if f"Turn knob {i}." in text]
    assert shown == [*range(min(count, 8))]
    assert (f"{count - 8} more" in text) is (count > 8)
    assert [f"{i + 1}  w{i}: it is off." in text for i in shown] == [True] * len(shown)


def test_what_is_true_of_several_weights_is_said_once(found):
    rows = [
        line
        for line in report.text(found, width=100).splitlines()
        if "its learning rate is" in line
    ]
    assert len(rows) == len({o.cure for o in found.obstacles if o.cause == "rate"})
