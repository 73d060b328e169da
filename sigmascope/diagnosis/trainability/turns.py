"""Copies of a model in training, of which one at a time is in memory."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from sigmascope.diagnosis.trainability.parked import Parking, memory_of, require_place
from sigmascope.gate import Refusal, require_room, size_words
from sigmascope.probes.execution import duplicate

LARGE = 1 << 20  # bytes of weights, above which copies take turns in memory

Maker = Callable[[Sequence[nn.Parameter]], torch.optim.Optimizer]


class Turn:
    """A copy in training, which may be away while others have their turn.

    Attributes:
        model: The copy.
        by: Its optimiser.
        begun: Whether there is one yet.
    """

    model: nn.Module
    by: torch.optim.Optimizer

    def __init__(self, make: Maker) -> None:
        self._make, self._parking, self.begun = make, Parking(), False

    def begin(self, model: nn.Module, shared: Sequence[int]) -> None:
        """Copy the model; frozen weights of these places take the memory of its own."""
        self.model = duplicate(model).train()
        _share(self.model, model, shared)
        self.by = self._make([p for p in self.model.parameters() if p.requires_grad])
        self.begun = True

    def park(self, but: frozenset[int]) -> None:
        """Leave the memory; gradients are gone, which every step makes anew."""
        self.by.zero_grad()
        kept = (t for own in self.by.state.values() for t in own.values() if isinstance(t, Tensor))
        self._parking.park([*self.model.parameters(), *kept], but=but)

    def fetch(self) -> None:
        """Come back, bit for bit."""
        self._parking.fetch()

    def close(self) -> None:
        """Let go of the copy and of its file: it will not go on."""
        if self.begun:
            del self.model, self.by
        self._parking.close()
        self.begun = False


class Turns:
    """Who is in memory.

    Attributes:
        large: Whether others than that wait in files.
        words: What it takes of memory, at most, and of the disk.
    """

    def __init__(self, model: nn.Module, count: int, moments: int) -> None:
        trained = [p for p in model.parameters() if p.requires_grad]
        if not trained:
            raise Refusal("There must be parameters to train, got none that require gradients.")
        weights, moving = _bytes(model.parameters()), _bytes(trained)
        self.large = weights > LARGE
        at_once = 1 if self.large else count
        memory = weights + at_once * (weights + (1 + moments) * moving)
        place = (count - at_once) * (weights + moments * moving)
        beside = f" and {size_words(place)} of temporary files" if place else ""
        self.words = f", {size_words(memory)} of memory besides what a step computes{beside}"
        on_host = all(p.device.type == "cpu" for p in trained)
        if on_host:  # the memory of another device is not what is allowed here
            require_room(memory, "A copy in training", do="take a smaller model or skip this")
        if place:
            require_place(place)
        self._model, self._now, self._shared = model, None, None

    _now: Turn | None
    _shared: tuple[int, ...] | None

    def take(self, turn: Turn | None) -> None:
        """One comes into memory; who is there leaves it, where the model is large."""
        now = self._now
        if now is not turn and now is not None and now.begun and self.large:
            now.park(memory_of(self._model))
        self._now = turn
        if turn is not None and not turn.begun:
            turn.begin(self._model, self._shared or ())
        elif turn is not None:
            turn.fetch()

    def settle(self, turn: Turn) -> None:
        """After the first turn: frozen weights that training left alone need no copies."""
        if self._shared is None:
            self._shared = _left_alone(turn.model, self._model)
            _share(turn.model, self._model, self._shared)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _left_alone(copy: nn.Module, model: nn.Module) -> tuple[int, ...]:
    """Places of frozen weights that are the same in a copy that was trained."""
    pairs = enumerate(zip(copy.parameters(), model.parameters(), strict=False))
    return tuple(k for k, (c, p) in pairs if _plain(c, p) and torch.equal(c, p))


def _plain(copy: Tensor, own: Tensor) -> bool:
    frozen = not (copy.requires_grad or own.requires_grad)
    dense = type(copy) is type(own) is nn.Parameter and own.layout == torch.strided
    return frozen and dense and copy.shape == own.shape and copy.dtype == own.dtype


def _share(copy: nn.Module, model: nn.Module, places: Sequence[int]) -> None:
    own = [*model.parameters()]
    for k, p in enumerate(copy.parameters()):
        if k in places:
            p.data = own[k].detach()
