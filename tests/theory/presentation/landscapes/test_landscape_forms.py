import json
import math

import pytest
import torch
from torch.nn import functional as F

from sigmascope import networks, theory
from sigmascope.report import json_form
from sigmascope.theory.presentation import Scenery


@pytest.fixture(scope="module")
def seen():
    g = torch.Generator().manual_seed(0)
    net = networks.mlp(inputs=5, outputs=2, depth=2, width=6, init="he", generator=g)
    x, y = torch.randn(12, 5, generator=g), torch.randint(2, (12,), generator=g)
    return net, x, {"targets": y, "loss": F.cross_entropy}


def through_json(form):
    return json.loads(json.dumps(form, allow_nan=False))


def test_a_landscape_has_its_variants_and_nothing_that_was_not_looked_at(seen):
    net, x, _ = seen
    found = theory.landscape.landscape(net, x)
    form = through_json(json_form(found, (found,)))
    assert form["schema"] == "sigmascope/landscape/1"
    assert form["loss"] == "squared error"
    assert [form[k] for k in ("curvature", "surface", "regions")] == [None] * 3
    first, second = form["variants"]
    assert first == second
    assert [layer["site"] for layer in first["layers"]] == [s.site for s in found.layers]
    condition = found.layers[0].condition.value
    assert float(first["layers"][0]["condition"]["value"]) == condition or math.isinf(condition)


def test_what_is_seen_beside_it_is_in_it(seen):
    net, x, say = seen
    g = torch.Generator().manual_seed(1)
    scenery = Scenery(
        theory.landscape.curvature(net, x, generator=g, **say),
        theory.landscape.loss_surface(net, x, points=5, generator=g, **say),
        theory.landscape.input_regions(net, x),
    )
    found = theory.landscape.landscape(net, x)
    form = through_json(json_form(found, scenery=scenery, loss="cross-entropy"))
    assert form["loss"] == "cross-entropy"
    assert form["curvature"] == through_json(json_form(scenery.curvature))
    assert form["surface"] == through_json(json_form(scenery.surface))
    regions = form["regions"]
    assert len(regions["classes"]) == len(regions["polygons"])
    assert set(regions["classes"]) <= {0, 1}
    assert all(len(corners) % 2 == 0 for corners in regions["polygons"])
