import json

import torch

from sigmascope import report, theory
from tests.theory.landscape.conditioning.test_layer_conditioning import data, net


def found():
    return theory.landscape.what_if(net(), data()[0], skip="hidden.2", rhos=[0, 1.0])


def test_the_text_shows_every_layer_and_every_variant():
    text = report.text(found()[0], found()[1:])
    assert "under squared error, as it is" in text
    for layer in found()[0].layers:
        assert text.count(f"\n{layer.site} ") == 2
    assert "skip 1 around hidden.2" in text
    assert "Learning is worst conditioned in" in text
    assert "worst layer is best conditioned with" in text or "None of the variants" in text


def test_the_loss_that_was_taken_is_named():
    x, y = data()
    loss = torch.nn.functional.cross_entropy
    only = theory.landscape.landscape(net(), x, targets=y, loss=loss)
    assert "under cross_entropy, as it is" in report.text(only)
    assert report.json_form(only)["loss"] == "cross_entropy"
    bends = theory.landscape.curvature(net(), x, targets=y, loss=lambda out, y: loss(out, y))
    assert "Hessian of the loss given" in report.text(bends)


def test_one_variant_has_no_comparison_and_says_what_is_left_out():
    only = theory.landscape.landscape(
        net(), data()[0], targets=data()[1], loss=lambda out, _: out.sum()
    )
    text = report.text(only, loss="cross-entropy")
    assert "under cross-entropy" in text
    assert "What it would be" not in text
    assert "No layer of this model" in text
    assert "hidden.0.linear: the loss is flat in its weights, up to rounding" in text


def test_the_form_is_strict_json():
    form = json.loads(json.dumps(report.json_form(found()[0], found()[1:]), allow_nan=False))
    assert form["schema"] == "sigmascope/landscape/1"
    assert [v["rho"] for v in form["variants"]] == [0, 1]
    layer = form["variants"][0]["layers"][0]
    assert set(layer) == {
        "site", "floor", "condition", "layer_factor", "data_factor", "top", "step_limit", "flat",
        "rate", "axes",
    }  # fmt: skip
    assert layer["condition"]["value"] > 1
