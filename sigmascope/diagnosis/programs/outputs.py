"""Outputs of several tensors: those that a loss reads are studied as one.

Everything here measures one tensor, while a variational autoencoder gives three, a network of two
tasks two, and the loss reads them all. So the parts that the loss reads are laid side by side, one
row for each sample, by a hook of the model itself that is there while its program is measured; the
loss gets the parts again, as the user wrote it. What no row of numbers can hold stays beside them:
masks and labels that the model draws, numbers that are the same for all samples. The invariant:
parts that were joined and taken apart are what the model gave, gradients included, all of the same
forward pass; and when the measurement ends the hook is gone and sleeps in every copy.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count as counting
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from sigmascope.core.guard import Refusal, random_states
from sigmascope.models.samples import Loss, as_tensor, mapped, tensors

WIDEST = 2**20  # numbers of a sample that are laid side by side


class NotAtHand(Refusal):
    """What a loss reads beside an output is of other samples: it cannot be asked of this one."""


@dataclass(eq=False, slots=True)
class _Pass:
    """All that a forward pass gave.

    Attributes:
        whole: Without gradients.
        length: Of what was joined of it.
        live: Parts that stay beside the joined ones and have gradients, as they are.
    """

    whole: Any
    length: int
    live: dict[int, Tensor] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Joint:
    """The parts of an output that a loss reads, as one tensor.

    Attributes:
        whole: An output of the model.
        read: Which of its tensors are joined, in their order: those that the loss reads and that
            have a row of floating numbers for each sample.
        count: Samples of it.
        beside: What else the loss reads.
        studied: Whether one tensor is joined, the one that is studied anyhow.
        fixed: Which of the joined parts have no gradients, as drawn noise or what a frozen network
            says: they are data, so that outputs that are made up go with those of a forward pass.
        active: Whether the model gives the joined parts now.
    """

    whole: Any
    read: tuple[int, ...]
    count: int
    beside: tuple[int, ...] = ()
    studied: bool = False
    fixed: frozenset[int] = field(default=frozenset(), init=False)
    active: bool = field(default=False, init=False)
    _trained: tuple[bool, ...] = field(default=(), init=False)  # of the weights; empty: not asked
    _passes: Any = field(default_factory=WeakTensorKeyDictionary, init=False)  # by what was joined
    _last: _Pass | None = field(default=None, init=False)
    _held: _Pass = field(init=False)  # of what is made up

    def __post_init__(self) -> None:
        first = [*tensors(self.whole)][self.read[0]]
        self._held = _Pass(self.whole, len(first) if first.ndim else 0)

    @property
    def single(self) -> bool:
        """Whether one part is joined, which is studied as it is."""
        return len(self.read) == 1

    @property
    def idle(self) -> bool:
        """Whether the output holds nothing but the one tensor that is studied anyhow."""
        return self.studied and len([*tensors(self.whole)]) == 1

    @property
    def chooses(self) -> bool:
        """Whether the loss reads masks or labels that the model makes itself."""
        given = [*tensors(self.whole)]
        return any(not given[i].is_floating_point() for i in self.beside)

    def join(self, output: Any) -> Tensor:
        """The parts side by side, `[samples, numbers]`; a single one as it is."""
        found = [*tensors(output)]
        if self.single:
            made = found[self.read[0]]
        else:
            made = torch.cat([found[i].reshape(len(found[i]), -1) for i in self.read], 1)
        if self._last is not None:
            self._last.live.clear()  # which hold all of its graph
        live = {i: found[i] for i in self.beside if found[i].requires_grad}
        whole = _rebuilt(output, lambda t: t.detach())
        self._last = _Pass(whole, len(made) if made.ndim else 0, live)
        self._passes[made] = self._last
        return made

    def apart(self, joined: Tensor) -> Any:
        """The output that the parts were joined from.

        What is beside the parts is of the same forward pass. Outputs that are made up go with those
        of the first one, or of the one that is held (`holding`).

        Raises:
            NotAtHand: If neither is of as many samples.
        """
        own = self._pass_of(joined)
        given = [*tensors(own.whole)]
        for i, part in own.live.items():
            given[i] = part
        if self.single:
            given[self.read[0]] = joined
        else:
            old = [*tensors(self.whole)]
            sizes = [old[i][:1].numel() for i in self.read]
            for i, part in zip(self.read, joined.split(sizes, 1), strict=True):
                if i not in self.fixed:
                    fresh = part.reshape(-1, *old[i].shape[1:])
                    given[i] = fresh.to(old[i].dtype) if fresh.dtype != old[i].dtype else fresh
        parts = iter(given)
        return _rebuilt(own.whole, lambda _: next(parts))

    def columns_like(self, targets: Tensor) -> Tensor | None:
        """Which columns of the joined parts have the targets' form; None where none or all do."""
        given = [[*tensors(self.whole)][i] for i in self.read]
        like = [part.shape == targets.shape for part in given]
        if self.single or not any(like) or all(like):
            return None
        sizes = [part[:1].numel() for part in given]
        return torch.cat([torch.full((n,), own) for n, own in zip(sizes, like, strict=True)])

    def of(self, loss: Loss) -> Loss:
        """The loss of the joined parts."""

        def of_parts(output: Tensor, targets: Any) -> Tensor:
            return loss(self.apart(output), targets)

        of_parts.__name__ = getattr(loss, "__name__", type(loss).__name__)
        return of_parts

    @contextmanager
    def holding(self, output: Tensor) -> Iterator[None]:
        """While the block runs, outputs that are made up are for the samples of this one.

        Args:
            output: That the model gave, or some rows of it.
        """
        before, self._held = self._held, self._pass_of(output)
        try:
            yield
        finally:
            self._held = before

    def _pass_of(self, joined: Tensor) -> _Pass:
        """The forward pass that an output is of, with as many samples."""
        known = self._passes.get(joined)
        if known is not None:
            return known
        length = len(joined) if joined.ndim else 0
        for key, one in self._passes.items():
            start = _start_in(key, joined)
            if start is not None:
                return self._rows(one, torch.arange(start, start + length))
        # whether the loss reads of each sample what is not made up with outputs
        if length == self._held.length or not (self.fixed or any(map(self._is_rows, self.beside))):
            return self._held
        last = self._last  # an output may be there twice, to see what a loss makes of it
        if last is not None and last.length and length % last.length == 0:
            return self._rows(last, torch.arange(length) % last.length)
        raise NotAtHand(
            "What the loss reads beside an output must be of as many samples, got outputs of "
            f"{length} and what the model made for {self._held.length}."
        )

    def _rows(self, one: _Pass, rows: Tensor) -> _Pass:
        number = counting()

        def cut(t: Tensor) -> Tensor:
            own = self._is_rows(next(number)) and t.ndim > 0 and len(t) == one.length
            return t[rows.to(t.device)] if own else t

        return replace(one, whole=_rebuilt(one.whole, cut), length=len(rows))

    def _is_rows(self, i: int) -> bool:
        part = [*tensors(self.whole)][i]
        return part.ndim > 0 and len(part) == self.count

    def __call__(self, model: nn.Module, args: Any, output: Any) -> Any:
        """As a hook of the model."""
        if not self.active or isinstance(output, Tensor):
            return output
        if self._trained and torch.is_grad_enabled() and _trained(model) == self._trained:
            # which parts have no gradients, in a forward pass in which all weights have theirs
            found = [*tensors(output)]
            fixed = frozenset(i for i in self.read if not found[i].requires_grad)
            if len(fixed) < len(self.read):
                self.fixed, self._trained = fixed, ()
        return self.join(output)

    def __deepcopy__(self, memo: Any) -> "Joint":
        return self


def read_by(loss: Loss, whole: Any, targets: Any, *, count: int) -> Joint | None:
    """Which tensors of an output a loss reads.

    Args:
        loss: As the user gave it.
        whole: What the model gives.
        targets: What the loss compares it with.
        count: Samples.

    Returns:
        None where the output is one tensor, or the loss does not take the whole of it.

    Raises:
        Refusal: If the parts that it reads are too many numbers, or no part has a row a sample.

    Cost: some evaluations of the loss for each tensor.
    """
    if isinstance(whole, Tensor):
        return None
    detached = _rebuilt(whole, lambda t: t.detach())
    now = _value(loss, detached, targets)
    if now is None:
        return None
    parts = [*tensors(whole)]
    read = [
        i for i, part in enumerate(parts)
        if any(_value(loss, _with(detached, i, other), targets) != now for other in _others(part))
    ]  # fmt: skip
    studied = as_tensor(whole)[0]
    usual = (next(i for i, part in enumerate(parts) if part is studied),)
    joint = Joint(detached, usual, count)
    floating = tuple(i for i in read if parts[i].is_floating_point())
    rows = floating if len(floating) < 2 else tuple(filter(joint._is_rows, floating))
    if floating and not rows:
        raise Refusal("no tensor of the output that the loss reads has one row for each sample")
    joined = rows or usual
    beside = tuple(i for i in read if i not in joined)
    width = sum(parts[i].numel() for i in rows) // count
    if len(rows) > 1 and width > WIDEST:
        raise Refusal(f"the loss reads {width} numbers of each sample's output in several tensors")
    return replace(joint, read=joined, beside=beside, studied=joined == usual)


def _trained(model: nn.Module) -> tuple[bool, ...]:
    return tuple(p.requires_grad for p in model.parameters())


def _start_in(key: Tensor, rows: Tensor) -> int | None:
    """Which row of a tensor is the first of some that lie in the same memory; None elsewhere."""
    if key.shape[1:] != rows.shape[1:] or key.dtype != rows.dtype or not key.ndim or not rows.ndim:
        return None
    try:
        same = key.untyped_storage().data_ptr() == rows.untyped_storage().data_ptr()
        gap = int(rows.storage_offset()) - int(key.storage_offset())
    except (RuntimeError, NotImplementedError):  # tensors of torch.func have no memory
        return None
    if not same or key.stride() != rows.stride():
        return None
    step = key.stride(0)
    start, left = divmod(gap, step) if step else (0, gap)
    return start if not left and 0 <= start <= len(key) - len(rows) else None


def _value(loss: Loss, whole: Any, targets: Any) -> float | None:
    """Of a loss; None where it raises, or is no number."""
    try:
        with torch.no_grad(), random_states():
            value = float(loss(_rebuilt(whole, lambda t: t.clone()), targets))
    except Exception:  # noqa: BLE001 (a loss raises anything of what it does not take)
        return None
    return None if math.isnan(value) else value


def _others(part: Tensor) -> list[Tensor]:
    """What may stand in a part's place, to see whether it is read.

    Of labels what may be a label: no index beyond the last may be asked of a GPU.
    """
    if not part.numel():
        return []
    if part.is_floating_point() or part.is_complex():
        return [torch.full_like(part, math.nan)]
    if part.dtype == torch.bool:
        return [~part]
    zeros = torch.zeros_like(part)
    return [part.flip(0) if part.ndim else zeros, zeros, torch.ones_like(part)]


def _with(whole: Any, at: int, other: Tensor) -> Any:
    number = counting()
    return _rebuilt(whole, lambda t: other if next(number) == at else t)


def _rebuilt(whole: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same structure with other tensors; an output of Hugging Face answers by attribute too."""
    if isinstance(whole, Mapping) and type(whole) is not dict:
        return type(whole)(**{k: _rebuilt(v, change) for k, v in whole.items()})
    return mapped(whole, change)


@contextmanager
def joined(model: nn.Module, joint: Joint | None) -> Iterator[None]:
    """While the block runs the model, and every copy made in it, gives the parts as one tensor."""
    if joint is None or joint.active or joint.idle:
        yield
        return
    handle = model.register_forward_hook(joint)
    joint.active, joint._trained = True, () if joint.single else _trained(model)
    try:
        yield
    finally:
        joint.active, joint._last = False, None
        handle.remove()


@contextmanager
def holding(joint: Joint | None, output: Tensor) -> Iterator[None]:
    """While the block runs, outputs that are made up are for the samples of this one.

    Args:
        joint: What joins the outputs of a model; None where nothing does.
        output: That the model gave, or some rows of it.
    """
    if joint is None:
        yield
        return
    with joint.holding(output):
        yield


def joint_in(model: nn.Module) -> Joint | None:
    """What joins the outputs of a model while it is measured; None where nothing does."""
    hooks = (h for m in model.modules() for h in m._forward_hooks.values())
    return next((h for h in hooks if isinstance(h, Joint) and h.active), None)
