import json

import pytest
import torch
from torch.nn import functional as F

from sigmascope import diagnosis, networks, report, sources


@pytest.fixture(scope="module")
def treatment():
    data = sources.open_data("digits", samples=16)
    g = torch.Generator().manual_seed(0)
    model = networks.mlp(inputs=64, outputs=10, depth=12, width=16, generator=g)
    remedy = diagnosis.remedies.BatchNormalisation()
    return diagnosis.treat(model, data.inputs, remedy, targets=data.targets, loss=F.cross_entropy)


def test_findings_and_curves_of_both(treatment):
    text = report.text(treatment, width=100)
    assert "rank-collapse" in text
    assert "→  cured" in text
    assert "Probability that plain training fits: 0." in text
    assert max(map(len, text.splitlines())) <= 100
    ends = [line for line in text.splitlines() if line.startswith("participation ratio")]
    assert "last   1 → " in ends[0]


def test_the_list_names_what_does_not_apply(treatment):
    text = report.text(
        diagnosis.presentation.RemedyTrials((treatment,), {"x": "It needs y."}), width=80
    )
    assert "Not applicable" in text
    assert "It needs y." in text


def test_forms_are_strict_json(treatment):
    form = report.json_form(diagnosis.presentation.RemedyTrials((treatment,), {"x": "It needs y."}))
    again = json.loads(json.dumps(form, allow_nan=False))
    assert again["treatments"][0]["remedy"] == "batch-norm"
    assert again["normalisation"] is None
