"""Copies of a model in training, of which one at a time need be in memory."""

import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal, TypeVar, final

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sigmascope.core.guard import (
    Budget,
    OverBudget,
    Refusal,
    random_states,
    require_room,
    size_words,
    time_words,
    trim,
)
from sigmascope.diagnosis.trainability.curves import Curve
from sigmascope.models.samples import Batch, Loss, as_tensor, chosen, class_dim, run
from sigmascope.models.state import duplicate

# ------------------------------------------------------------------------------
# What tensors hold, put into a temporary file for as long as nothing computes with them.
#
# Of several trainings that take turns, one is in memory: its weights, its gradients and what its
# optimizer remembers. The others keep their modules and tensors, whose memory is given back; their
# bytes are in a file that has no name, so that nothing is left of it whatever ends the process.


SMALL = 1 << 12  # bytes of a memory that stays: counters of steps and the like
PIECE = 1 << 22  # bytes that are written or read at once


class Parking:
    """A training whose tensors may leave the memory and come back.

    Attributes:
        size: Bytes that are parked now.
    """

    def __init__(self) -> None:
        self.size = 0
        self._file: IO[bytes] | None = None
        self._left: list[tuple[torch.UntypedStorage, int]] = []

    def park(self, tensors: Iterable[Tensor], *, but: frozenset[int]) -> None:
        """Write what tensors hold to a file and give their memory back.

        Args:
            tensors: Not used until `fetch`. Views of one memory keep sharing it.
            but: Addresses of memory that others use, which stays.

        Raises:
            Refusal: If there is no room for the file; then all of them are as they were.
        """
        left = {s.data_ptr(): s for t in tensors for s in _own(t) if s.data_ptr() not in but}
        needed = sum(s.nbytes() for s in left.values())
        try:
            if self._file is None:  # closed with this place at the latest
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 (open while it is in use)
                weakref.finalize(self, self._file.close)
            file = self._file
            file.seek(0)
            for storage in left.values():
                for piece in _pieces(storage):
                    file.write(piece.to("cpu", copy=True).numpy().data)  # no view of it
            file.flush()
        except OSError as error:
            raise no_room(needed, str(error)) from error
        for storage in left.values():
            self._left.append((storage, storage.nbytes()))
            storage.resize_(0)
        self.size = needed
        trim()

    def fetch(self) -> None:
        """Bring back what is parked, bit for bit, to where it was."""
        if self._file is None or not self._left:
            return
        self._file.seek(0)
        for storage, size in self._left:
            storage.resize_(size)
            for piece in _pieces(storage):
                read = bytearray(self._file.read(len(piece)))
                piece.copy_(torch.frombuffer(read, dtype=torch.uint8))
        self._left, self.size = [], 0

    def close(self) -> None:
        """Let go of the file, and with it of what is parked."""
        if self._file is not None:
            self._file.close()
        self._file, self._left, self.size = None, [], 0


def require_place(needed: int) -> None:
    """Refuse to begin what would not find room for its temporary files.

    Args:
        needed: Bytes that are parked at once, at most.

    Raises:
        Refusal: With what is needed and what is free.
    """
    try:
        free = shutil.disk_usage(tempfile.gettempdir()).free
    except OSError as error:  # there is no folder that takes files
        raise no_room(needed, str(error)) from error
    if needed > free:
        raise no_room(needed, f"{size_words(free)} are free")


def no_room(needed: int, got: str) -> Refusal:
    """That copies find no room, and where to give them some."""
    return Refusal(
        f"Copies that wait for their turn need {size_words(needed)} in the folder of temporary "
        f"files, got: {got}. Name a folder with more room: `TMPDIR=/path` in the environment."
    )


def memory_of(model: nn.Module) -> frozenset[int]:
    """Addresses of the memory of a model's weights and buffers."""
    own = (*model.parameters(), *model.buffers())
    return frozenset(s.data_ptr() for t in own for s in _own(t))


def _own(t: Tensor) -> list[torch.UntypedStorage]:
    """The memory of a plain tensor; none where it is small, or there is more to it."""
    if type(t) not in (Tensor, nn.Parameter) or t.layout != torch.strided or t.is_meta:
        return []
    storage = t.untyped_storage()
    plain = storage.nbytes() > SMALL and storage.resizable() and not storage.is_shared()
    return [storage] if plain else []


def _pieces(storage: torch.UntypedStorage) -> tuple[Tensor, ...]:
    """Its bytes, piece by piece."""
    whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return whole.split(PIECE)


# ------------------------------------------------------------------------------
# Copies of a model in training, of which one at a time is in memory.


LARGE = 1 << 20  # bytes of weights, above which copies take turns in memory

Maker = Callable[[Sequence[nn.Parameter]], torch.optim.Optimizer]


class Turn:
    """A copy in training, which may be away while others have their turn.

    Attributes:
        model: The copy.
        by: Its optimizer.
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
            # places of frozen weights that are the same in a copy that was trained
            pairs, same = zip(turn.model.parameters(), self._model.parameters(), strict=False), []
            for k, (c, p) in enumerate(pairs):
                frozen = not (c.requires_grad or p.requires_grad)
                dense = type(c) is type(p) is nn.Parameter and p.layout == torch.strided
                alike = c.shape == p.shape and c.dtype == p.dtype
                if frozen and dense and alike and torch.equal(c, p):
                    same.append(k)
            self._shared = tuple(same)
            _share(turn.model, self._model, self._shared)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _share(copy: nn.Module, model: nn.Module, places: Sequence[int]) -> None:
    own = [*model.parameters()]
    for k, p in enumerate(copy.parameters()):
        if k in places:
            p.data = own[k].detach()


# ------------------------------------------------------------------------------
# Steps of training against a budget of time.
#
# What cannot be done in time is found out early: after a few steps, the fastest of them times those
# that are left is the least that the rest takes. A machine that was busy for a moment is no reason
# to stop: some of the budget is spent before.


TIMED = 3  # steps after which something is foretold; the first ones warm up
SPENT = 0.05  # of the budget, before which nothing is given up
LONG = 5.0  # seconds, above which the cost is told
ROOM = 1.25  # times what is foretold, in the budget that is proposed

T = TypeVar("T")


@dataclass(slots=True)
class Pace:
    """Steps that are made against a budget.

    Attributes:
        budget: Of all that is made with it.
        what: Is made, as the beginning of "... needs 336 training steps".
        steps: That are wanted in all.
        beside: What else it costs, in words.
        among: How many share the user's budget, of which this one is a part.
        made: So far.
        fastest: Seconds of the fastest step so far; infinite where none was timed.
    """

    budget: Budget
    what: str
    steps: int
    beside: str = ""
    among: int = 1
    made: int = 0
    fastest: float = math.inf
    _timed: int = 0
    _spent: float = 0.0

    @property
    def needed(self) -> float:
        """Seconds that all steps take at least, at the speed of the fastest."""
        return self.steps * self.fastest

    @property
    def hopeless(self) -> bool:
        """Whether the budget is used up, or too small for the rest at the fastest speed so far."""
        known = self._timed >= TIMED and self._spent >= SPENT * self.budget.seconds
        return self.budget.left <= (self.fastest * max(self.steps - self.made, 0) if known else 0)

    def words(self) -> str:
        """That the budget is too small, and how to allow more."""
        known = self._timed > 0
        takes = f", about {time_words(self.needed)}" if known else ""
        more = self.among * max(ROOM * self.needed if known else 0, 2 * self.budget.seconds)
        minutes = max(1, math.ceil(more / 60))
        part = f" for each of {self.among}" if self.among > 1 else ""
        return (
            f"{self.what} needs {self.steps} training steps{takes}, and {self.made} were made in a "
            f"budget of {time_words(self.budget.seconds)}{part}, from which nothing is foretold: "
            f"allow more, `--budget {minutes}min` (`budget={60 * minutes}` in Python), or take "
            "fewer samples."
        )

    def made_in_time(self, step: Callable[[], T]) -> T:
        """One step, which is timed and counted, unless not all will be made in time.

        Raises:
            OverBudget: With what was made, what all takes, and how to allow it.
        """
        if self.hopeless:
            raise OverBudget(self.words())
        began = self.budget.clock()
        result = step()
        self.made += 1
        if self.budget.progress is not None:
            self.budget.progress(self.what, self.made, self.steps)
        self._timed += 1
        took = self.budget.clock() - began
        self._spent += took
        self.fastest = min(self.fastest, took)
        if self._timed == TIMED and self.needed > LONG and self.budget.tell is not None:
            self.budget.tell(
                f"{self.what}: {self.steps} training steps, about {time_words(self.needed)}"
                f"{self.beside}; the budget is {time_words(self.budget.seconds)}"
            )
        return result


# ------------------------------------------------------------------------------
# How much the outputs of a network tell of its targets.


ROWS = 512  # samples or tokens whose outputs are compared with targets
FEWEST = 2  # classes between which one can be right
RIDGE = 1e-6  # of the mean squared column


def target_share(output: Float[Tensor, "..."], targets: Any) -> tuple[float, float]:
    """How much outputs tell of targets: by any linear map, and as they are.

    Args:
        output: A row a sample (or a row of scores for every class).
        targets: Classes, or values.

    Returns:
        Share of the variance of the targets that a linear map of the outputs explains, from 0 to 1;
        and the coefficient of the centred targets in the centred outputs. For classes the second is
        taken column by column, and for targets of another kind both are 0.
    """
    pairs = thinned(output, targets)
    if pairs is None or not bool(pairs[0].isfinite().all()):
        return 0.0, 0.0
    scores, wanted = pairs
    X = same = _centred(scores)
    if wanted.is_floating_point():
        Y = _centred(wanted)
    else:  # the columns of classes that there are
        present = wanted.unique()
        present = present[(present >= 0) & (present < scores.shape[-1])]
        Y, same = _centred(wanted[:, None] == present), _centred(scores[:, present])
    total, size = float(Y.square().sum()), float(X.square().sum())
    if total == 0 or size == 0:
        return 0.0, 0.0
    wide = X.shape[1] > len(X)
    gram = X @ X.mT if wide else X.mT @ X
    ridge = RIDGE * size / X.shape[1] * torch.eye(len(gram), dtype=gram.dtype)
    cross = gram @ Y if wide else X.mT @ Y
    solved = torch.linalg.solve(gram + ridge, cross)
    told = float(((Y if wide else cross) * solved).sum()) / total
    return min(1.0, max(0.0, told)), float((same * Y).sum()) / total


def right_share(output: Float[Tensor, "..."], targets: Any) -> float | None:
    """How often the largest score is that of the class, above what one constant answer gets.

    Args:
        output: As for `target_share`.
        targets: As for `target_share`.

    Returns:
        0 for as many right answers as the most frequent class alone gets, 1 for all; None where the
        targets are not classes, or there is one only.
    """
    pairs = thinned(output, targets)
    if pairs is None or pairs[1].is_floating_point() or pairs[0].shape[-1] < FEWEST:
        return None
    scores, classes = pairs
    counted = (classes >= 0) & (classes < scores.shape[-1])
    scores, classes = scores[counted], classes[counted]
    most = torch.bincount(classes.long()).max().item() / len(classes) if len(classes) else 1.0
    if most == 1:
        return None
    right = (scores.argmax(-1) == classes).double().mean().item()
    return max(0.0, (right - most) / (1 - most))


def thinned(output: Tensor, targets: Any, most: int = ROWS) -> tuple[Tensor, Tensor] | None:
    """Outputs and their targets as rows, of which at most so many are taken; None if they differ.

    Values keep all their rows, one a sample.
    """
    if not isinstance(targets, Tensor):
        return None
    if targets.is_floating_point():
        X, Y = output.reshape(len(output), -1), targets.reshape(len(targets), -1)
        return (X, Y) if X.shape == Y.shape else None
    if class_dim(output, targets) == 1:
        output = output.movedim(1, -1)
    scores, classes = output if output.ndim < 3 else output.flatten(0, -2), targets.flatten()
    if scores.ndim != 2 or len(scores) != len(classes) or not len(classes):
        return None
    step = -(-len(classes) // most)
    return scores[::step], classes[::step].to(scores.device)


def _centred(rows: Tensor) -> Float64[Tensor, "n k"]:
    wide = rows.double().cpu()
    return wide - wide.mean(0)


# ------------------------------------------------------------------------------
# The batches of a probe: minibatches of its samples, or all of them where they belong together.


SMALLEST, LARGEST = 8, 32  # samples in a minibatch
STEPS = 8  # most of them in a round, which costs no more than one pass of all samples
ALIKE = 1e-3  # relative difference of two losses that are taken for the same


@final
@dataclass(frozen=True, slots=True)
class Minibatches:
    """What the steps of a probe are taken on.

    Attributes:
        batch: All samples.
        targets: Theirs.
        count: How many there are.
        split: Whether a step takes some of them; if not, a step takes all, and is a round.
    """

    batch: Batch
    targets: Any
    count: int
    split: bool

    @property
    def steps(self) -> int:
        """Of a round: eight, where there are at least 64 samples."""
        return min(STEPS, self.count // self.size)

    @property
    def size(self) -> int:
        """Samples of a step: an eighth of all, but from 8 to 32."""
        eighth = min(max(self.count // STEPS, SMALLEST), LARGEST)
        return min(eighth, self.count) if self.split else self.count

    @property
    def rows(self) -> int:
        """Of the outputs and targets of a step that are kept to be compared."""
        return max(1, ROWS // self.steps)

    def whole(self, output: Tensor) -> Tensor:
        """An output of a step in the shape of that of all samples; rows are repeated."""
        return output[torch.arange(self.count) % len(output)] if self.split else output

    def each(self) -> Iterator[tuple[Batch, Any]]:
        """Batches without end, in an order that is the same every time."""
        g = torch.Generator().manual_seed(0)
        left = torch.zeros(0, dtype=torch.long)
        while True:
            if not self.split:
                yield self.batch, self.targets
                continue
            while len(left) < self.size:
                left = torch.cat([left, torch.randperm(self.count, generator=g)])
            taken, left = left[: self.size], left[self.size :]
            yield chosen(self.batch, taken), self.targets[taken.to(self.targets.device)]


def minibatches(
    model: nn.Module, batch: Batch, targets: Any, loss: Loss, *, count: int, batch_dim: int = 0
) -> Minibatches:
    """Whether a training step may take some samples without the others, and then does.

    It may where every sample has its own target, the model gives some samples as many outputs, and
    the loss is a mean over them: the same for a batch that is there twice. A loss that compares
    samples with one another, and a model that wants so many samples and no other number, get all.

    Args:
        model: Left as it is.
        batch: All samples.
        targets: Theirs.
        loss: What is minimised.
        count: How many samples there are.
        batch_dim: Where the batch has them.

    Cost: a forward pass of an eighth of the samples.
    """
    whole = Minibatches(batch, targets, count, split=False)
    few = count < 2 * SMALLEST
    own = isinstance(targets, Tensor) and targets.ndim > 0 and len(targets) == count
    if batch_dim or few or not own:
        return whole
    parted = Minibatches(batch, targets, count, split=True)
    some, wanted = next(parted.each())
    try:
        with random_states(), torch.no_grad():
            output = as_tensor(run(duplicate(model).train(), some))[0]
            single = float(loss(output, wanted))
            double = float(loss(torch.cat([output, output]), torch.cat([wanted, wanted])))
    except Exception:  # noqa: BLE001 (whatever a model says of fewer samples: it gets all)
        return whole
    fits = len(output) == len(wanted) and thinned(output, wanted) is not None
    alike = math.isclose(single, double, rel_tol=ALIKE) or not math.isfinite(single)
    return parted if fits and alike else whole


# ------------------------------------------------------------------------------
# Training of a copy at one rate, round by round, and what it shows.


Optimizer = Literal["sgd", "adam"]
RATES: dict[Optimizer, tuple[float, ...]] = {
    "sgd": (1e-3, 1e-2, 1e-1, 1.0),
    "adam": (3e-4, 1e-3, 3e-3, 1e-2),
}
MOMENTS: dict[Optimizer, int] = {"sgd": 1, "adam": 2}  # tensors that it keeps for each weight


class RateRun(Turn):
    """Training of a copy at one rate, which can go on."""

    def __init__(self, optimizer: Optimizer, rate: float, suits: Callable[[Tensor], None]) -> None:
        super().__init__(lambda parameters: optimizer_of(parameters, optimizer, rate))
        self._suits = suits  # raises unless the targets suit the first output
        self.rate = rate
        self.batches: Iterator[tuple[Batch, Any]] | None = None
        self.rounds: list[tuple[float, float, float, float | None]] = []
        self.steps: list[float] = []
        self.finite = True
        self.output = torch.zeros(())  # of all samples, at the start

    def curve(self) -> Curve:
        """What was seen so far."""
        losses, told, aligned, right = zip(*self.rounds, strict=True) if self.rounds else ((),) * 4
        known = None if None in right or not right else right
        return Curve(self.rate, losses, told, aligned, self.finite, known, tuple(self.steps))

    def go_on(self, data: Minibatches, loss: Loss, rounds: int, pace: Pace) -> int:
        """So many rounds more, each with what it shows; how many were made."""
        self.batches = batches = self.batches or data.each()
        step = lambda: self._step(*next(batches), data, loss)
        with random_states(), torch.enable_grad():
            for done in range(rounds):
                pairs = [pace.made_in_time(step) for _ in range(data.steps) if self.finite]
                if not self.finite:
                    return done + 1
                losses = self.steps[-data.steps :]
                mean = sum(losses) / len(losses)
                if any(pair is None for pair in pairs):
                    self.rounds.append((mean, 0.0, 0.0, None))
                else:
                    output, targets = (torch.cat(rows) for rows in zip(*pairs, strict=True))
                    told = target_share(output, targets)
                    self.rounds.append((mean, *told, right_share(output, targets)))
        return rounds

    def _step(self, batch: Batch, targets: Any, data: Minibatches, loss: Loss) -> Any:
        """One step; rows of its outputs and targets, if they can be compared."""
        self.by.zero_grad()
        output = as_tensor(run(self.model, batch))[0]
        if not self.output.ndim:
            self.output = data.whole(output.detach())
            self._suits(self.output)
        value = loss(output, targets)
        self.finite = bool(value.isfinite())
        if not self.finite:
            return None
        self.steps.append(value.item())
        pair = thinned(output.detach(), targets, data.rows)
        try:
            value.backward()
        except RuntimeError as error:
            words = " ".join(str(error).split())[:200]
            raise Refusal(
                f"A training step of the model must work, autograd says: {words}"
            ) from error
        for group in self.by.param_groups:
            for p in group["params"]:
                if p.grad is not None and p.grad.layout != p.layout == torch.strided:
                    p.grad = p.grad.to_dense()  # which plain optimizers want
        self.by.step()
        return pair


def optimizer_of(
    parameters: Sequence[nn.Parameter], optimizer: Optimizer, rate: float
) -> torch.optim.Optimizer:
    """Adam, or SGD with momentum 0.9: what is meant by plain training."""
    plain = all(p.is_floating_point() for p in parameters)  # fused steps take no complex numbers
    if optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate, fused=plain)
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9, fused=plain)
