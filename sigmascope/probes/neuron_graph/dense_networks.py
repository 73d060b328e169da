"""Networks of dense layers, drawn neuron by neuron."""

from collections.abc import Mapping
from typing import Any

from torch import fx, nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.probes.execution import still
from sigmascope.probes.neuron_graph.graph import Dag, Edge

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
    graph = _traced(whole)
    build = _Builder(model, inputs)
    values: dict[fx.Node, list[Terms]] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = [[(i, None)] for i in range(inputs)]
        elif node.op == "output":
            end = build.vertex(_chosen(values, node.args[0], output))
            entries = (*range(inputs), *(() if build.one is None else (build.one,)))
            found = Dag(
                entries, end, tuple(build.edges), tuple(build.slopes), build.one is not None
            )
            return _trimmed(found)
        else:
            target = whole.get_submodule(str(node.target)) if node.op == "call_module" else None
            values[node] = _applied(build, node, target, values)
    raise AssertionError("a graph ends with its output")


def _traced(model: nn.Module) -> fx.Graph:
    try:
        with still(model):  # its forward pass is run, and may draw or write
            return fx.symbolic_trace(model).graph
    except Exception as error:  # fx.Tracer raises many kinds
        raise Refusal(
            f"`model` must have a forward pass without branches on its data, got "
            f"{type(model).__name__}, of which torch.fx says: {str(error)[:150]}. Write the path "
            "that is taken as a module of its own."
        ) from error


def _chosen(values: Mapping[fx.Node, list[Terms]], ends: Any, output: int) -> Terms:
    """The output that is studied."""
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
    return outputs[output]


def _applied(
    build: _Builder, node: fx.Node, target: nn.Module | None, values: Mapping[Any, list[Terms]]
) -> list[Terms]:
    read = [values[a] for a in node.all_input_nodes]
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if isinstance(target, nn.Linear):
        return build.linear(target, read[0])
    if isinstance(target, nn.Identity | nn.Flatten | nn.Dropout) or name == "flatten":
        return read[0]
    slopes = _slopes(target, str(name), node)
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


def _slopes(target: nn.Module | None, name: str, node: fx.Node) -> tuple[float, float] | None:
    if isinstance(target, nn.ReLU) or name in ("relu", "relu_"):
        return (1.0, 0.0)
    if isinstance(target, nn.LeakyReLU):
        return (1.0, float(target.negative_slope))
    if node.target is F.leaky_relu:
        slope = node.kwargs.get("negative_slope", node.args[1] if len(node.args) > 1 else 0.01)
        return (1.0, float(slope))  # pyright: ignore[reportArgumentType]
    return (1.0, -1.0) if name == "abs" else None


def _trimmed(dag: Dag) -> Dag:
    """Without the neurons that do not reach the output."""
    useful, arriving = {dag.output}, dag.arriving()
    for v in reversed(dag.order()):
        if v in useful:
            useful.update(dag.edges[i].tail for i in arriving.get(v, ()))
    edges = tuple(e for e in dag.edges if e.head in useful)
    kept = sorted(useful | set(dag.inputs))
    place = {v: i for i, v in enumerate(kept)}
    return Dag(
        tuple(place[v] for v in dag.inputs),
        place[dag.output],
        tuple(Edge(place[e.tail], place[e.head], e.weight) for e in edges),
        tuple(dag.slopes[v] for v in kept),
        dag.constant,
    )
