"""Small networks as graphs of neurons, and the paths through them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, fx, nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief
from sigmascope.models.state import still

__all__ = [
    "Dag",
    "Edge",
    "PathCount",
    "Tree",
    "TreeNetwork",
    "count_paths",
    "dag_forward",
    "dag_of",
    "leaf_inputs",
    "path_enumeration",
    "pull_back",
    "signed",
    "tree_forward",
    "tree_network",
    "unroll",
]

# ------------------------------------------------------------------------------
# Small networks as graphs of neurons, one vertex a neuron and one edge a weight.


@dataclass(frozen=True, slots=True)
class Edge:
    """One weight: from a neuron to a neuron.

    Attributes:
        tail: Where it leaves.
        head: Where it arrives.
        weight: Name of the parameter and place in it; None for a fixed 1, as of a skip connection.
    """

    tail: int
    head: int
    weight: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Dag:
    """A directed acyclic graph of neurons `p max(z, 0) - n max(-z, 0)`.

    Attributes:
        inputs: Vertices that are inputs, in their order; a constant 1 comes last if there are
            biases.
        output: The vertex that is the output.
        edges: Every weight; two neurons may have several between them.
        slopes: `(p, n)` of each vertex; ReLU is (1, 0), linear (1, 1), the modulus (1, -1).
        constant: Whether the last input is the constant 1.

    Source:
        Le & Jegelka 2022, Sec. 3.
    """

    inputs: tuple[int, ...]
    output: int
    edges: tuple[Edge, ...]
    slopes: tuple[tuple[float, float], ...]
    constant: bool = False

    def weights(self, parameters: Mapping[str, Tensor]) -> Float[Tensor, " edges"]:
        """The weight of every edge.

        Args:
            parameters: By name.
        """
        flat = {n: p.detach().double().flatten() for n, p in parameters.items()}
        ones = torch.ones(1, dtype=torch.float64)
        return torch.stack(
            [ones[0] if e.weight is None else flat[e.weight[0]][e.weight[1]] for e in self.edges]
        )

    def arriving(self) -> dict[int, list[int]]:
        """For each vertex that has any, the numbers of the edges that arrive at it."""
        return _grouped(e.head for e in self.edges)

    def leaving(self) -> dict[int, list[int]]:
        """For each vertex that has any, the numbers of the edges that leave it."""
        return _grouped(e.tail for e in self.edges)

    def order(self) -> list[int]:
        """Vertices, each after all that it reads.

        Raises:
            Refusal: If there is a cycle.
        """
        before: dict[int, list[int]] = {v: [] for v in range(len(self.slopes))}
        for e in self.edges:
            before[e.head].append(e.tail)
        try:
            return [*TopologicalSorter(before).static_order()]
        except CycleError as error:
            raise Refusal(
                f"The graph must have no cycle, got one among {len(set(error.args[1]))} "
                "vertices. Unroll a recurrent network in time first."
            ) from error


def _grouped(ends: Iterable[int]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for i, end in enumerate(ends):
        groups.setdefault(end, []).append(i)
    return groups


def bend(z: Tensor, slopes: tuple[float, float]) -> Tensor:
    """`p max(z, 0) - n max(-z, 0)`."""
    return slopes[0] * z.clamp(min=0) + slopes[1] * z.clamp(max=0)


def dag_forward(
    dag: Dag, x: Float[Tensor, " inputs"], w: Float[Tensor, " edges"]
) -> Float[Tensor, ""]:
    """The output of a graph of neurons.

    Args:
        dag: The graph.
        x: Its inputs, with the constant 1 if there is one.
        w: The weight of every edge.
    """
    values: dict[int, Tensor] = dict(zip(dag.inputs, x, strict=True))
    arriving = dag.arriving()
    for v in dag.order():
        if v not in values:
            terms = [w[i] * values[dag.edges[i].tail] for i in arriving.get(v, ())]
            values[v] = bend(sum(terms, torch.zeros((), dtype=w.dtype)), dag.slopes[v])
    return values[dag.output]


# ------------------------------------------------------------------------------
# Networks of dense layers, drawn neuron by neuron.


MOST_EDGES = 100_000
LINEAR = (1.0, 1.0)
Terms = list[tuple[int, tuple[str, int] | None]]  # what a neuron sums: vertices and weights


class _Builder:
    """Neurons as they are met; a sum stays open until something is applied to it."""

    def __init__(self, model: nn.Module, features: int) -> None:
        self.prefixes = {m: f"{n}." if n else "" for n, m in model.named_modules()}
        self.slopes: list[tuple[float, float]] = [LINEAR] * features
        self.edges: list[Edge] = []
        self.one: int | None = None

    def vertex(self, terms: Terms, slopes: tuple[float, float] = LINEAR) -> int:
        """A neuron that sums some terms; a single fixed 1 into a linear neuron adds none."""
        if slopes == LINEAR and len(terms) == 1 and terms[0][1] is None:
            return terms[0][0]
        self.slopes.append(slopes)
        head = len(self.slopes) - 1
        self.edges.extend(Edge(tail, head, weight) for tail, weight in terms)
        if len(self.edges) > MOST_EDGES:
            raise Refusal(
                f"The network must have at most {MOST_EDGES} weights to be drawn neuron by neuron, "
                "got more. Take a smaller one; counts of paths of dense layers are products of "
                "widths."
            )
        return head

    def constant(self) -> int:
        """The input that is always 1."""
        if self.one is None:
            self.slopes.append(LINEAR)
            self.one = len(self.slopes) - 1
        return self.one

    def linear(self, layer: nn.Linear, read: list[Terms]) -> list[Terms]:
        """A dense layer."""
        tails = [self.vertex(terms) for terms in read]
        width, prefix = layer.in_features, self.prefixes[layer]
        found: list[Terms] = []
        for row in range(layer.out_features):
            terms: Terms = [
                (tail, (f"{prefix}weight", row * width + k)) for k, tail in enumerate(tails)
            ]
            if layer.bias is not None:
                terms.append((self.constant(), (f"{prefix}bias", row)))
            found.append(terms)
        return found


def dag_of(model: nn.Module, *, inputs: int, output: int = 0) -> Dag:
    """The neurons of a small network of dense layers.

    Args:
        model: Of linear layers, ReLU, leaky ReLU, the modulus, sums and concatenations; its input
            is one vector. Left as it was found, and so are random states.
        inputs: How many features that has.
        output: Which output is studied.

    Raises:
        Refusal: If it holds anything else, or too many weights.
    """
    whole = nn.Sequential(model) if isinstance(model, nn.Linear) else model  # else fx enters it
    try:
        with still(whole):  # its forward pass is run, and may draw or write
            graph = fx.symbolic_trace(whole).graph
    except Exception as error:  # fx.Tracer raises many kinds
        raise Refusal(
            f"`model` must have a forward pass without branches on its data, got "
            f"{type(whole).__name__}, of which torch.fx says: {str(error)[:150]}. Write the path "
            "that is taken as a module of its own."
        ) from error
    build = _Builder(model, inputs)
    values: dict[fx.Node, list[Terms]] = {}
    *inner, last = graph.nodes  # a graph ends with its output
    for node in inner:
        if node.op == "placeholder":
            values[node] = [[(i, None)] for i in range(inputs)]
        else:
            target = whole.get_submodule(str(node.target)) if node.op == "call_module" else None
            values[node] = _applied(build, node, target, values)
    # the output that is studied
    ends = last.args[0]
    if not isinstance(ends, fx.Node):
        raise Refusal(
            f"`model` must return one tensor, got a {type(ends).__name__}: wrap it in a module "
            "that returns the part to be studied."
        )
    outputs = values[ends]
    if not 0 <= output < len(outputs):
        raise Refusal(
            f"`output` must be from 0 to {len(outputs) - 1}, for the network has {len(outputs)} "
            f"outputs, got {output}."
        )
    end = build.vertex(outputs[output])
    entries = (*range(inputs), *(() if build.one is None else (build.one,)))
    dag = Dag(entries, end, tuple(build.edges), tuple(build.slopes), build.one is not None)
    # without the neurons that do not reach it
    useful, arriving = {dag.output}, dag.arriving()
    for v in reversed(dag.order()):
        if v in useful:
            useful.update(dag.edges[i].tail for i in arriving.get(v, ()))
    kept = sorted(useful | set(dag.inputs))
    place = {v: i for i, v in enumerate(kept)}
    return Dag(
        tuple(place[v] for v in dag.inputs),
        place[dag.output],
        tuple(Edge(place[e.tail], place[e.head], e.weight) for e in dag.edges if e.head in useful),
        tuple(dag.slopes[v] for v in kept),
        dag.constant,
    )


def _applied(
    build: _Builder, node: fx.Node, target: nn.Module | None, values: Mapping[Any, list[Terms]]
) -> list[Terms]:
    read = [values[a] for a in node.all_input_nodes]
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if isinstance(target, nn.Linear):
        return build.linear(target, read[0])
    if isinstance(target, nn.Identity | nn.Flatten | nn.Dropout) or name == "flatten":
        return read[0]
    slopes = None
    if isinstance(target, nn.ReLU) or name in ("relu", "relu_"):
        slopes = (1.0, 0.0)
    elif isinstance(target, nn.LeakyReLU):
        slopes = (1.0, float(target.negative_slope))
    elif node.target is F.leaky_relu:
        slope = node.kwargs.get("negative_slope", node.args[1] if len(node.args) > 1 else 0.01)
        slopes = (1.0, float(slope))  # pyright: ignore[reportArgumentType]
    elif name == "abs":
        slopes = (1.0, -1.0)
    if slopes is not None:
        return [[(build.vertex(terms, slopes), None)] for terms in read[0]]
    if target is None and name in ("add", "iadd") and len(read) == 2:
        return [a + b for a, b in zip(*read, strict=True)]
    if target is None and name in ("cat", "concat"):
        return [terms for part in read for terms in part]
    raise Refusal(
        f"`{node.name}` must be a linear layer, an activation with two slopes, a sum or a "
        f"concatenation, got {type(target).__name__ if target else name}. Only such networks are "
        "drawn neuron by neuron."
    )


# ------------------------------------------------------------------------------
# Paths through a graph of neurons, and the tree network that computes the same from them.
#
# A path is the set of its EDGES. (With sets of vertices, which the paper's Definitions 9 and 10
# use, a skip connection makes the diagram of inclusions something else than a tree.)


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
        >>> from sigmascope.theory.neuron_graph import Edge
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
    # product of the weights from each leaf to the root
    products = [torch.ones((), dtype=w.dtype)]
    for at in range(1, len(tree.vertex)):
        products.append(w[tree.edge[at]] * products[tree.parent[at]])
    return torch.stack([products[at] for at in tree.leaves]) * leaf_inputs(dag, tree, x)


@dataclass(frozen=True, slots=True, repr=False)
class TreeNetwork(Brief):
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
