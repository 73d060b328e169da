"""Some samples, how a model is run on them, and how much of that is on tape at once."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from sigmascope.core.guard import Refusal, allowed, size_words, trim
from sigmascope.models.layers import NORMALISERS, Call, Statisticians, called, recording
from sigmascope.models.samples import (
    Batch,
    Loss,
    as_tensor,
    chosen,
    pieces,
    sample_count,
    samples_first,
    scalar_loss,
)
from sigmascope.models.state import still
from sigmascope.models.trace import storage_of

# ------------------------------------------------------------------------------
# Some samples, and how a model is run on them: what is passed down to every measurement.


MEMORY_FLOOR = 2**16  # adjoint entries that are always held at once: half a megabyte in float64
HELD = 24  # bytes of the memory allowed for each such entry: a sixth, in float32
SMALL = 2**24  # as many are worth holding to save a run: 64 megabytes in float32


def most_held() -> int:
    """Derivatives that the memory allowed has room for at once."""
    return allowed() // HELD


@dataclass(frozen=True, slots=True)
class Scene:
    """A model, samples and a loss: what derivatives are taken of.

    Attributes:
        model: The model.
        batch: What it is run on.
        targets: What the loss compares the output with; None for squared error.
        loss: The loss; None for squared error.
        batch_dim: Where the batch has its samples.
        listened: Layers and normalisers, by name, whose calls are recorded.
        frozen: Statistics of the batch normalisers on all samples, which are held constant.
    """

    model: nn.Module
    batch: Batch
    targets: Any = None
    loss: Loss | None = None
    batch_dim: int = 0
    listened: Mapping[str, nn.Module] = field(default_factory=dict)
    frozen: Statisticians = field(default_factory=Statisticians)

    @property
    def count(self) -> int:
        """Samples in the batch."""
        return sample_count(self.batch, batch_dim=self.batch_dim)

    def split(self, value: Tensor) -> Tensor | None:
        """A tensor as `[samples, ...]`; None where it cannot be split."""
        return samples_first(value, count=self.count, batch_dim=self.batch_dim)

    def pieces(self, size: int) -> Iterator[tuple["Scene", slice]]:
        """The same with at most `size` samples at a time, and which these are.

        Whoever goes on to the next piece holds nothing of the last one's run, or there are two.
        """
        for piece, part in pieces(self.batch, size=size, batch_dim=self.batch_dim):
            yield replace(self, batch=piece), part
            if size < self.count:
                trim(
                    short=True
                )  # the next one's blocks are of other sizes than those that are free

    def chosen(self, rows: Tensor) -> "Scene":
        """The same with some of the samples, in this order."""
        return replace(self, batch=chosen(self.batch, rows, batch_dim=self.batch_dim))

    def fitting(self, *, entries: int, columns: int) -> int:
        """How many samples to take at once, so that memory stays near that of a training step.

        And, for large ones, within the memory that is allowed.

        Args:
            entries: Numbers that are differentiated by, on the whole batch.
            columns: How many derivatives of each are held.
        """
        parameters = sum(p.numel() for p in self.model.parameters())
        budget = min(max(MEMORY_FLOOR, 2 * (parameters + entries)), most_held())
        rounds = math.ceil(entries * columns / budget)
        return max(1, math.ceil(self.count / max(1, rounds)))

    @contextmanager
    def on_tape(
        self,
        *,
        grad: bool = True,
        listen: bool = True,
        watch: AbstractContextManager[Any] | None = None,
    ) -> Iterator["Taped"]:
        """One run, recorded, with the model held still and its batch normalisers held constant.

        Args:
            grad: Whether it can be differentiated, inside of the block.
            listen: Whether to keep what layers read and write; without, `calls` are none.
            watch: A mode to run it under.
        """
        self.frozen.rewind()
        with (
            still(self.model),
            torch.set_grad_enabled(grad),
            recording(self.listened, rewrite=self.frozen.rewrite) as tape,
        ):
            tape.listening = listen
            for module in self.frozen.seen:  # their output is replaced; one sample is enough
                module.training = False  # until `still` restores it
            with watch or nullcontext():
                output = self.output()
            tape.listening = False
            yield Taped(self, tuple(tape.calls), output)

    def output(self) -> Tensor:
        """The output tensor, on the tape if there is one."""
        return as_tensor(called(self.model, self.batch))[0]

    def value(self, output: Tensor) -> Tensor:
        """The loss of an output; of squared error only the curvature by the output is meant."""
        if self.loss is None or self.targets is None:
            return output.square().sum() / self.count
        return scalar_loss(self.loss, output, self.targets)

    def losses(self) -> Tensor:
        """The loss of each sample.

        Raises:
            Refusal: If it has no part for each sample.
        """
        output = self.split(self.output())
        if output is None or not isinstance(self.targets, Tensor) or self.loss is None:
            raise Refusal(
                'The curvature "fisher" needs one loss per sample: an output with one row per '
                'sample, targets that are a tensor, and a loss. Ask for "gauss-newton" instead.'
            )
        each = range(self.count)
        return torch.stack(
            [scalar_loss(self.loss, output[i : i + 1], self.targets[i : i + 1]) for i in each]
        )


@dataclass(frozen=True, slots=True)
class Taped:
    """One run of a scene.

    Attributes:
        scene: What was run.
        calls: Of layers and normalisers, in the order in which they end.
        output: The output tensor that is studied.
    """

    scene: Scene
    calls: tuple[Call, ...]
    output: Tensor

    @property
    def flat(self) -> Float[Tensor, "samples columns"]:
        """The output, one row for each sample; refused if it cannot be split."""
        rows = self.scene.split(self.output)
        if rows is None:
            raise Refusal(
                "The output must have one row per sample to be differentiated sample by sample. "
                "Return it with the batch dimension, or say `batch_dim=` (`--batch-dim`)."
            )
        return rows.reshape(len(rows), -1)

    @property
    def layers(self) -> tuple[Call, ...]:
        """The calls of layers alone."""
        return tuple(c for c in self.calls if not isinstance(c.module, NORMALISERS))


# ------------------------------------------------------------------------------
# How many samples are run at once, and gradients held, so that they fit in memory.
#
# One sample is run and what its tape holds is added up: what layers read and write would not do,
# for what lies between them (scores of attention say) may be far more. Nothing is run where layers
# write so little that the question does not arise.


TAPE = 0.25  # of the memory allowed for a tape: gradients and copies of it take as much, and more
GRADIENTS = 0.125  # of it, for gradients of parameters: one more is made before any is dropped
LARGE = 1 / 32  # of it, from which the gradient of one parameter is large
SURE = 1 / 64  # of the memory allowed that layers may write before their tape is weighed
LITTLE = 1.2  # times what is known to be held at once: copies of outputs, gaps between blocks
T = TypeVar("T")
P = TypeVar("P", bound=Tensor)
LACKING = (
    "it needs {} for one sample, and {} of memory are allowed: allow more by `memory=` (`--memory`)"
    ", or pass smaller samples, as shorter sequences"
)


def held(calls: tuple[Call, ...]) -> int:
    """Bytes that are held while what layers read and wrote is kept."""
    found = {storage_of(t): _size(t) for c in calls for t in (c.input, c.output)}
    return sum(found.values())


def tape_size(scene: Scene) -> int:
    """Bytes that one run forward leaves for the way back, with what layers read and write.

    Cost: a forward pass.
    """
    own = {storage_of(p) for p in scene.model.parameters()}
    kept: dict[int, Tensor] = {}  # alive, so that no memory is used twice

    def note(t: Tensor) -> Tensor:
        # a tensor that knows its operation, kept by this, would keep itself alive for ever
        return kept.setdefault(storage_of(t), t.detach())

    with saved_tensors_hooks(note, lambda t: t), scene.on_tape() as run:
        for call in run.calls:
            note(call.input)
            note(call.output)
        return sum(_size(t) for place, t in kept.items() if place not in own)


def at_once(scene: Scene, calls: tuple[Call, ...]) -> int:
    """How many samples fit on one tape.

    Args:
        scene: All samples.
        calls: Of its layers and normalisers, on all samples.

    Raises:
        Refusal: If not even one does, with what it needs and what is allowed.
    """
    if held(calls) <= SURE * allowed():
        return scene.count
    one, room = tape_size(scene.chosen(torch.tensor([0]))), TAPE * allowed()
    if one > room:
        raise Refusal(LACKING.format(size_words(int(one / TAPE)), size_words(allowed())))
    return min(scene.count, int(room / max(one, 1)))


def require_gradients(scene: Scene, calls: tuple[Call, ...], *, do: str) -> None:
    """Refuse a model of whose largest parameter the gradient has no room beside all else.

    A sum over samples, or over uses of a parameter, holds it twice: the sum, and what is added. It
    cannot be had in parts; what layers write and one sample's tape are held meanwhile.

    Args:
        scene: All samples.
        calls: Of its layers and normalisers, on all samples.
        do: What else can be done, as the end of a sentence.

    Raises:
        Refusal: With what is needed and what is allowed.

    Cost: a forward pass of one sample, where it is near.
    """
    named = {n: p for n, p in scene.model.named_parameters() if p.requires_grad}
    size = lambda name: named[name].numel() * named[name].itemsize
    largest = max(named, key=size, default="")
    needed = held(calls) + 2 * size(largest) if named else 0
    if needed > allowed() / 3:  # a tape is about as large as what layers write
        with suppress(Exception):  # a model that takes batches of one size: its tape is not known
            needed += tape_size(scene.chosen(torch.tensor([0])))
        trim(short=True)  # of that tape, which is as large as what comes next
    if LITTLE * needed > allowed():
        raise Refusal(
            f"`memory` must allow for the gradient of `{largest}`, which is held twice, got "
            f"{size_words(allowed())}: with what layers write and the tape of one sample it takes "
            f"{size_words(int(LITTLE * needed))}. Allow more by `memory=` (`--memory`), or {do}."
        )


def turns(
    things: Iterable[T], size: Callable[[T], int], room: int
) -> Iterator[tuple[list[T], bool]]:
    """Some at a time, in their order, as many as there is room for; and whether they are the last.

    One that is larger than the room comes by itself. Between turns memory that is free goes back to
    the system, as the next ones need blocks of other sizes: whoever goes on holds nothing of the
    last ones.
    """
    found: list[list[T]] = []
    taken = 0
    for thing in things:
        if not found or taken + size(thing) > room:
            found.append([])
            taken = 0
        found[-1].append(thing)
        taken += size(thing)
    for place, some in enumerate(found, start=1):
        yield some, place == len(found)
        if place < len(found):
            trim(short=True)


def gradient_turns(parameters: Iterable[P]) -> Iterator[tuple[list[P], bool]]:
    """Parameters, as many at a time as their gradients fit; and whether they are the last."""
    return turns(parameters, lambda p: p.numel() * p.itemsize, int(GRADIENTS * allowed()))


def large() -> int:
    """Bytes from which a parameter's gradient is large for the memory allowed."""
    return int(LARGE * allowed())


def _size(t: Tensor) -> int:
    try:
        return t.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):  # a kind of tensor that lies in several storages
        return t.numel() * t.itemsize


# ------------------------------------------------------------------------------
# Gradients that are taken as each is made, and let go of before the next.
#
# Gradients of all parameters take as much memory as the parameters, and are all held at once by
# what autograd returns. A hook on each sees it as soon as it is whole, and hands on zeros that take
# no memory. The invariant: only the pass made here is listened to, not one that another thread
# makes of the same parameters meanwhile.


Take = Callable[[P, Tensor], None]


def backward(
    value: Tensor,
    seed: Tensor | None,
    parameters: Sequence[P],
    take: Take[P],
    *,
    others: Sequence[Tensor] = (),
    again: bool = False,
    large: int | None = None,
    parts: bool = False,
) -> tuple[Tensor | None, ...]:
    """One pass back from a value.

    Args:
        value: What is differentiated; anything that requires a gradient.
        seed: Its gradient; None for a number.
        parameters: By these; each once.
        take: Is given every one that has a gradient, and the gradient, which it must not keep
            unless it copies it, nor change.
        others: By these too.
        again: Whether the tape is kept.
        large: Bytes from which what several uses of one parameter add to its gradient is added up
            here, in place: autograd holds three tensors of its size for that.
        parts: Whether `take` is given what each use of these adds, one after the other, instead.

    Returns:
        Gradients by the others; None where the value ignores them.
    """
    sources = [*others, *parameters]
    if not value.requires_grad:  # which autograd says in its words
        return torch.autograd.grad(value, sources, seed, allow_unused=True)
    with torch.enable_grad():
        root = value.view_as(value)  # ours alone: it tells this pass from others
    with ExitStack() as undo:
        listened = _Pass(take, parts=parts)
        undo.callback(root.register_hook(listened.begin).remove)
        streamed = [p for p in parameters if type(p) in (Tensor, nn.Parameter)]
        for p in streamed:
            undo.enter_context(_hooked(p, partial(listened.gradient, p)))
        some = [p for p in streamed if large is not None and p.numel() * p.itemsize >= large]
        for node, uses in listened.several(root, some):
            undo.callback(node.register_hook(partial(listened.part, uses)).remove)
        if some:  # blocks that the way forward has freed are too small for them
            trim(short=True)
        grads = torch.autograd.grad(root, sources, seed, retain_graph=again, allow_unused=True)
    listened.end()
    for p, grad in zip(parameters, grads[len(others) :], strict=True):
        if grad is not None and id(p) not in listened.taken:
            take(p, grad)
    return grads[: len(others)]


class _Pass:
    """One pass back, while it is made."""

    def __init__(self, take: Take[Any], *, parts: bool) -> None:
        self._take, self._parts, self._task = take, parts, -1
        self.taken: set[int] = set()
        self._left: dict[int, int] = {}  # uses that have not added their part
        self._sums: dict[Tensor, Tensor] = {}

    @property
    def _ours(self) -> bool:
        return torch._C._current_graph_task_id() == self._task

    def begin(self, _: Tensor) -> None:
        self._task = torch._C._current_graph_task_id()

    def gradient(self, p: Tensor, grad: Tensor | None) -> Tensor | None:
        """Of one parameter, whole, unless its parts were taken; what autograd goes on with."""
        if not self._ours or type(grad) is not Tensor or grad.layout != torch.strided:
            return None
        self.taken.add(id(p))
        self._take(p, grad)
        return grad.new_zeros(()).expand_as(grad)

    def several(
        self, root: Tensor, parameters: Sequence[Tensor]
    ) -> list[tuple[Any, dict[int, Tensor]]]:
        """The operations that read parameters which several read, with these by their places.

        Not of parameters with hooks of the user's, who are to see the sum.
        """
        own = {id(p): p for p in parameters if len(p._backward_hooks or ()) < 2}  # one is ours
        found: list[tuple[Any, dict[int, Tensor]]] = []
        ahead: list[Any] = [root.grad_fn] if own else []
        seen = {*ahead}
        while ahead:
            node, uses = ahead.pop(), dict[int, Tensor]()
            for place, (after, _) in enumerate(node.next_functions):
                p = own.get(id(getattr(after, "variable", None)))
                if p is not None:
                    uses[place] = p
                elif after is not None and after not in seen:
                    seen.add(after)
                    ahead.append(after)
            found += [(node, uses)] if uses else []
        self._left = dict.fromkeys(own, 0)
        for p in (p for _, uses in found for p in uses.values()):
            self._left[id(p)] += 1
        kept = [(n, {k: p for k, p in uses.items() if self._left[id(p)] > 1}) for n, uses in found]
        return [(node, uses) for node, uses in kept if uses]

    def part(
        self, uses: dict[int, Tensor], grads: tuple[Any, ...], _: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        """What one operation adds to gradients; of those that are taken it adds nothing."""
        if not self._ours:
            return None
        left = [*grads]
        for place, p in uses.items():
            grad = left[place]
            if isinstance(grad, Tensor):
                self.taken.add(id(p))
                self._left[id(p)] -= 1
                # a sum of sparse and dense ones is dense
                grad = grad if grad.layout == torch.strided else grad.to_dense()
                if self._parts:
                    self._take(p, grad)
                elif p not in self._sums:
                    self._sums[p] = grad.clone()  # autograd may give one tensor twice
                else:
                    self._sums[p] += grad
                    if not self._left[id(p)]:
                        self._take(p, self._sums.pop(p))
                left[place] = None
        return tuple(left)

    def end(self) -> None:
        """Sums to which some uses had nothing to add."""
        while self._sums:
            self._take(*self._sums.popitem())


@contextmanager
def _hooked(p: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Iterator[None]:
    none = p._backward_hooks is None
    handle = p.register_hook(hook)
    try:
        yield
    finally:
        handle.remove()
        if none and not p._backward_hooks:
            p._backward_hooks = None
