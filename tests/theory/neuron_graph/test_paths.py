from itertools import pairwise

import pytest
import torch
from torch import nn

from sigmascope import theory
from sigmascope.gate import Refusal
from sigmascope.theory.neuron_graph import Dag, Edge

SLOPES = [(1.0, 0.0), (1.0, 0.1), (1.0, 1.0), (1.0, -1.0), (0.5, 2.0)]


def random_dag(seed, *, vertices=9, inputs=3):
    """Any graph: skips, several edges between two neurons, neurons of every kind."""
    g = torch.Generator().manual_seed(seed)
    pick = lambda n: int(torch.randint(n, (), generator=g))
    edges = []
    for head in range(inputs, vertices):
        for _ in range(1 + pick(3)):
            edges.append(Edge(pick(head), head))
    slopes = [(1.0, 1.0)] * inputs + [SLOPES[pick(5)] for _ in range(vertices - inputs)]
    dag = Dag(tuple(range(inputs)), vertices - 1, tuple(edges), tuple(slopes))
    x = torch.randn(inputs, generator=g, dtype=torch.float64)
    w = torch.randn(len(edges), generator=g, dtype=torch.float64)
    return dag, x, w


def dense(*widths):
    layers = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, bias=False), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def close(a, b):
    return abs(float(a - b)) <= 1e-12 * (1 + abs(float(b)))


@pytest.mark.usefixtures("as_users_see_it")
def test_the_tree_on_the_path_enumeration_is_the_network():
    for seed in range(120):
        dag, x, w = random_dag(seed)
        f = theory.neuron_graph.dag_forward(dag, x, w)
        tree = theory.neuron_graph.unroll(dag)
        network = theory.neuron_graph.tree_network(tree, w)
        read = theory.neuron_graph.leaf_inputs(dag, tree, x)
        assert close(theory.neuron_graph.tree_forward(network, read), f)  # Lemma 6
        pulled = theory.neuron_graph.pull_back(network)
        assert close(theory.neuron_graph.tree_forward(pulled, read), f)  # Lemma 5
        h = theory.neuron_graph.path_enumeration(dag, x, w)
        sizes = (pulled.gains * read).abs()
        assert torch.allclose(sizes, h.abs(), rtol=1e-12, atol=0)
        assert close(
            theory.neuron_graph.tree_forward(theory.neuron_graph.signed(pulled), h), f
        )  # Lemma 1
        count = theory.neuron_graph.count_paths(dag)
        assert count == theory.neuron_graph.PathCount(len(h), len(tree.vertex))


def test_the_signed_tree_depends_on_signs_only():
    for seed in range(40):
        dag, _, w = random_dag(seed)
        g = torch.Generator().manual_seed(seed)
        other = w * torch.rand(len(w), generator=g, dtype=torch.float64).add(0.1)
        tree = theory.neuron_graph.unroll(dag)
        one, two = (
            theory.neuron_graph.signed(
                theory.neuron_graph.pull_back(theory.neuron_graph.tree_network(tree, v))
            )
            for v in (w, other)
        )
        assert torch.equal(one.weights, two.weights)
        assert torch.equal(one.gains, two.gains)
        flipped = w.clone()
        flipped[tree.edge[1]] *= -1
        three = theory.neuron_graph.pull_back(theory.neuron_graph.tree_network(tree, flipped))
        assert not torch.equal(one.weights[1:], three.weights[1:])


def test_slopes_along_paths_give_the_output():
    """f = Σ a_p h_p, with a_p the product of slopes along the path; the sheet's (1)."""
    for seed in range(50):
        dag, x, w = random_dag(seed)
        tree = theory.neuron_graph.unroll(dag)
        h = theory.neuron_graph.path_enumeration(dag, x, w)
        signed = theory.neuron_graph.signed(
            theory.neuron_graph.pull_back(theory.neuron_graph.tree_network(tree, w))
        )
        live = h.clone().requires_grad_()
        f = theory.neuron_graph.tree_forward(signed, live)
        (a,) = torch.autograd.grad(f, live)
        assert close((a * h).sum(), f.detach())


def test_paths_are_sets_of_edges_so_that_a_skip_gives_a_tree():
    dag = Dag((0,), 3, (Edge(0, 1), Edge(1, 2), Edge(2, 3), Edge(1, 3)), ((1.0, 0.0),) * 4)
    tree = theory.neuron_graph.unroll(dag)
    assert len(tree.vertex) - 1 == 5
    assert sorted(map(tree.path, tree.leaves)) == [(0, 1, 2), (0, 3)]


class Branching(nn.Linear):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x


def test_paths_that_are_too_many_are_counted_and_refused():
    dag = theory.neuron_graph.dag_of(dense(20, 20, 20, 20, 20, 20, 20, 1), inputs=20)
    with pytest.raises(Refusal, match="there are 1,280,000,000 paths"):
        theory.neuron_graph.unroll(dag)
