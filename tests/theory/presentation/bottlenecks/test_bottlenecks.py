"""The inner dimension as text, JSON and picture."""

import json
import xml.etree.ElementTree as ET

import torch

from sigmascope import report, theory
from sigmascope.theory.bottleneck import bottleneck
from tests.theory.bottleneck.test_verdicts import narrow, samples


def test_the_text_says_it_first_and_lists_every_layer():
    model, x = narrow(2, passes=3), samples()
    found = bottleneck(model, x, targets=model(x).detach())
    said = report.text(found)
    assert said.startswith("OVERESTIMATING  The function uses 2 dimensions")
    assert "passes on" in said
    firsts = [line.split()[:1] for line in said.splitlines()]
    assert all([site] in firsts for site in ("0", "4", "10"))


def test_the_form_is_strict_json():
    found = bottleneck(narrow(1), samples())
    form = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert form["schema"] == "sigmascope/bottleneck/1"
    assert form["rank"]["value"] == 1
    assert {e["name"] for e in form["evidence"]} >= {"inner dimension", "relative weight rank"}


def test_the_picture_has_a_dot_for_each_sample():
    model, x = narrow(2), samples()
    found = theory.bottleneck.coordinates(model, x, site="4")
    for targets in (None, torch.arange(120) % 3, x[:, :1], torch.ones(120)):
        drawn = ET.fromstring(
            theory.presentation.coordinates_picture(found.values, targets=targets)
        )
        dots = drawn.findall("{http://www.w3.org/2000/svg}circle")
        assert len(dots) == 120
        assert all(0 <= float(d.attrib["cx"]) <= 480 for d in dots)
    assert len({d.attrib["fill"] for d in dots}) == 1
    one = theory.bottleneck.coordinates(model, x, site="4", count=1)
    assert "&lt;b&gt;" in theory.presentation.coordinates_picture(one.values, title="<b>")
