"""Paths through a graph of neurons, and the tree network that computes the same from them.

A path is the set of its EDGES. (With sets of vertices, which the paper's Definitions 9 and 10 use,
a skip connection makes the diagram of inclusions something else than a tree.)
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.gate import Refusal
from sigmascope.probes.neuron_graph.graph import Dag, bend

MOST_PATHS = 1_000_000


@dataclass(frozen=True, slots=True)
class PathCount:
    """How many paths lead through a graph.

    Attributes:
        paths: From an input to the output: `ρ`.
        vertices: Of the unrolled tree: paths from any vertex to the output.
    """

    paths: int
    vertices: int


def count_paths(dag: Dag) -> PathCount:
    """How many paths there are, without listing them.

    Args:
        dag: The graph.

    Source:
        Le & Jegelka 2022, Definition 4; by `c(v) = Σ c(b)` over what v leads to.

    Example:
        >>> from sigmascope.probes.neuron_graph.graph import Edge
        >>> skip = Dag((0,), 2, (Edge(0, 1), Edge(1, 2), Edge(0, 2)), ((1.0, 1.0),) * 3)
        >>> count_paths(skip)
        PathCount(paths=2, vertices=4)
    """
    to_output = [0] * len(dag.slopes)
    to_output[dag.output] = 1
    leaving = dag.leaving()
    for v in reversed(dag.order()):
        to_output[v] += sum(to_output[dag.edges[i].head] for i in leaving.get(v, ()))
    return PathCount(sum(to_output[v] for v in dag.inputs), sum(to_output))


@dataclass(frozen=True, slots=True)
class Tree:
    """The unrolled network: one vertex for each path from a neuron to the output.

    Attributes:
        vertex: The neuron that each path begins at; the first is the output, with no edge.
        parent: The path that is left when its first edge is taken away; -1 at the root.
        edge: That first edge.
        leaves: Paths that begin at an input, in order.
        slopes: Of the neuron of each path.
    """

    vertex: tuple[int, ...]
    parent: tuple[int, ...]
    edge: tuple[int, ...]
    leaves: tuple[int, ...]
    slopes: tuple[tuple[float, float], ...]

    def path(self, at: int) -> tuple[int, ...]:
        """The edges of a path, from its beginning to the output."""
        found = []
        while self.parent[at] >= 0:
            found.append(self.edge[at])
            at = self.parent[at]
        return tuple(found)


def unroll(dag: Dag, *, limit: int = MOST_PATHS) -> Tree:
    """The tree network of a graph.

    Args:
        dag: The graph.
        limit: How many vertices the tree may have.

    Raises:
        Refusal: If it would have more, with their number.

    Source:
        Le & Jegelka 2022, Lemma 6, with paths as sets of edges.
    """
    count = count_paths(dag)
    if count.vertices > limit:
        raise Refusal(
            f"The tree must have at most {limit:,} vertices, but there are {count.paths:,} paths "
            f"and {count.vertices:,} vertices. Raise `limit`, or take a smaller network."
        )
    arriving = dag.arriving()
    vertex, parent, edge = [dag.output], [-1], [-1]
    for at, v in enumerate(vertex):  # grows as it is read: breadth first
        for i in arriving.get(v, ()):
            vertex.append(dag.edges[i].tail)
            parent.append(at)
            edge.append(i)
    inputs = set(dag.inputs)
    leaves = tuple(at for at, v in enumerate(vertex) if v in inputs)
    slopes = tuple(dag.slopes[v] for v in vertex)
    return Tree(tuple(vertex), tuple(parent), tuple(edge), leaves, slopes)


def path_enumeration(
    dag: Dag,
    x: Float[Tensor, " inputs"],
    w: Float[Tensor, " edges"],
    *,
    limit: int = MOST_PATHS,
) -> Float[Tensor, " paths"]:
    """`h_p(x, w)`: input times the weights along each path, in the order of the tree's leaves.

    Args:
        dag: The graph.
        x: Its inputs.
        w: The weight of every edge.
        limit: How many paths there may be.

    Raises:
        Refusal: If there are more, with their number.

    Source:
        Le & Jegelka 2022, Definition 4.
    """
    tree = unroll(dag, limit=limit)
    return _along(tree, w) * leaf_inputs(dag, tree, x)


def _along(tree: Tree, w: Tensor) -> Tensor:
    """Product of the weights from each leaf to the root."""
    products = [torch.ones((), dtype=w.dtype)]
    for at in range(1, len(tree.vertex)):
        products.append(w[tree.edge[at]] * products[tree.parent[at]])
    return torch.stack([products[at] for at in tree.leaves])


@dataclass(frozen=True, slots=True)
class TreeNetwork:
    """A tree with weights of its own.

    Attributes:
        tree: Its shape.
        weights: Of the edge above each vertex; nothing hangs on the first.
        gains: What each leaf's input is multiplied by.
    """

    tree: Tree
    weights: Float[Tensor, " vertices"]
    gains: Float[Tensor, " leaves"]


def tree_network(tree: Tree, w: Float[Tensor, " edges"]) -> TreeNetwork:
    """The tree with the weights of the graph.

    Args:
        tree: From `unroll`.
        w: The weight of every edge of the graph.
    """
    above = torch.tensor([max(e, 0) for e in tree.edge])
    weights = w[above] if len(w) else torch.ones(len(above), dtype=w.dtype)
    return TreeNetwork(tree, weights, torch.ones(len(tree.leaves), dtype=w.dtype))


def pull_back(network: TreeNetwork) -> TreeNetwork:
    """Weights pulled to the leaves: only their signs stay on the edges.

    A neuron with one edge above is `σ(z) c = sgn(c) σ(|c| z)`; this is done from the root down.

    Args:
        network: The tree with the weights of a graph.

    Source:
        Le & Jegelka 2022, Lemmas 5 and 7.
    """
    tree = network.tree
    sizes = torch.ones_like(network.weights)
    for at in range(1, len(tree.vertex)):
        sizes[at] = sizes[tree.parent[at]] * network.weights[at].abs()
    leaves = torch.tensor(tree.leaves, dtype=torch.long)
    return replace(network, weights=network.weights.sign(), gains=network.gains * sizes[leaves])


def signed(network: TreeNetwork) -> TreeNetwork:
    """The tree that reads the path enumeration itself: it knows the signs of weights only.

    Args:
        network: After `pull_back`.

    Source:
        Le & Jegelka 2022, Lemma 1.
    """
    above = network.weights
    products = torch.ones_like(above)
    for at in range(1, len(above)):
        products[at] = products[network.tree.parent[at]] * above[at]
    leaves = torch.tensor(network.tree.leaves, dtype=torch.long)
    return replace(network, gains=products[leaves])


def tree_forward(network: TreeNetwork, leaves: Float[Tensor, " leaves"]) -> Float[Tensor, ""]:
    """The output of a tree network.

    Args:
        network: The tree and its weights.
        leaves: What the leaves read: their inputs, or for `signed` the path enumeration.
    """
    tree = network.tree
    sums = [torch.zeros((), dtype=leaves.dtype)] * len(tree.vertex)
    own = dict(zip(tree.leaves, network.gains * leaves, strict=True))
    for at in range(len(tree.vertex) - 1, 0, -1):
        value = own[at] if at in own else bend(sums[at], tree.slopes[at])
        sums[tree.parent[at]] = sums[tree.parent[at]] + network.weights[at] * value
    return own[0] if 0 in own else bend(sums[0], tree.slopes[0])


def leaf_inputs(dag: Dag, tree: Tree, x: Float[Tensor, " inputs"]) -> Float[Tensor, " leaves"]:
    """The input that each leaf of a tree reads.

    Args:
        dag: The graph.
        tree: From `unroll`.
        x: Its inputs.
    """
    place = {v: i for i, v in enumerate(dag.inputs)}
    return x[torch.tensor([place[tree.vertex[at]] for at in tree.leaves], dtype=torch.long)]
