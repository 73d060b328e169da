import math
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import probes


def dense(*widths):
    layers = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, bias=False), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def close(a, b):
    return abs(float(a - b)) <= 1e-12 * (1 + abs(float(b)))


def test_counts_of_dense_networks_are_products_of_widths():
    dag = probes.neuron_graph.dag_of(dense(3, 4, 5, 1), inputs=3)
    widths = (3, 4, 5, 1)
    vertices = sum(math.prod(widths[k:]) for k in range(4))
    assert (
        probes.neuron_graph.count_paths(dag)
        == probes.neuron_graph.PathCount(60, vertices)
        == probes.neuron_graph.PathCount(60, 86)
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
    dag = probes.neuron_graph.dag_of(net, inputs=4, output=output)
    w = dag.weights(dict(net.named_parameters()))
    x = torch.randn(4, dtype=torch.float64)
    with_one = torch.cat([x, torch.ones(1, dtype=torch.float64)])
    f = net(x[None])[0, output].detach()
    assert close(probes.neuron_graph.dag_forward(dag, with_one, w), f)
    tree = probes.neuron_graph.unroll(dag)
    signed = probes.neuron_graph.signed(
        probes.neuron_graph.pull_back(probes.neuron_graph.tree_network(tree, w))
    )
    assert close(
        probes.neuron_graph.tree_forward(
            signed, probes.neuron_graph.path_enumeration(dag, with_one, w)
        ),
        f,
    )
