"""What the operations of a run, which somebody made, tell: branches, saturated units, the last."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.hooks import Call, module_name, recording
from sigmascope.probes.execution.layers import layers, normalisers
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.execution.trace import ENDS, Operations, Sum
from sigmascope.probes.samples.batches import Batch, mapped

NEAR = 0.01  # of the range of an activation, from an end
SHAPES = {"View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "Clone", "Alias"}
# operations that only move or scale: a stream is the same stream behind them
MOVES = {
    *("Mul", "Div", "Clone", "View", "UnsafeView", "Permute", "Transpose", "T", "Reshape"),
    *("ReshapeAlias", "NativeDropout", "Expand", "Squeeze", "Unsqueeze", "Slice", "Alias"),
    *("ToCopy", "ConstantPadNd"),
}
PRODUCTS = {"Bmm", "Mm"}
# what may lie between the last weight of a branch and the sum: a positive factor goes through
THROUGH = {*MOVES, "Relu", "LeakyRelu"}


@dataclass(frozen=True, slots=True)
class Branch:
    """One residual branch.

    Attributes:
        site: The layer, normaliser or parameter that writes it last; empty where none can be told.
        scales: Names of the parameters by which the whole branch is multiplied.
        strength: Root mean square of the branch over that of the stream that it is added to.
        linear: Whether a zero in its last weight could still learn: no ReLU stands behind it, whose
            derivative at zero is zero.
    """

    site: str
    scales: tuple[str, ...]
    strength: float
    linear: bool


@dataclass(frozen=True, slots=True)
class Squash:
    """What a squashing activation gives to the layer that reads it.

    Attributes:
        site: The layer that reads it.
        kind: E.g. `"sigmoid"`.
        saturated: Share of the entries within a hundredth of an end of the range, where the
            derivative is below a twenty-fifth of its largest.
    """

    site: str
    kind: str
    saturated: float


def branches(model: nn.Module, batch: Batch) -> tuple[Branch, ...]:
    """Residual branches of a model, in the order in which they are added.

    A sum has a branch if one of its two sides was computed from the other; where each side has
    weights of its own (a projection shortcut), neither is a branch. Scores of attention are no
    stream: a bias that all layers share, as T5's, reaches those of later layers in two ways.

    Args:
        model: Left as it was found.
        batch: What it is run on.

    Raises:
        Refusal: If the model cannot be run on the batch.

    Cost: a forward pass.
    """
    live = mapped(batch, lambda t: t.detach().requires_grad_() if t.is_floating_point() else t)
    heard = layers(model) | normalisers(model)
    # torch.Tensor.__add__ is seen where TorchFunctionMode is, hooks' clones included
    with still(model), torch.enable_grad(), recording(heard) as tape, Operations() as operations:
        called(model, live)
    return branches_of(model, operations.sums, tape.calls)


def branches_of(model: nn.Module, sums: Sequence[Sum], calls: Sequence[Call]) -> tuple[Branch, ...]:
    """The residual branches of a run that is on the autograd tape.

    Args:
        model: What was run.
        sums: Of the run.
        calls: Of its layers and normalisers.
    """
    # a normaliser without parameters writes no branch: nothing of it could be scaled
    own = [c for c in calls if next(c.module.parameters(), None) is not None]
    writers = {c.output.grad_fn: module_name(c.site) for c in own}
    names = {id(p): name for name, p in model.named_parameters()}
    scores = set(_scores(writers))
    return tuple(_found(model, [s for s in sums if s.node not in scores], writers, names))


def averaged(sums: Sequence[Sum], counts: Sequence[int]) -> Sum:
    """One sum with the sizes that it has over several runs; the nodes are those of the last.

    Args:
        sums: The same sum in every run.
        counts: Samples of each.
    """
    sizes = zip(*(s.sizes for s in sums), strict=True)
    squares = (math.fsum(n * x * x for n, x in zip(counts, side, strict=True)) for side in sizes)
    a, b = (math.sqrt(square / sum(counts)) for square in squares)
    return replace(sums[-1], sizes=(a, b))


def squashes(calls: Sequence[Call], squashed: Sequence[tuple[str, Tensor]]) -> tuple[Squash, ...]:
    """Every layer that reads what a squashing activation wrote, in the order of calls.

    Activations inside fused recurrent layers are not seen.

    Args:
        calls: Of layers.
        squashed: What activations of the same run wrote, with their kind.
    """
    wrote = {t.untyped_storage().data_ptr(): (kind, t) for kind, t in squashed}
    found = []
    for c in calls:
        kind, t = wrote.get(c.input.untyped_storage().data_ptr(), ("", None))
        if t is not None and t.numel():
            low, high = ENDS[kind]
            edge = NEAR * (high - low)
            share = ((t < low + edge) | (t > high - edge)).double().mean().item()
            found.append(Squash(c.site, kind, share))
    return tuple(found)


def closing_operation(output: Tensor, trained: Collection[Tensor]) -> str:
    """The operation that computes an output, changes of shape aside, in autograd's words.

    Args:
        output: On the autograd tape.
        trained: Parameters, on one of which it must depend.

    Returns:
        E.g. `"Softmax"`, `"Addmm"`; empty where the output depends on none of them.
    """
    node = output.grad_fn
    while node is not None and node.next_functions and operation(node) in SHAPES:
        node = node.next_functions[0][0]
    wanted = {id(p) for p in trained}
    if node is None:
        return ""
    return operation(node) if any(id(leaf(n)) in wanted for n in behind(node)) else ""


def operation(node: torch.autograd.graph.Node) -> str:
    """What a node of the autograd graph computed, e.g. `"Addmm"`."""
    return node.name().rstrip("0123456789").removesuffix("Backward")


def _found(
    model: nn.Module, sums: Sequence[Sum], writers: dict[Any, str], names: dict[int, str]
) -> Iterator[Branch]:
    for one in sums:
        (a, b), (size_a, size_b) = one.nodes, one.sizes
        if a is None or b is None or a is b:
            continue
        if (between := _between(b, _source(a, writers))) is not None:
            stream, branch, node = size_a, size_b, b
        elif (between := _between(a, _source(b, writers))) is not None:
            stream, branch, node = size_b, size_a, a
        else:
            continue
        if not any(f in writers for f in between):  # arithmetic without weights is no branch
            continue
        site, scales, linear = _writer(model, node, writers, names)
        yield Branch(site, scales, branch / stream if stream > 0 else float("inf"), linear)


def _scores(ends: Collection[Any]) -> Iterator[Any]:
    """Nodes that a softmax makes the weights of a product from, bare of what only moves them."""
    seen: set[Any] = set()
    for end in ends:
        seen |= behind(end) if end is not None and end not in seen else set()
    for node in seen:
        if operation(node) in PRODUCTS:
            weights = _source(node.next_functions[0][0], ())
            if weights is not None and operation(weights) == "Softmax":
                yield _source(weights.next_functions[0][0], ())


def _writer(
    model: nn.Module, node: Any, writers: dict[Any, str], names: dict[int, str]
) -> tuple[str, tuple[str, ...], bool]:
    """Who wrote a branch last, which parameters multiply all of it, and whether no ReLU does."""
    linear = True
    while node not in writers:
        kind = operation(node)
        inner = [f for f, _ in node.next_functions if f is not None]
        own = [f for f in inner if id(leaf(f)) in names]
        if kind == "Mul" and own:  # a learned factor, as LayerScale
            name = names[id(own[0].variable)]
            return name.rpartition(".")[0] or name, (name,), linear
        if kind not in THROUGH or len(inner) != 1:
            return "", (), linear
        linear = linear and kind != "Relu"
        node = inner[0]
    site = writers[node]
    module = model.get_submodule(site)
    if isinstance(module, nn.MultiheadAttention):
        module, site = module.out_proj, f"{site}.out_proj"
    if isinstance(module, nn.RNNBase):
        return site, (), linear
    prefix = f"{site}." if site else ""
    own = tuple(f"{prefix}{n}" for n, _ in module.named_parameters(recurse=False))
    return site, own, linear


def _source(node: Any, writers: Collection[Any]) -> Any:
    """The node behind all that only moves or scales."""
    while node is not None and node not in writers and operation(node) in MOVES:
        inner = [f for f, _ in node.next_functions if f is not None]
        if len(inner) != 1:
            break
        node = inner[0]
    return node


def _between(node: Any, other: Any) -> set[Any] | None:
    """What `node` was computed from, up to `other`; None if not from `other`."""
    seen = behind(node, other)
    return None if node is other or other not in seen else seen - {other}


def behind(node: Any, end: Any = None) -> set[Any]:
    """A node and all that it was computed from, but what is behind an end."""
    stack, seen = [node], {node}
    while stack:
        for f, _ in stack.pop().next_functions:
            if f is not None and f not in seen:
                seen.add(f)
                stack += [f] if f is not end else []
    return seen


def leaf(node: Any) -> Tensor | None:
    """The parameter or input that a node of the autograd graph stands for, if it does."""
    return getattr(node, "variable", None)
