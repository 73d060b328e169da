import json

import torch
from torch.nn import functional as F

from sigmascope import networks, report, theory
from sigmascope.theory.landscape import Surface

D = torch.float64


def net_and_data():
    g = torch.Generator().manual_seed(0)
    net = networks.mlp(inputs=4, outputs=2, depth=2, width=6, generator=g)
    return net, torch.randn(9, 4, generator=g), torch.randint(2, (9,), generator=g)


def test_surfaces_and_lines_as_text_and_form():
    net, x, y = net_and_data()
    say = {"targets": y, "loss": F.cross_entropy}
    other = networks.mlp(inputs=4, outputs=2, depth=2, width=6).state_dict()
    plane = theory.landscape.loss_surface(net, x, points=5, **say)
    line = theory.landscape.loss_line(net, other, x, points=9, **say)
    found = (theory.landscape.landscape(net, x),)
    text = report.text(found[0], found[1:], scenery=theory.presentation.Scenery(surface=plane))
    assert "random direction, -1 to 1" in text
    assert "on the plane." in text
    text = report.text(found[0], found[1:], scenery=theory.presentation.Scenery(surface=line))
    assert "share of the way, -0.25 to 1.25" in text
    assert "on the line." in text
    form = report.json_form(
        found[0], found[1:], scenery=theory.presentation.Scenery(surface=plane)
    )["surface"]
    assert len(form["losses"]) == len(form["ys"]) == 5


def test_losses_that_overflow_are_counted():
    axis = torch.tensor([-1.0, 0.0, 1.0], dtype=D)
    losses = torch.ones(3, 3, dtype=D)
    losses[0, 0], losses[2, 2] = float("inf"), float("nan")
    surface = Surface("a plane", "a", "b", axis, axis, losses)
    found = (theory.landscape.landscape(*net_and_data()[:2]),)
    text = report.text(found[0], found[1:], scenery=theory.presentation.Scenery(surface=surface))
    assert "not finite at 2 of 9 points" in text
    form = report.json_form(
        found[0], found[1:], scenery=theory.presentation.Scenery(surface=surface)
    )
    assert json.loads(json.dumps(form, allow_nan=False))["surface"]["losses"][0][0] == "Infinity"


def test_regions_as_text_and_form():
    net, x, _ = net_and_data()
    regions = theory.landscape.input_regions(net, x)
    found = (theory.landscape.landscape(net, x),)
    many = len(regions.partition.polygons)
    text = report.text(found[0], found[1:], scenery=theory.presentation.Scenery(regions=regions))
    assert f"meets {many} regions" in " ".join(text.split())
    form = report.json_form(
        found[0], found[1:], scenery=theory.presentation.Scenery(regions=regions)
    )["regions"]
    assert len(form["polygons"]) == len(form["classes"]) == many
    assert len(form["cuts"]) == len(form["by"])
    json.dumps(form, allow_nan=False)
