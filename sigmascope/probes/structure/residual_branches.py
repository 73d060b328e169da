"""Residual branches: where a model adds something to the stream that it was computed from."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.probes.execution.forward import called
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.hooks import module_name, recording
from sigmascope.probes.execution.layers import layers, normalisers
from sigmascope.probes.samples.batches import Batch, mapped
from sigmascope.probes.structure.output_operation import operation

SUMS = {"add", "add_", "__add__", "__radd__", "__iadd__"}
# operations that only move or scale: a stream is the same stream behind them
MOVES = {
    *("Mul", "Div", "Clone", "View", "UnsafeView", "Permute", "Transpose", "T", "Reshape"),
    *("ReshapeAlias", "NativeDropout", "Expand", "Squeeze", "Unsqueeze", "Slice", "Alias"),
    *("ToCopy", "ConstantPadNd"),
}
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
class _Sum:
    nodes: tuple[Any, Any]
    sizes: tuple[float, float]


class _Sums(TorchFunctionMode):
    """Keeps what every sum of two tensors of one shape adds up."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[_Sum] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if getattr(func, "__name__", "") in SUMS and len(args) > 1:
            a, b = args[:2]
            if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape:
                with torch._C.DisableTorchFunction():
                    by = abs(float(options.get("alpha", 1)))
                    self.seen.append(_Sum((a.grad_fn, b.grad_fn), (_size(a), by * _size(b))))
        return func(*args, **options)


def branches(model: nn.Module, batch: Batch) -> tuple[Branch, ...]:
    """Residual branches of a model, in the order in which they are added.

    A sum has a branch if one of its two sides was computed from the other; where each side has
    weights of its own (a projection shortcut), neither is a branch.

    Args:
        model: Left as it was found.
        batch: What it is run on.

    Raises:
        Refusal: If the model cannot be run on the batch.
    """
    live = mapped(batch, lambda t: t.detach().requires_grad_().clone() if _real(t) else t)
    # torch.Tensor.__add__ is seen where TorchFunctionMode is, hooks' clones included
    with still(model), torch.enable_grad(), _watched(model) as tape, _Sums() as sums:
        called(model, live)
    writers = {c.output.grad_fn: module_name(c.site) for c in tape.calls}
    names = {id(p): name for name, p in model.named_parameters()}
    return tuple(_found(model, sums.seen, writers, names))


def _watched(model: nn.Module) -> Any:
    return recording(layers(model) | normalisers(model))


def _found(
    model: nn.Module, sums: list[_Sum], writers: dict[Any, str], names: dict[int, str]
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


def _writer(
    model: nn.Module, node: Any, writers: dict[Any, str], names: dict[int, str]
) -> tuple[str, tuple[str, ...], bool]:
    """Who wrote a branch last, which parameters multiply all of it, and whether no ReLU does."""
    linear = True
    while node not in writers:
        kind = operation(node)
        inner = [f for f, _ in node.next_functions if f is not None]
        own = [f for f in inner if id(getattr(f, "variable", None)) in names]
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


def _source(node: Any, writers: dict[Any, str]) -> Any:
    """The node behind all that only moves or scales."""
    while node not in writers and operation(node) in MOVES:
        inner = [f for f, _ in node.next_functions if f is not None]
        if len(inner) != 1:
            break
        node = inner[0]
    return node


def _between(node: Any, other: Any) -> set[Any] | None:
    """What `node` was computed from, up to `other`; None if not from `other`."""
    stack, seen, met = [node], {node}, False
    while stack:
        for f, _ in stack.pop().next_functions:
            if f is other:
                met = True
            elif f is not None and f not in seen:
                seen.add(f)
                stack.append(f)
    return seen if met else None


def _size(t: Tensor) -> float:
    return t.detach().double().square().mean().sqrt().item() if t.numel() else 0.0


def _real(t: Tensor) -> bool:
    return t.is_floating_point()
