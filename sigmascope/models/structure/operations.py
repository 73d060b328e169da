"""What the operations of a run, which somebody made, tell: branches, saturated units, the last."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, final

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.linalg.dense import EPS
from sigmascope.models.layers import (
    Call,
    called,
    is_reparametrised,
    layers,
    module_name,
    normalisers,
    recording,
)
from sigmascope.models.samples import Batch, mapped
from sigmascope.models.state import still
from sigmascope.models.trace import ENDS, Operations, Sum, storage_of

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
    # what a softmax makes the weights of a product from, bare of what only moves it, is no stream
    seen: set[Any] = set()
    for end in writers:
        seen |= behind(end) if end is not None and end not in seen else set()
    scores: set[Any] = set()
    for node in (n for n in seen if operation(n) in PRODUCTS):
        weights = _source(node.next_functions[0][0], ())
        if weights is not None and operation(weights) == "Softmax":
            scores.add(_source(weights.next_functions[0][0], ()))
    found: list[Branch] = []
    for one in (s for s in sums if s.node not in scores):
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
        found.append(Branch(site, scales, branch / stream if stream > 0 else float("inf"), linear))
    return tuple(found)


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
    wrote = {storage_of(t): (kind, t) for kind, t in squashed}
    found = []
    for c in calls:
        kind, t = wrote.get(storage_of(c.input), ("", None))
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
    # what a norm divides out or a mask keeps is no factor, and what is left is the bias
    if isinstance(module, nn.RNNBase) or is_reparametrised(module):
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


# ------------------------------------------------------------------------------
# What lies between two layers, asked with numbers of our own in the place of what layers write.
#
# A batch tells what an activation does to the numbers that happen to occur on it. Where no unit is
# below zero a ReLU looks like no activation at all, near zero a tanh does, and far from zero a GELU
# looks like a ReLU. So the model is run again, and every layer passes on numbers of both signs and
# of all sizes.


SIZES = (1.0, 30.0, 0.1, 4.0, 300.0, 0.01, 1000.0, 0.4)  # where activations bend, and beyond
FINE = 32  # layers in turn whose numbers differ by a factor of their own, also in half precision
UNKNOWN = "it cannot be told what its activations are, as it does not run on other numbers"

Between = tuple[Tensor, Tensor, str]


def planted(
    model: nn.Module, batch: Batch, calls: Sequence[Call], *, shift: int = 0, sign: int = 1
) -> list[Call] | None:
    """The calls of a run in which every layer passes on numbers that are planted.

    Args:
        model: Which somebody holds still.
        batch: What it is run on.
        calls: Of a plain run: of layers, which pass on other numbers, and of normalisers, which do
            not.
        shift: From which size on; another one lets a single unit meet another size.
        sign: 1 or -1; with both, each entry meets both signs.

    Returns:
        None where the model cannot be run so, or calls other layers.

    Cost: a forward pass.
    """
    order = iter(range(len(calls)))

    def plant(module: nn.Module, read: Tensor, wrote: Tensor) -> Tensor:
        if module not in ours:
            return wrote
        # the sizes in turn, every other one below zero; of each layer by a factor of its own
        layer = next(order, 0)
        sizes = torch.tensor(SIZES, dtype=torch.float64).roll(-shift - layer // FINE)
        signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(len(SIZES) // 2)
        numbers = sign * (sizes * signs * 2 ** (layer % FINE / FINE)).to(wrote)
        return numbers.repeat(-(-wrote.numel() // len(numbers)))[: wrote.numel()].view(wrote.shape)

    ours = set(layers(model).values())
    modules = {module_name(c.site): c.module for c in calls}
    try:
        with torch.no_grad(), recording(modules, rewrite=plant) as tape:
            called(model, batch)
    except Refusal:
        return None
    same = [c.site for c in tape.calls] == [c.site for c in calls]
    return tape.calls if same else None


def between(calls: Sequence[Call]) -> Iterator[Between]:
    """What each layer passed on, what the next one read, and where: a row for each sample."""
    for before, after in pairwise(calls):
        z, a = before.output.detach(), after.input
        yield z.flatten(1), a.flatten(1), f"between {before.site} and {after.site}"


# ------------------------------------------------------------------------------
# A running error bound of what is known of a stack at an input.
#
# Every product adds its own roundings to what the error of its operand becomes (Higham 2002, Sec.
# 3.3). The invariant: the norm of the error of row `i` of a derivative is at most `rows[i]`, and
# that of all of it at most `whole`. Rows matter because a unit that is off passes no error on; the
# whole because norms of matrices grow more slowly than sums over their rows. A unit whose side
# rounding may have decided counts as both.


Vectors = Sequence[Float64[Tensor, " _"]]
Matrices = Sequence[Float64[Tensor, "_ _"]]


@final
@dataclass(frozen=True, slots=True)
class Errors:
    """How far rounding may have moved what is known of a stack at an input.

    Attributes:
        preactivations: Of each entry of `z_1` to `z_L`.
        decided: Whether every unit is surely on one side of its kink, or exactly at it.
        chains: Of `∂z_1/∂x` to `∂z_L/∂x`, in the Frobenius norm.
        forwards: Of `∂α_0/∂x` to `∂α_{L-1}/∂x`.
        backwards: Of `∂f/∂z_1` to `∂f/∂z_L`.
        reads: Of `∂f/∂α_0` to `∂f/∂α_{L-1}`.
    """

    preactivations: tuple[Float64[Tensor, " _"], ...]
    decided: bool
    chains: tuple[float, ...]
    forwards: tuple[float, ...]
    backwards: tuple[float, ...]
    reads: tuple[float, ...]

    @property
    def jacobian(self) -> float:
        """Of `∂f/∂x`."""
        return self.reads[0]


def running_errors(
    weights: Matrices,
    biases: Vectors,
    norms: Sequence[float],
    *,
    slope: float,
    activations: Vectors,
    preactivations: Vectors,
    forwards: Matrices,
    backwards: Matrices,
) -> Errors:
    """The errors of everything at one input.

    Args:
        weights: `W_1` to `W_L`, exact.
        biases: `b_1` to `b_L`, exact.
        norms: At least `‖W_l‖`.
        slope: Of the activation below zero.
        activations: `α_0` to `α_{L-1}`, as computed; so are the others.
        preactivations: `z_1` to `z_L`.
        forwards: `∂α_0/∂x` to `∂α_{L-1}/∂x`.
        backwards: `∂f/∂z_1` to `∂f/∂z_L`.

    Source:
        Higham 2002, Accuracy and Stability of Numerical Algorithms, Sec. 3.1 and 3.3.
    """
    # the error of every pre-activation, and on which side the units are
    units, gates, before = list[Tensor](), list[Gate](), torch.zeros_like(activations[0])
    steepest = torch.tensor(max(1.0, abs(slope)), dtype=torch.float64)
    for W, b, a, z in zip(weights, biases, activations, preactivations, strict=True):
        size = W.abs() @ a.abs() + b.abs()
        units.append(W.abs() @ before + (len(a) + 2) * EPS * size)
        slopes = torch.where(z > 0, 1.0, slope).abs()
        unsure = (z.abs() <= units[-1]) & (units[-1] > 0)
        gates.append((slopes, unsure))
        before = torch.where(unsure, steepest, slopes) * units[-1] + EPS * slopes * z.abs()
    last = gates[-1][0]  # the output has no kink
    gates[-1] = (torch.ones_like(last), torch.zeros_like(last, dtype=torch.bool))
    spread = abs(1 - slope)  # how far the slopes of the two sides of a kink are apart
    chains, ahead = [0.0], [0.0]  # the first and the last product are the weights themselves
    state = _Rows.none(len(weights[0])).gated(weights[0], gates[0], spread)
    for W, norm, F, gate in zip(weights[1:], norms[1:], forwards[1:], gates[1:], strict=True):
        ahead.append(state.whole)
        state = state.multiplied(W, norm, F)
        chains.append(state.whole)
        state = state.gated(W @ F, gate, spread)
    state, reads, back = _Rows.none(weights[-1].shape[1]), [0.0], [0.0]
    for layer in reversed(range(len(weights) - 1)):
        W, B = weights[layer], backwards[layer]
        above = (
            weights[-1] if layer == len(weights) - 2 else backwards[layer + 1] @ weights[layer + 1]
        )
        state = state.gated(above.mT, gates[layer], spread)
        back.append(state.whole)
        state = state.multiplied(W.mT, norms[layer], B.mT)
        reads.append(state.whole)
    decided = not any(bool(unsure.any()) for _, unsure in gates)
    both = tuple(reversed(back)), tuple(reversed(reads))
    return Errors(tuple(units), decided, tuple(chains), tuple(ahead), *both)


Gate = tuple[Tensor, Tensor]  # the slope of each unit, and whether it may be the other one


@final
@dataclass(frozen=True, slots=True)
class _Rows:
    """Bounds of the errors of a derivative: of each row, and of all of it."""

    rows: Tensor
    whole: float

    @classmethod
    def none(cls, count: int) -> "_Rows":
        return cls(torch.zeros(count, dtype=torch.float64), 0.0)

    def multiplied(self, W: Tensor, norm: float, F: Tensor) -> "_Rows":
        """Of `W F`, where this is of `F` and `W` is exact, of at most this spectral norm."""
        own = (W.shape[1] + 2) * EPS
        sizes = F.norm(dim=1)
        rows = W.abs() @ (self.rows + own * sizes)
        return self.bounded(rows, norm * self.whole + own * float(W.norm()) * float(F.norm()))

    def gated(self, rows: Tensor, gate: Gate, spread: float) -> "_Rows":
        """Of rows that were multiplied by the slopes of units, where this is of the rows."""
        slopes, unsure = gate
        sizes = rows.norm(dim=1)
        other = torch.where(unsure, spread * (sizes + self.rows), 0.0)
        passed = slopes * (self.rows + EPS * sizes)
        steepest = max(1.0, float(slopes.max()))
        extra = float((other + EPS * slopes * sizes).norm())
        return self.bounded(passed + other, steepest * self.whole + extra)

    @staticmethod
    def bounded(rows: Tensor, whole: float) -> "_Rows":
        whole = min(float(rows.norm()), whole)
        return _Rows(rows.clamp_max(whole), whole)
