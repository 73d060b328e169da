"""What a few steps of training do to every weight, read of a copy of one width.

The idea: what one weight's change does to what its layer writes is the difference between the
layer as it is and the layer with that weight put back, on what it read before training. So no kind
of layer needs a formula, multipliers inside of a layer count, and what earlier layers have done is
left out. The invariant: the user's model is copied and left as it was; a weight that no call can be
read of is named.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd
from torch.overrides import TorchFunctionMode

from sigmascope.diagnosis.programs.optimizers import Recipe
from sigmascope.diagnosis.training.runs import TrainingRun, TrainingSamples, started
from sigmascope.linalg import frobenius_norm, spectral_norm
from sigmascope.models.layers import called, rounding
from sigmascope.models.samples import Batch, as_tensor
from sigmascope.models.state import duplicate, still

OUTPUT = "(output)"
ROUNDINGS = 1  # of what a layer writes, by which it may differ where nothing was changed
SCORES = "(scores of attention {})"


@dataclass(slots=True)
class WeightReadings:
    """Of one weight, or of one product that training changes.

    Attributes:
        shape: Of the weight; empty for products.
        features: How many numbers its layer reads at a place, and writes; the same for a vector.
        values: Readings by name; what could not be had is absent.
        owner: The layer that was called.
        is_last: Whether its layer writes the output, or a multiple of it.
        asks: Whether its layer writes queries or keys of attention, and nothing else.
    """

    shape: tuple[int, ...] = ()
    features: tuple[int, int] = (1, 1)
    values: dict[str, float] = field(default_factory=dict)
    owner: str = ""
    is_last: bool = False
    asks: bool = False


@dataclass(slots=True)
class RunReadings:
    """Of one width and seed.

    Attributes:
        weights: By the name of the parameter; products of attention among them.
        losses: Before every step.
        unread: Weights of which no call could be read, and why.
        shared: Names of one tensor that has several.
    """

    weights: dict[str, WeightReadings]
    losses: list[float]
    unread: dict[str, str]
    shared: tuple[tuple[str, ...], ...] = ()


@dataclass(slots=True)
class Seen:
    """One call of a layer."""

    args: tuple[Any, ...]
    named: dict[str, Any]
    output: Tensor

    @property
    def read(self) -> Tensor | None:
        given = [a for a in (*self.args, *self.named.values()) if isinstance(a, Tensor)]
        return given[0] if given else None


class _Scores(TorchFunctionMode):
    """Keeps what is handed to softmax in attention, and where queries and keys lie."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Tensor, frozenset[int]]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it, and note the scores."""
        named = dict(kwargs or {})
        if func is F.scaled_dot_product_attention:
            q, k = args[0], args[1]
            scale = named.get("scale") or q.shape[-1] ** -0.5
            with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
                if q.ndim == k.ndim == 4 and q.shape[1] != k.shape[1]:  # keys that heads share
                    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
                places = frozenset(t.untyped_storage().data_ptr() for t in (args[0], args[1]))
                self.found.append((q @ k.mT * scale, places))
        elif func in (F.softmax, torch.softmax, Tensor.softmax) and args and args[0].ndim > 3:
            self.found.append((args[0].detach(), frozenset()))
        return func(*args, **named)


@contextmanager
def watched(owners: Mapping[str, nn.Module]) -> Iterator[dict[str, Seen]]:
    """The last call of every owner of a weight, by its name."""
    seen: dict[str, Seen] = {}
    handles: list[Any] = []

    def listen(name: str, module: nn.Module) -> None:
        def note(_: nn.Module, args: Any, named: Any, output: Any) -> None:
            with suppress(Exception):  # a module may write what holds no tensor
                seen[name] = Seen(args, dict(named), as_tensor(output)[0].detach())

        handles.append(module.register_forward_hook(note, with_kwargs=True))

    for name, module in owners.items():
        listen(name, module)
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _looked(
    model: nn.Module, batch: Batch, owners: Mapping[str, nn.Module]
) -> tuple[dict[str, Seen], Tensor, list[tuple[Tensor, frozenset[int]]]]:
    """One run without dropout: what layers read and wrote, the output, scores of attention."""
    scores = _Scores()
    with still(model), torch.no_grad(), watched(owners) as seen, scores:
        output = as_tensor(called(model, batch))[0]
    return seen, output.detach(), scores.found


@contextmanager
def holding(module: nn.Module, values: Mapping[str, Tensor]) -> Iterator[None]:
    """With other numbers in some of its weights, which stay the objects that they are."""
    # parameters and no tensors in their place: a layer may read what a library notes on them
    own = dict(module.named_parameters(remove_duplicate=False))
    kept = {name: own[name].data for name in values}
    try:
        for name, value in values.items():
            own[name].data = value
        yield
    finally:
        for name, value in kept.items():
            own[name].data = value


def rms(t: Tensor) -> float:
    """Root mean square of the entries."""
    return float(t.detach().double().square().mean().sqrt()) if t.numel() else 0.0


def read_run(
    model: nn.Module,
    recipe: Recipe,
    data: TrainingSamples,
    steps: int,
    *,
    clip: float | None = None,
) -> RunReadings:
    """A few steps of training of a copy, and what they did.

    Args:
        model: Left as it is.
        recipe: Makes its optimizer.
        data: It is trained on batches of these, and read on the first.
        steps: So many.
        clip: Norm to which gradients are clipped.
    """
    run = started(model, recipe, data.size, clip=clip)
    batch, _ = next(data.draws(data.size))
    copy = run.model
    # one that is shared stands under each of its names, for it does something else at each place
    first = {n: p for n, p in copy.named_parameters(remove_duplicate=False) if p.requires_grad}
    names: dict[int, list[str]] = {}
    for name, p in first.items():
        names.setdefault(id(p), []).append(name)
    modules = dict(copy.named_modules())
    # what computes a weight is called for the weight alone, and says nothing of what that does
    chains = {
        name: [
            ".".join(parts[:i])
            for i in range(len(parts) - 1, -1, -1)
            if "parametrizations" not in parts[:i]
        ]
        for name in first
        if (parts := name.split("."))
    }
    owners = {c: modules[c] for chain in chains.values() for c in chain if c and c in modules}
    owners[""] = copy
    before = {n: p.detach().clone() for n, p in first.items()}
    seen0, out0, scores0 = _looked(copy, batch, owners)
    asked = frozenset[int]().union(*(places for _, places in scores0))
    found: dict[str, WeightReadings] = {}
    unread: dict[str, str] = {}
    for name, p in first.items():
        place = next((c for c in chains[name] if c in seen0), None)
        if place is None:
            unread[name] = "no call of its layer was seen"
            continue
        call = seen0[place]
        one = WeightReadings(tuple(p.shape), owner=place)
        one.features = _features(modules[place], p, call)
        one.is_last = parallel(call.output, out0)
        one.asks = call.output.untyped_storage().data_ptr() in asked
        v = one.values
        v["initial entry"] = rms(p)
        if p.ndim > 1:
            _norms(v, "weight", before[name])
        if place:
            v["written"] = rms(call.output)
            floats = call.read is not None and call.read.is_floating_point()
            v["read"] = rms(call.read) if call.read is not None and floats else 1.0
            if one.is_last and v["written"] > 0:
                v["multiplier"] = rms(out0) / v["written"]
        found[name] = one
    for place, (scores, _) in enumerate(scores0, start=1):
        found[SCORES.format(place)] = WeightReadings(values={"written": rms(_finite(scores))})
    for step in range(1, steps + 1):
        run.go_on(data, step)
        if not run.finite or run.steps < step:
            break
        if step == 1:
            read_degrees(run, duplicate(model), before, found)
        if step not in (1, 2, steps):
            continue
        # what the weights' changes do after so many steps; the first that does anything counts
        seen, out, scores = _looked(copy, batch, owners)
        own = dict(copy.named_parameters(remove_duplicate=False))
        if not bool(out.isfinite().all()):
            continue
        ends = [end for end, at in ((LATE, step == steps), (EARLY, step < 3)) if at]
        whole = rms(out - out0)
        found.setdefault(OUTPUT, WeightReadings(values={"written": rms(out0)}))
        for end in ends:
            found[OUTPUT].values.setdefault(f"changed{end}", whole)
        for place, ((now, _), (then, _)) in enumerate(zip(scores, scores0, strict=False), start=1):
            if now.shape == then.shape:
                for end in ends:
                    moved = rms(_finite(now - then))
                    if moved > 0:
                        found[SCORES.format(place)].values.setdefault(f"changed{end}", moved)
        with still(copy), torch.no_grad():
            for name, one in found.items():
                if name not in before or one.owner not in seen or one.owner not in seen0:
                    continue
                change, gradient = own[name].detach() - before[name], own[name].grad
                if bool(change.any()):
                    calls = seen0[one.owner], seen[one.owner]
                    _read_change(name, one, owners[one.owner], before, calls, change, ends)
                    if EARLY in ends and gradient is not None:
                        one.values.setdefault("gradient", rms(gradient))
    losses = [*run.losses]
    shared = tuple(tuple(many) for many in names.values() if len(many) > 1)
    return RunReadings(found, losses, unread, shared)


def _read_change(
    name: str,
    one: WeightReadings,
    module: nn.Module,
    before: Mapping[str, Tensor],
    calls: tuple[Seen, Seen],
    change: Tensor,
    ends: Sequence[str],
) -> None:
    """What the change of one weight does, and what initial weights make of others' changes."""
    v, (then, now) = one.values, calls
    prefix = f"{one.owner}." if one.owner else ""
    initial = {n[len(prefix) :]: p for n, p in before.items() if n.startswith(prefix)}

    def run(values: Mapping[str, Tensor], call: Seen) -> Tensor:
        with holding(module, values):
            return as_tensor(module(*call.args, **call.named))[0]

    try:
        # on what it read at first: what earlier layers have done since is theirs
        effect = rms(run({}, then) - run({name[len(prefix) :]: before[name]}, then))
    except Exception:  # noqa: BLE001 (a layer may take no other weight)
        return
    if effect <= rounding(then.output.dtype, ROUNDINGS) * rms(then.output):
        return  # as of a bias whose sum a normaliser takes away
    read, reads = then.read, now.read
    moved = carried = 0.0
    if change.ndim > 1 and read is not None and reads is not None and read.is_floating_point():
        moved = rms(reads - read) if reads.shape == read.shape else 0.0
    if moved > 0:
        carried = rms(run(initial, now) - then.output) / moved * v.get("multiplier", 1.0)
    for end in ends:
        if f"effect{end}" in v:
            continue
        v[f"effect{end}"] = effect * v.get("multiplier", 1.0)
        v[f"change of entry{end}"] = rms(change)
        if change.ndim > 1 and end == EARLY:
            _norms(v, "change", change, end)
            norm, size = v.get(f"norm of change{end}", 0.0), v.get("read", 0.0)
            if norm > 0 and size > 0 and read is not None and read.is_floating_point():
                # of a change that acts on one vector: ‖ΔW x‖ beside ‖ΔW‖₂ ‖x‖
                fan_in, fan_out = one.features
                v["alignment"] = effect / (norm * size) * math.sqrt(fan_out / fan_in)
        if one.owner and now.output.shape == then.output.shape:
            v[f"changed{end}"] = rms(now.output - then.output)
        if carried > 0:
            v[f"carried{end}"] = carried


EARLY, LATE = " at first", " at last"


def read_degrees(
    run: TrainingRun,
    model: nn.Module,
    before: Mapping[str, Tensor],
    found: Mapping[str, WeightReadings],
) -> None:
    """By which power of the gradient each weight moves: 1 of plain SGD, 0 of Adam and signs.

    Between, where a constant beside the gradient (Adam's epsilon) matters. It is told from the
    step that was made and one from the same weights, of another copy of the model, with twice the
    gradient.
    """
    own = dict(run.model.named_parameters(remove_duplicate=False))
    twin = TrainingRun(run.recipe, run.size, model)
    for name, p in twin.model.named_parameters():
        grad = own[name].grad
        p.grad = None if grad is None else 2 * grad.detach()
    try:
        twin.optimizer.step()
    except Exception:  # noqa: BLE001 (an optimizer may evaluate the loss itself)
        return
    for name, p in twin.model.named_parameters(remove_duplicate=False):
        if name in found:
            small, large = (rms(q.detach() - before[name]) for q in (own[name], p))
            if small > 0 and large > 0:
                found[name].values["degree"] = math.log2(large / small)


def _features(module: nn.Module, p: Tensor, call: Seen) -> tuple[int, int]:
    """How many numbers a weight sums over for each that it writes, and how many it writes."""
    if p.ndim < 2:
        return 1, p.numel()
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return 1, p.shape[-1]
    read, wrote = call.read, call.output
    convolves = isinstance(module, _ConvNd)
    channels = wrote.shape[1] if convolves and wrote.ndim > 1 else wrote.shape[-1]
    told = channels in p.shape and read is not None and not any(module.children())
    # where the output does not say which side is written, as of gates, it is the first
    outputs = int(channels if told else p.shape[0])
    return max(p.numel() // outputs, 1), outputs


def _norms(values: dict[str, float], what: str, matrix: Tensor, end: str = "") -> None:
    flat = matrix.flatten(1).double()
    if not bool(flat.isfinite().all()):
        return
    top, size = spectral_norm(flat).value, frobenius_norm(flat).value
    values[f"norm of {what}{end}"] = top
    if top > 0:
        values[f"stable rank of {what}{end}"] = (size / top) ** 2


def parallel(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are multiples of one another."""
    if one.numel() != other.numel():
        return False
    a, b = one.flatten().double(), other.flatten().double()
    size = float(a.norm() * b.norm())
    return size > 0 and abs(float(a @ b)) > (1 - 1e-6) * size


def _finite(scores: Tensor) -> Tensor:
    return scores[scores.isfinite() & (scores.abs() < 1e4)]
