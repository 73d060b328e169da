import xml.etree.ElementTree as ET

import pytest
import torch

from sigmascope.theory.presentation import coordinates_picture

POINTS = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, -1.0]])
CIRCLE = "{http://www.w3.org/2000/svg}circle"


@pytest.mark.parametrize(
    ("targets", "colours"),
    [(None, 1), (torch.tensor([0, 1, 2]), 3), (torch.tensor([[0.0], [0.5], [1.0]]), 3)],
)
def test_a_dot_a_sample_coloured_by_its_target(targets, colours):
    drawn = ET.fromstring(coordinates_picture(POINTS, targets=targets))
    dots = drawn.findall(CIRCLE)
    assert len(dots) == 3
    assert len({dot.get("fill") for dot in dots}) == colours


@pytest.mark.parametrize("values", [[0.0, 0.5, 1.0], [-3.0, 1.0, 5.0], [10.0, 11.0, 12.0]])
def test_values_go_from_blue_to_red_wherever_they_lie(values):
    drawn = ET.fromstring(coordinates_picture(POINTS, targets=torch.tensor(values)[:, None]))
    fills = [dot.get("fill") for dot in drawn.findall(CIRCLE)]
    assert fills == ["rgb(0,80,255)", "rgb(128,80,128)", "rgb(255,80,0)"]


def test_one_coordinate_is_drawn_on_a_line():
    drawn = ET.fromstring(coordinates_picture(POINTS[:, :1]))
    assert len({dot.get("cy") for dot in drawn.findall(CIRCLE)}) == 1


def test_a_title_is_text():
    assert "&lt;b&gt;" in coordinates_picture(POINTS, title="<b>")
