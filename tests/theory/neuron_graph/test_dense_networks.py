import math
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import theory
from sigmascope.gate import Refusal


def dense(*widths):
    layers = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, bias=False), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def close(a, b):
    return abs(float(a - b)) <= 1e-12 * (1 + abs(float(b)))


def test_counts_of_dense_networks_are_products_of_widths():
    dag = theory.neuron_graph.dag_of(dense(3, 4, 5, 1), inputs=3)
    widths = (3, 4, 5, 1)
    vertices = sum(math.prod(widths[k:]) for k in range(4))
    assert (
        theory.neuron_graph.count_paths(dag)
        == theory.neuron_graph.PathCount(60, vertices)
        == theory.neuron_graph.PathCount(60, 86)
    )


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.v = nn.Linear(3, 4), nn.Linear(4, 3)
        self.a, self.w = nn.Linear(4, 2), nn.Linear(10, 2)

    def forward(self, x):
        y = x + self.u(F.relu(self.v(x)))
        return self.w(torch.cat([y, F.leaky_relu(self.a(y), 0.3), torch.abs(y)], 1))


@pytest.mark.parametrize("output", [0, 1])
def test_extracted_graphs_compute_what_the_module_computes(output):
    net = Residual().double()
    dag = theory.neuron_graph.dag_of(net, inputs=4, output=output)
    w = dag.weights(dict(net.named_parameters()))
    x = torch.randn(4, dtype=torch.float64)
    with_one = torch.cat([x, torch.ones(1, dtype=torch.float64)])
    f = net(x[None])[0, output].detach()
    assert close(theory.neuron_graph.dag_forward(dag, with_one, w), f)
    tree = theory.neuron_graph.unroll(dag)
    signed = theory.neuron_graph.signed(
        theory.neuron_graph.pull_back(theory.neuron_graph.tree_network(tree, w))
    )
    assert close(
        theory.neuron_graph.tree_forward(
            signed, theory.neuron_graph.path_enumeration(dag, with_one, w)
        ),
        f,
    )


class Branching(nn.Linear):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x


def test_what_is_no_network_of_neurons_is_refused():
    dag_of = theory.neuron_graph.dag_of
    with pytest.raises(Refusal, match="got GELU"):
        dag_of(nn.Sequential(nn.Linear(2, 2), nn.GELU()), inputs=2)
    with pytest.raises(Refusal, match="at most 100000 weights"):
        dag_of(nn.Sequential(nn.Linear(400, 300), nn.ReLU(), nn.Linear(300, 1)), inputs=400)
    with pytest.raises(Refusal, match="without branches on its data"):
        dag_of(nn.Sequential(Branching(2, 2)), inputs=2)
    with pytest.raises(Refusal, match=r"`output` must be from 0 to 1, .* got 2"):
        dag_of(nn.Linear(3, 2), inputs=3, output=2)
    with pytest.raises(Refusal, match="must return one tensor, got a tuple"):
        dag_of(Twice(), inputs=3)


class Twice(nn.Module):
    def forward(self, x):
        return x, x


def test_neurons_that_do_not_reach_the_output_are_left_out():
    net = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False))
    dag = theory.neuron_graph.dag_of(net, inputs=2, output=1)
    assert len(dag.slopes) == 2 + 3 + 1
    assert len(dag.edges) == 6 + 3
    assert {e.weight for e in dag.edges if e.head == dag.output} == {
        ("2.weight", 3), ("2.weight", 4), ("2.weight", 5),
    }  # fmt: skip
    assert not dag.constant


def test_a_lone_layer_is_a_network():
    dag = theory.neuron_graph.dag_of(nn.Linear(2, 2), inputs=2, output=1)
    assert dag.constant
    assert [e.weight for e in dag.edges] == [("weight", 2), ("weight", 3), ("bias", 1)]
    net = nn.Linear(2, 2).double()
    x = torch.tensor([0.5, -2.0, 1.0], dtype=torch.float64)
    found = theory.neuron_graph.dag_forward(dag, x, dag.weights(dict(net.named_parameters())))
    assert close(found, net(x[:2])[1].detach())
