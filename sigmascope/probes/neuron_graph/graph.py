"""Small networks as graphs of neurons, one vertex a neuron and one edge a weight."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.gate import Refusal


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
