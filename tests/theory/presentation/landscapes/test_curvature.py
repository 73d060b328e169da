import json
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from sigmascope import networks, report, theory
from sigmascope.probes.curvature import SelfCheck


@pytest.fixture(scope="module")
def parts():
    g = torch.Generator().manual_seed(0)
    net = networks.mlp(inputs=6, outputs=3, depth=3, width=12, generator=g).double()
    x, y = torch.randn(30, 6, generator=g), torch.randint(3, (30,), generator=g)
    say = {"targets": y, "loss": F.cross_entropy, "generator": g}
    layers = ["hidden.0.linear", "hidden.1.linear", "readout"]
    found = (theory.landscape.landscape(net, x),)
    return (
        found,
        theory.landscape.curvature(net, x, **say),
        theory.landscape.curvature(net, x, layers=layers, **say),
    )


def test_the_text_has_every_number_and_the_learning_rate(parts):
    found, whole, each = parts
    text = report.text(
        found[0], found[1:], scenery=theory.presentation.Scenery(whole), loss="cross-entropy"
    )
    assert "Hessian of cross-entropy" in text
    assert "(all layers)" in text
    assert "diverges above a learning rate of" in text
    assert "agree with finite differences" in text
    assert "±" in text  # sampled
    text = report.text(found[0], found[1:], scenery=theory.presentation.Scenery(each))
    assert all(layer in text for layer in ("hidden.1.linear", "readout"))
    assert text.count("%") >= 6


def test_a_doubtful_second_derivative_is_said(parts):
    found, whole, _ = parts
    doubtful = theory.landscape.Bends(whole.kind, whole.parts, SelfCheck(0.3, 1e-5))
    text = report.text(found[0], found[1:], scenery=theory.presentation.Scenery(doubtful))
    assert "differ from finite differences by 3e-01" in text


def test_the_form_is_strict_json_with_the_distribution(parts):
    found, whole, _ = parts
    form = report.json_form(found[0], found[1:], scenery=theory.presentation.Scenery(whole))
    read = json.loads(json.dumps(form, allow_nan=False))["curvature"]
    part = read["parts"][0]
    assert read["kind"] == "hessian"
    density = part["density"]
    assert density["at"] == sorted(density["at"])
    for low, value, high in zip(density["low"], density["below"], density["high"], strict=True):
        assert 0 <= low <= value <= high <= 1
    assert density["below"][-1] == pytest.approx(1)
    assert read["check"]["gap"] < 1e-6


def test_the_sharpest_part_bounds_the_learning_rate(parts):
    found, _, each = parts
    top, site = max((p.top.value, p.site) for p in each.parts)
    text = " ".join(report.text(found[0], scenery=theory.presentation.Scenery(each)).split())
    assert f"learning rate of {2 / top:.4g} (2 over the largest eigenvalue, {site})" in text


def test_what_was_not_asked_for_is_not_told(parts):
    found, whole, _ = parts
    bare = replace(whole.parts[0], top=None, bottom=None, density=None, upwards=None)
    text = report.text(
        found[0], scenery=theory.presentation.Scenery(replace(whole, parts=(bare,), check=None))
    )
    told = text[text.index("Hessian of") :]
    assert "learning rate" not in told
    assert "up, down: share" not in told
    assert "Second derivatives were not checked" in told
