import pytest
import torch

from sigmascope import theory
from sigmascope.gate import Refusal
from sigmascope.theory.neuron_graph import Dag, Edge
from sigmascope.theory.presentation import tree_picture

SKIP = Dag((0,), 2, (Edge(0, 1), Edge(1, 2), Edge(0, 2)), ((1.0, 1.0), (1.0, 0.0), (1.0, 1.0)))


def test_a_tree_shows_every_path_once():
    network = theory.neuron_graph.tree_network(
        theory.neuron_graph.unroll(SKIP), torch.tensor([1.0, -2.0, 0.0])
    )
    svg = tree_picture(network, names=("<x>",))
    assert svg.count("<line") == 3
    assert svg.count("&lt;x&gt;</text>") == 2
    assert svg.count("#c0392b") == 1  # one weight below zero
    assert "2 paths, 4 vertices" in svg


def test_too_large_a_tree_is_refused():
    wide = Dag((0,), 1, tuple(Edge(0, 1) for _ in range(500)), ((1.0, 1.0), (1.0, 0.0)))
    network = theory.neuron_graph.tree_network(theory.neuron_graph.unroll(wide), torch.ones(500))
    with pytest.raises(Refusal, match="at most 400 vertices, got 501"):
        tree_picture(network)
