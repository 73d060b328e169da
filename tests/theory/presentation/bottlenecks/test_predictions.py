import json

import pytest
import torch

from sigmascope import report, theory


@pytest.fixture(scope="module")
def found():
    return theory.bottleneck.predict(8, 400, layers=200, generator=torch.Generator().manual_seed(0))


def test_the_text_answers_first(found):
    lines = report.text(found, width=100).splitlines()
    assert lines[0] == (
        "Random linear layers of width 8, depth 400, no skip connections, gaussian weights."
    )
    assert lines[2].startswith("Without normalisation: collapses.")
    assert any(line.startswith("With batch normalisation: ") for line in lines)
    assert max(map(len, lines)) <= 100


def test_the_form_is_strict_json(found):
    form = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert form["schema"] == "sigmascope/prediction/1"
    assert form["gamma"] is None
    assert form["collapse_depth"]["value"] == found.collapse.value
    assert len(form["checks"]) == len(found.checks)
