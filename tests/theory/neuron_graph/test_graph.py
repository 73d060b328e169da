import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.theory.neuron_graph import Dag, Edge, bend, dag_forward

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
