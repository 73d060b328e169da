import pytest

from sigmascope import report
from sigmascope.theory import riedi2022

WANTED = {"units": 64, "condition": 3.0, "probability": 0.95}


@pytest.fixture
def limits():
    return riedi2022.random_weights.weight_scale(64, condition=3.0)


def test_three_limits_and_the_usual_initialisations(limits):
    said = report.text(limits, **WANTED)
    assert "64 units keeps its condition number below 3" in said
    assert "with a chance of 0.95" in said
    assert said.count("surely") == 2
    assert all(name in said for name in ("PyTorch's default", "Xavier's", "He's"))


def test_the_form_has_the_limits(limits):
    form = report.json_form(limits)
    assert form == {
        "schema": "sigmascope/scale/1",
        "std": limits.std,
        "entry": limits.entry,
        "norm": limits.norm,
        "how": limits.how,
    }
