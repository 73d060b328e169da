"""Which weights are adjacent: whose output reaches whose input with no other weight between."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.probes.batches import Batch, as_tensor, mapped, tensors
from sigmascope.probes.stillness import still

INPUT, OUTPUT = "(input)", "(output)"


@dataclass(frozen=True, slots=True)
class Graph:
    """Adjacency of the weights of two or more dimensions.

    Attributes:
        edges: `(from, to)` by parameter name; `"(input)"` and `"(output)"` are the ends.
        how: `"torch.export"`, or `"autograd"` with the reason why export failed.
    """

    edges: tuple[tuple[str, str], ...]
    how: str


@dataclass(slots=True)
class _Node:
    """One operation: what it reads, and whether it is a weight or data itself."""

    inputs: list[Any]
    weight: str = ""
    data: bool = False
    reads: set[str] = field(default_factory=set)


def graph(model: nn.Module, batch: Batch) -> Graph:
    """Which weights are adjacent in one run of the model on a batch.

    Read from the program that `torch.export` finds; where that fails (control flow that depends on
    the data, unsupported operations), from the autograd graph of one run, which shows the same for
    the branch that was taken.
    """
    try:
        nodes, outputs = _exported(model, batch)
        return Graph(_edges(nodes, outputs), "torch.export")
    except Exception as error:  # noqa: BLE001 (export fails in many ways; the reason is reported)
        reason = (
            str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        )
    nodes, outputs = _differentiated(model, batch)
    return Graph(_edges(nodes, outputs), f"autograd (torch.export failed: {reason})")


def _exported(model: nn.Module, batch: Batch) -> tuple[dict[Any, _Node], list[Any]]:
    args, kwargs = (batch,), {}
    if isinstance(batch, dict):
        args, kwargs = (), batch
    elif isinstance(batch, tuple):
        args = batch
    with still(model):
        program = torch.export.export(model, args, kwargs, strict=False)
    owners = program.graph_signature.inputs_to_parameters
    users = set(program.graph_signature.user_inputs)
    first = {id(p): name for name, p in model.named_parameters()}  # one name for tied weights
    names = {k: first[id(p)] for k, p in model.named_parameters(remove_duplicate=False)}
    nodes: dict[Any, _Node] = {}
    for node in program.graph.nodes:
        name = names.get(owners.get(node.name, ""), "")
        heavy = bool(name) and model.get_parameter(name).ndim >= 2
        reads = list(node.all_input_nodes)
        nodes[node] = _Node(reads, name if heavy else "", node.name in users)
    last = next(node for node in nodes if node.op == "output")
    wanted = {
        spec.arg.name
        for spec in program.graph_signature.output_specs
        if spec.kind.name == "USER_OUTPUT"
    }
    return nodes, [n for n in last.all_input_nodes if n.name in wanted]


def _differentiated(model: nn.Module, batch: Batch) -> tuple[dict[Any, _Node], list[Any]]:
    """The autograd graph of one run on stand-ins that share the parameters' memory."""
    stand_ins = {
        k: p.detach().requires_grad_(p.is_floating_point()) for k, p in model.named_parameters()
    }
    live = mapped(batch, lambda t: t.detach().requires_grad_(t.is_floating_point()))
    with still(model), torch.enable_grad():
        args = (
            () if isinstance(live, dict) else (live,) if isinstance(live, Tensor) else tuple(live)
        )
        kwargs = live if isinstance(live, dict) else {}
        out = as_tensor(torch.func.functional_call(model, stand_ins, args, kwargs))[0]
    names = {id(p): k for k, p in stand_ins.items() if p.ndim >= 2}
    ours = {id(t) for t in tensors(live)}
    nodes: dict[Any, _Node] = {}
    stack = [out.grad_fn]
    while stack:
        fn = stack.pop()
        if fn is None or fn in nodes:
            continue
        variable = getattr(fn, "variable", None)  # only the leaves of the graph have one
        inputs = [f for f, _ in fn.next_functions if f is not None]
        data = id(variable) in ours or "Embedding" in fn.name()
        nodes[fn] = _Node(inputs, names.get(id(variable), ""), data)
        stack.extend(inputs)
    return _in_order(nodes, out.grad_fn), [out.grad_fn]


def _in_order(nodes: dict[Any, _Node], root: Any) -> dict[Any, _Node]:
    """The same nodes, each after all that it reads."""
    done: dict[Any, _Node] = {}
    stack = [root]
    while stack:
        fn = stack[-1]
        waiting = [i for i in nodes[fn].inputs if i not in done]
        if waiting:
            stack.extend(waiting)
        else:
            done.setdefault(fn, nodes[fn])
            stack.pop()
    return done


def _edges(nodes: dict[Any, _Node], outputs: Iterable[Any]) -> tuple[tuple[str, str], ...]:
    """Carry forward, from each weight to the next, the names of what was applied last.

    A node that reads only weights (a transpose, a parametrisation) is still a weight; one that
    reads data and a weight applies it.
    """
    weights: dict[Any, set[str]] = {}
    edges: dict[tuple[str, str], None] = {}
    for key, node in nodes.items():
        applied = set().union(*(weights.get(i, set()) for i in node.inputs))
        reached = set().union(*(nodes[i].reads for i in node.inputs))
        if node.data:
            reached = reached | {INPUT}
        if node.weight:
            weights[key] = {node.weight}
        elif applied and not reached:
            weights[key] = applied
        elif applied:
            edges.update({(a, b): None for a in sorted(reached) for b in sorted(applied)})
            node.reads = applied
        else:
            node.reads = reached
    edges.update({(a, OUTPUT): None for o in outputs for a in sorted(nodes[o].reads)})
    return tuple(edges)
