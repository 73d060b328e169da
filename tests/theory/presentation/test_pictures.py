import xml.etree.ElementTree as ET

import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.theory import neuron_graph
from sigmascope.theory.neuron_graph import Dag, Edge
from sigmascope.theory.presentation import coordinates_picture, tree_picture

POINTS = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, -1.0]])
CIRCLE = "{http://www.w3.org/2000/svg}circle"


@pytest.mark.parametrize(
    ("targets", "colours"),
    [
        (None, 1),
        (torch.tensor([0, 1, 2]), 3),
        (torch.tensor([[0.0], [0.5], [1.0]]), 3),
        (torch.ones(3), 1),
    ],
)
def test_a_dot_a_sample_coloured_by_its_target(targets, colours):
    drawn = ET.fromstring(coordinates_picture(POINTS, targets=targets))
    dots = drawn.findall(CIRCLE)
    assert len(dots) == 3
    (left, middle, right), (half, top, bottom) = (
        [float(dot.get(at)) for dot in dots] for at in ("cx", "cy")
    )
    assert left + right == top + bottom == 2 * middle == 2 * half == 480
    assert 20 < left == top < 60  # the same border on all sides
    assert len({dot.get("fill") for dot in dots}) == colours


@pytest.mark.parametrize("values", [[0.0, 0.5, 1.0], [-3.0, 1.0, 5.0], [10.0, 11.0, 12.0]])
def test_values_go_from_blue_to_red_wherever_they_lie(values):
    drawn = ET.fromstring(coordinates_picture(POINTS, targets=torch.tensor(values)[:, None]))
    fills = [dot.get("fill") for dot in drawn.findall(CIRCLE)]
    assert fills == ["rgb(0,80,255)", "rgb(128,80,128)", "rgb(255,80,0)"]


def test_one_coordinate_is_drawn_on_a_line_under_a_title_that_is_text():
    picture = coordinates_picture(POINTS[:, :1], title="<b>")
    assert len({dot.get("cy") for dot in ET.fromstring(picture).findall(CIRCLE)}) == 1
    assert "&lt;b&gt;" in picture


SKIP = Dag((0,), 2, (Edge(0, 1), Edge(1, 2), Edge(0, 2)), ((1.0, 1.0), (1.0, 0.0), (1.0, 1.0)))


def test_a_tree_shows_every_path_once():
    network = neuron_graph.tree_network(neuron_graph.unroll(SKIP), torch.tensor([1.0, -2.0, 0.0]))
    svg = tree_picture(network, names=("<x>",))
    assert svg.count("<line") == 3
    assert svg.count("&lt;x&gt;</text>") == 2
    assert svg.count("#c0392b") == 1  # one weight below zero
    assert "2 paths, 4 vertices" in svg


def test_a_tree_has_the_same_border_on_all_sides():
    """Twenty leaves side by side, the last as far from the edge as the first; below, the legend."""
    wide = Dag((0,), 1, tuple(Edge(0, 1) for _ in range(20)), ((1.0, 1.0), (1.0, 0.0)))
    drawn = ET.fromstring(
        tree_picture(neuron_graph.tree_network(neuron_graph.unroll(wide), torch.ones(20)))
    )
    lines = drawn.findall("{http://www.w3.org/2000/svg}line")
    across = [float(line.get(x)) for line in lines for x in ("x1", "x2")]
    down = [float(line.get(y)) for line in lines for y in ("y1", "y2")]
    assert min(across) == min(down) == float(drawn.get("width")) - max(across)
    assert float(drawn.get("height")) - max(down) == min(down) + 20


def test_too_large_a_tree_is_refused():
    wide = Dag((0,), 1, tuple(Edge(0, 1) for _ in range(500)), ((1.0, 1.0), (1.0, 0.0)))
    network = neuron_graph.tree_network(neuron_graph.unroll(wide), torch.ones(500))
    with pytest.raises(Refusal, match="at most 400 vertices, got 501"):
        tree_picture(network)
