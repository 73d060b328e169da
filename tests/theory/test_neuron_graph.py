from itertools import pairwise, permutations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.theory.neuron_graph import (
    Dag,
    Edge,
    PathCount,
    bend,
    count_paths,
    dag_forward,
    dag_of,
    leaf_inputs,
    path_enumeration,
    pull_back,
    signed,
    tree_forward,
    tree_network,
    unroll,
)
from tests.theory.graphs import close, random_dag


def dense(*widths):
    layers = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, bias=False), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def test_counts_of_dense_networks_are_products_of_widths():
    dag = dag_of(dense(3, 4, 5, 1), inputs=3)
    assert count_paths(dag) == PathCount(60, 60 + 20 + 5 + 1)


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
    dag = dag_of(net, inputs=4, output=output)
    w = dag.weights(dict(net.named_parameters()))
    x = torch.randn(4, dtype=torch.float64)
    with_one = torch.cat([x, torch.ones(1, dtype=torch.float64)])
    f = net(x[None])[0, output].detach()
    assert close(dag_forward(dag, with_one, w), f)
    tree = unroll(dag)
    bare = signed(pull_back(tree_network(tree, w)))
    assert close(tree_forward(bare, path_enumeration(dag, with_one, w)), f)


class Branching(nn.Linear):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x


def test_what_is_no_network_of_neurons_is_refused():
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
    dag = dag_of(net, inputs=2, output=1)
    assert len(dag.slopes) == 2 + 3 + 1
    assert len(dag.edges) == 6 + 3
    assert {e.weight for e in dag.edges if e.head == dag.output} == {
        ("2.weight", 3), ("2.weight", 4), ("2.weight", 5),
    }  # fmt: skip
    assert not dag.constant


def test_a_lone_layer_is_a_network():
    dag = dag_of(nn.Linear(2, 2), inputs=2, output=1)
    assert dag.constant
    assert [e.weight for e in dag.edges] == [("weight", 2), ("weight", 3), ("bias", 1)]
    net = nn.Linear(2, 2).double()
    x = torch.tensor([0.5, -2.0, 1.0], dtype=torch.float64)
    found = dag_forward(dag, x, dag.weights(dict(net.named_parameters())))
    assert close(found, net(x[:2])[1].detach())


RELU, LINE, MODULUS = (1.0, 0.0), (1.0, 1.0), (1.0, -1.0)
#   0 -> 2 (twice), 1 -> 2, 2 -> 3, 0 -> 3 by a fixed 1
SMALL = Dag(
    (0, 1),
    3,
    (
        Edge(0, 2, ("a", 0)),
        Edge(1, 2, ("a", 1)),
        Edge(0, 2, ("b", 0)),
        Edge(2, 3, ("b", 3)),
        Edge(0, 3),
    ),
    (LINE, LINE, RELU, MODULUS),
)


def column(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("slopes", "values"),
    [(RELU, [0, 0, 2]), (LINE, [-3, 0, 2]), (MODULUS, [3, 0, 2]), ((0.5, 2.0), [-6, 0, 1])],
)
def test_a_neuron_has_a_slope_on_either_side(slopes, values):
    assert bend(column(-3, 0, 2), slopes).tolist() == values


def test_weights_are_read_by_name_and_place():
    parameters = {"a": torch.tensor([[3.0, 4.0]], requires_grad=True), "b": torch.arange(4.0)}
    w = SMALL.weights(parameters)
    assert w.tolist() == [3, 4, 0, 3, 1]
    assert w.dtype == torch.float64
    assert not w.requires_grad


def test_every_edge_between_two_neurons_counts():
    w = column(3, 4, 5, 2, 1)
    # relu((3 + 5) x + 4 y) times 2, and x, in absolute value
    for x, y in ((1.0, 1.0), (-1.0, 1.0), (-1.0, 3.0)):
        expected = abs(2 * max(8 * x + 4 * y, 0) + x)
        assert float(dag_forward(SMALL, column(x, y), w)) == expected


def test_edges_are_grouped_by_their_ends():
    assert SMALL.arriving() == {2: [0, 1, 2], 3: [3, 4]}
    assert SMALL.leaving() == {0: [0, 2, 4], 1: [1], 2: [3]}


def test_the_order_puts_every_neuron_after_what_it_reads():
    shuffled = Dag((4, 2), 0, (Edge(4, 3), Edge(3, 1), Edge(2, 1), Edge(1, 0)), (LINE,) * 5)
    place = {v: i for i, v in enumerate(shuffled.order())}
    assert sorted(place) == [0, 1, 2, 3, 4]
    assert all(place[e.tail] < place[e.head] for e in shuffled.edges)


def test_a_cycle_is_refused():
    ring = Dag((0,), 2, (Edge(0, 1), Edge(1, 2), Edge(2, 1)), (LINE,) * 3)
    with pytest.raises(Refusal, match="must have no cycle, got one among 2 vertices"):
        ring.order()


def test_a_neuron_that_reads_nothing_is_zero():
    assert (
        float(dag_forward(Dag((0,), 1, (), (LINE, LINE)), column(3), torch.zeros(0).double())) == 0
    )


@pytest.mark.usefixtures("as_users_see_it")
def test_the_tree_on_the_path_enumeration_is_the_network():
    for seed in range(120):
        dag, x, w = random_dag(seed)
        f = dag_forward(dag, x, w)
        tree = unroll(dag)
        network = tree_network(tree, w)
        read = leaf_inputs(dag, tree, x)
        assert close(tree_forward(network, read), f)  # Lemma 6
        pulled = pull_back(network)
        assert close(tree_forward(pulled, read), f)  # Lemma 5
        h = path_enumeration(dag, x, w)
        sizes = (pulled.gains * read).abs()
        assert torch.allclose(sizes, h.abs(), rtol=1e-12, atol=0)
        assert close(tree_forward(signed(pulled), h), f)  # Lemma 1
        count = count_paths(dag)
        assert count == PathCount(len(h), len(tree.vertex))


def test_the_signed_tree_depends_on_signs_only():
    for seed in range(40):
        dag, _, w = random_dag(seed)
        g = torch.Generator().manual_seed(seed)
        other = w * torch.rand(len(w), generator=g, dtype=torch.float64).add(0.1)
        tree = unroll(dag)
        one, two = (signed(pull_back(tree_network(tree, v))) for v in (w, other))
        assert torch.equal(one.weights, two.weights)
        assert torch.equal(one.gains, two.gains)
        flipped = w.clone()
        flipped[tree.edge[1]] *= -1
        three = pull_back(tree_network(tree, flipped))
        assert not torch.equal(one.weights[1:], three.weights[1:])


def test_derivatives_by_paths_times_paths_give_the_output():
    """f = Σ a_p h_p, with a_p the derivative of the tree by what it reads: Euler."""
    for seed in range(50):
        dag, x, w = random_dag(seed)
        tree = unroll(dag)
        h = path_enumeration(dag, x, w)
        bare = signed(pull_back(tree_network(tree, w)))
        live = h.clone().requires_grad_()
        f = tree_forward(bare, live)
        (a,) = torch.autograd.grad(f, live)
        assert close((a * h).sum(), f.detach())


def test_paths_are_sets_of_edges_so_that_a_skip_gives_a_tree():
    dag = Dag((0,), 3, (Edge(0, 1), Edge(1, 2), Edge(2, 3), Edge(1, 3)), ((1.0, 0.0),) * 4)
    tree = unroll(dag)
    assert len(tree.vertex) - 1 == 5
    assert sorted(map(tree.path, tree.leaves)) == [(0, 1, 2), (0, 3)]


def test_the_tree_is_the_hasse_diagram_of_paths_as_sets_of_edges():
    """Definition 9 of Le & Jegelka: from each set to those that hold it and nothing between."""
    seen = 0
    for seed in range(60):
        tree = unroll(random_dag(seed)[0])
        sets = [frozenset(tree.path(at)) for at in range(len(tree.vertex))]
        if len(sets) > 40:
            continue
        diagram = {
            (low, high)
            for low, high in permutations(range(len(sets)), 2)
            if sets[low] < sets[high] and not any(sets[low] < s < sets[high] for s in sets)
        }
        assert diagram == {(tree.parent[at], at) for at in range(1, len(sets))}
        seen += len(sets) > 5
    assert seen > 20


def test_paths_that_are_too_many_are_counted_and_refused():
    dag = dag_of(dense(20, 20, 20, 20, 20, 20, 20, 1), inputs=20)
    with pytest.raises(Refusal, match="there are 1,280,000,000 paths"):
        unroll(dag)
