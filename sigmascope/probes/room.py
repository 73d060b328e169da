"""How many samples are run at once, and gradients held, so that they fit in memory.

One sample is run and what its tape holds is added up: what layers read and write would not do, for
what lies between them (scores of attention say) may be far more. Nothing is run where layers write
so little that the question does not arise.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from sigmascope.gate import Refusal, allowed, size_words, trim
from sigmascope.probes.execution.hooks import Call
from sigmascope.probes.scene import Scene

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
    found = {_place(t): _size(t) for c in calls for t in (c.input, c.output)}
    return sum(found.values())


def tape_size(scene: Scene) -> int:
    """Bytes that one run forward leaves for the way back, with what layers read and write.

    Cost: a forward pass.
    """
    own = {_place(p) for p in scene.model.parameters()}
    kept: dict[int, Tensor] = {}  # alive, so that no memory is used twice

    def note(t: Tensor) -> Tensor:
        # a tensor that knows its operation, kept by this, would keep itself alive for ever
        return kept.setdefault(_place(t), t.detach())

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
        trim()  # of that tape, which is as large as what comes next
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
            trim()


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


def _place(t: Tensor) -> int:
    try:
        return t.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return -id(t)
