import json

import pytest

from sigmascope import report
from sigmascope.theory.bottleneck import Trained, read_sweep


def trained(depth, ridge=0.001, fits=True):
    return Trained(
        depth, ridge, 0, 1e-3, 2.0 * depth, (2, 2, 3), (2, 2, 2), 1.5, fits, ((0.0, 1.0),)
    )


@pytest.fixture
def sweep():
    return read_sweep([trained(4), trained(8), trained(12, fits=False)])


def test_a_row_a_network_under_the_verdict(sweep):
    said = report.text(sweep)
    assert " ".join(said.split()).startswith(" ".join(sweep.says.split())[:60])
    assert "does not fit" in said
    assert "2 [2, 3]" in said
    assert "ridge" not in said.splitlines()[3]


def test_penalties_have_a_column_where_there_are_several():
    said = report.text(read_sweep([trained(4), trained(4, ridge=0.01)]))
    assert "ridge" in said


def test_the_form_has_every_field_of_every_network(sweep):
    form = json.loads(json.dumps(report.json_form(sweep), allow_nan=False))
    assert form["schema"] == "sigmascope/sweep/1"
    assert [n["depth"] for n in form["networks"]] == [4, 8, 12]
    assert form["networks"][0]["kind"] == sweep.networks[0].kind
    assert form["networks"][0]["coordinates"] == [[0.0, 1.0]]
    assert form["segments"][0]["slope"].keys() >= {"value", "low", "high"}
