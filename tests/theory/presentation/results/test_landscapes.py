import json
import math
import re
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from sigmascope import report
from sigmascope.core.records import Estimate
from sigmascope.models.curvature import SelfCheck
from sigmascope.theory import landscape, riedi2022
from sigmascope.theory.landscape import Surface
from sigmascope.theory.presentation import Scenery
from sigmascope.theory.presentation.results import thinned
from tests.theory.landscape.test_conditioning import data, net

HEAD, POINTS = 64, 200

X, Y = data()
SAY = {"targets": Y, "loss": F.cross_entropy}


def through_json(found, *variants, **beside):
    return json.loads(json.dumps(report.json_form(found, *variants, **beside), allow_nan=False))


@pytest.fixture(scope="module")
def plain():
    return landscape.landscape(net(), X)


@pytest.fixture(scope="module")
def whole():
    g = torch.Generator().manual_seed(0)
    return landscape.curvature(net(width=12), X, generator=g, **SAY)


@pytest.fixture(scope="module")
def each():
    layers = ["hidden.0.linear", "hidden.1.linear", "readout"]
    return landscape.curvature(net(), X, layers=layers, **SAY)


def test_the_text_has_every_number_and_the_learning_rate(plain, whole, each):
    text = report.text(plain, scenery=Scenery(whole), loss="cross-entropy")
    assert "Hessian of cross-entropy" in text
    assert "(all layers)" in text
    assert "agree with finite differences" in text
    assert "±" in text  # sampled
    text = " ".join(report.text(plain, scenery=Scenery(each)).split())
    assert all(part.site in text for part in each.parts)
    assert text.count("%") >= 6
    top, site = max((p.top.value, p.site) for p in each.parts)
    assert (
        f"diverges above a learning rate of {2 / top:.4g} (2 over the largest eigenvalue, {site})"
        in text
    )


@pytest.mark.parametrize("turned", [False, True])
def test_the_worst_layer_and_the_one_that_diverges_first_are_named(plain, turned):
    """Of two layers the one is worse conditioned, the other lets the rate be less."""
    flat, steep = (
        replace(plain.layers[0], site=site, condition=k, step_limit=s)
        for site, k, s in (
            ("flat", Estimate.exactly(7.0), Estimate.exactly(0.5)),
            ("steep", Estimate.exactly(3.0), Estimate.exactly(0.25)),
        )
    )
    found = replace(plain, layers=(steep, flat) if turned else (flat, steep))
    text = " ".join(report.text(found).split())
    assert "worst conditioned in flat: κ = 7." in text
    assert "diverges above a learning rate of 0.25, in steep first" in text


def test_a_doubtful_second_derivative_is_said(plain, whole):
    doubtful = replace(whole, check=SelfCheck(0.3, 1e-5))
    text = " ".join(report.text(plain, scenery=Scenery(doubtful)).split())
    assert "differ from finite differences by 3e-01" in text


def test_what_was_not_asked_for_is_not_told(plain, whole):
    bare = replace(whole.parts[0], top=None, bottom=None, density=None, upwards=None)
    text = report.text(plain, scenery=Scenery(replace(whole, parts=(bare,), check=None)))
    told = text[text.index("Hessian of") :]
    assert "learning rate" not in told
    assert "up, down: share" not in told
    assert "Second derivatives were not checked" in told


def test_the_form_is_strict_json_with_the_distribution(plain, whole):
    read = through_json(plain, scenery=Scenery(whole))["curvature"]
    assert read["kind"] == "hessian"
    density = read["parts"][0]["density"]
    assert density["at"] == sorted(density["at"])
    for low, value, high in zip(density["low"], density["below"], density["high"], strict=True):
        assert 0 <= low <= value <= high <= 1
    assert density["below"][-1] == pytest.approx(1)
    assert read["check"]["gap"] < 1e-6


def test_a_landscape_has_its_variants_and_nothing_that_was_not_looked_at(plain):
    form = through_json(plain, (plain,))
    assert form["schema"] == "sigmascope/landscape/1"
    assert form["loss"] == "squared error"
    assert [form[k] for k in ("curvature", "surface", "regions")] == [None] * 3
    first, second = form["variants"]
    assert first == second
    assert [layer["site"] for layer in first["layers"]] == [s.site for s in plain.layers]
    assert set(first["layers"][0]) == {
        "site", "floor", "condition", "layer_factor", "data_factor", "top", "step_limit", "flat",
        "rate", "axes",
    }  # fmt: skip
    assert first["layers"][0]["condition"]["value"] == plain.layers[0].condition.value > 1


def test_what_is_seen_beside_it_is_in_it(plain, whole):
    surface = landscape.loss_surface(net(), X, points=5, **SAY)
    regions = landscape.input_regions(net(), X)
    form = through_json(plain, scenery=Scenery(whole, surface, regions), loss="cross-entropy")
    assert form["loss"] == "cross-entropy"
    assert form["curvature"] == through_json(whole)
    assert form["surface"] == through_json(surface)
    assert len(form["surface"]["losses"]) == len(form["surface"]["ys"]) == 5
    many = len(regions.partition.polygons)
    assert len(form["regions"]["classes"]) == len(form["regions"]["polygons"]) == many
    assert set(form["regions"]["classes"]) <= {0, 1, 2}
    assert len(form["regions"]["cuts"]) == len(form["regions"]["by"])
    assert all(len(corners) % 2 == 0 for corners in form["regions"]["polygons"])
    text = " ".join(report.text(plain, scenery=Scenery(regions=regions)).split())
    assert f"meets {many} regions" in text


def test_the_text_shows_every_layer_and_every_variant():
    found = landscape.what_if(net(), X, skip="hidden.2", rhos=[0, 1.0])
    text = report.text(found[0], found[1:])
    assert "under squared error, as it is" in text
    for layer in found[0].layers:
        assert text.count(f"\n{layer.site} ") == 2
    assert "skip 1 around hidden.2" in text
    assert "Learning is worst conditioned in" in text
    assert "worst layer is best conditioned with" in text or "None of the variants" in text
    assert [v["rho"] for v in through_json(found[0], found[1:])["variants"]] == [0, 1]


def test_the_loss_that_was_taken_is_named():
    only = landscape.landscape(net(), X, **SAY)
    assert "under cross_entropy, as it is" in report.text(only)
    assert report.json_form(only)["loss"] == "cross_entropy"
    own = lambda out, y: F.cross_entropy(out, y)
    bends = landscape.curvature(net(), X, targets=Y, loss=own)
    assert "Hessian of the loss given" in report.text(bends)


def test_one_variant_has_no_comparison_and_says_what_is_left_out():
    only = landscape.landscape(net(), X, targets=Y, loss=lambda out, _: out.sum())
    text = report.text(only, loss="cross-entropy")
    assert "under cross-entropy" in text
    assert "What it would be" not in text
    assert "No layer could be measured" in text
    assert "step limit" not in text  # no head of an empty table
    assert "hidden.0.linear: the loss is flat in its weights, up to rounding" in text


def test_three_limits_and_the_usual_initialisations():
    limits = riedi2022.random_weights.weight_scale(64, condition=3.0)
    said = report.text(limits, units=64, condition=3.0, probability=0.95)
    assert "64 units keeps its condition number below 3" in said
    assert "with a chance of 0.95" in said
    assert said.count("surely") == 2
    usual = {"PyTorch's default": 1 / 192**0.5, "Xavier's": 1 / 8, "He's": 2**0.5 / 8}
    told = " ".join(said.split())
    for name, std in usual.items():
        (times,) = re.findall(rf"{name} ([\d.e+-]+\d)", told)
        assert float(times) == pytest.approx(std / limits.std, rel=0.06)
    names = ("std", "entry", "norm", "how")
    expected = {"schema": "sigmascope/scale/1", **{n: getattr(limits, n) for n in names}}
    assert report.json_form(limits) == expected


def test_surfaces_and_lines_as_text(plain):
    plane = landscape.loss_surface(net(), X, points=5, **SAY)
    line = landscape.loss_line(net(), net(seed=1).state_dict(), X, points=9, **SAY)
    text = report.text(plain, scenery=Scenery(surface=plane))
    assert "random direction, -1 to 1" in text
    assert "on the plane." in text
    text = report.text(plain, scenery=Scenery(surface=line))
    assert "share of the way, -0.25 to 1.25" in text
    assert "on the line." in text


def test_losses_that_overflow_are_counted(plain):
    axis, losses = torch.linspace(-1, 1, 3).double(), torch.ones(3, 3).double()
    losses[0, 0], losses[2, 2] = float("inf"), float("nan")
    seen = Scenery(surface=Surface("a plane", "a", "b", axis, axis, losses))
    assert "not finite at 2 of 9 points" in report.text(plain, scenery=seen)
    assert through_json(plain, scenery=seen)["surface"]["losses"][0][0] == "Infinity"


@pytest.mark.parametrize("count", [1, POINTS, POINTS + 1, 5000])
def test_thinned_values_keep_their_ends_and_the_first_ones(count):
    found = thinned([float(count - i) for i in range(count)])
    assert found["count"] == count
    assert len(found["at"]) == min(count, POINTS)
    assert (found["at"][0], found["at"][-1]) == (1, count)
    assert found["at"][:HEAD] == [i + 1 for i in range(min(HEAD, count))]


def test_thinned_values_are_strict_json():
    assert thinned([math.inf, 0.0]) == {
        "count": 2, "zeros": 1, "at": [1, 2], "sigma": ["Infinity", 0.0]
    }  # fmt: skip
