import json

import pytest
import torch
from torch import nn

from sigmascope import report
from sigmascope.diagnosis.compression import compression


@pytest.fixture(scope="module")
def found():
    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 40))
    with torch.no_grad():
        u, v = torch.randn(40, 2, generator=g), torch.randn(2, 40, generator=g)
        model[2].weight.copy_(u @ v / 6)
    return compression(model, torch.randn(200, 12, generator=g), tolerance=0.05)


def test_layers_and_then_the_code_that_makes_them(found):
    said = report.text(found, width=60)
    assert "output changes" in said or "output" in said
    patch = found.patch()
    assert patch
    assert said.rstrip().endswith(patch.splitlines()[-1])


def test_nothing_to_compress_has_no_code():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4))
    found = compression(model, torch.randn(64, 4), tolerance=1e-6)
    assert "Linear(" not in report.text(found)


def test_the_form_has_the_code_in_lines_and_no_model(found):
    form = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert form["patch"] == found.patch().splitlines()
    assert "model" not in form
    assert form["layers"][0]["rank"] == found.layers[0].rank
    assert set(form["layers"][0]["change"]) == {"value", "low", "high", "how", "risk"}
