"""Random graphs of neurons."""

import torch

from sigmascope.theory.neuron_graph import Dag, Edge


def close(a, b):
    return abs(float(a - b)) <= 1e-12 * (1 + abs(float(b)))


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
