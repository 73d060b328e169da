"""Outputs of several tensors: those that a loss reads are studied as one.

Everything here measures one tensor, while a variational autoencoder gives three, a network of two
tasks two, and the loss reads them all. So the parts that the loss reads are laid side by side, one
row for each sample, by a hook of the model itself that is there while its program is measured; the
loss gets the parts again, as the user wrote it. The invariant: parts that were joined and taken
apart are what the model gave, gradients included, and when the measurement ends the hook is gone
and sleeps in every copy.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal, random_states
from sigmascope.probes.samples import Loss, as_tensor, mapped, tensors

WIDEST = 2**20  # numbers of a sample that are laid side by side


@dataclass(eq=False, slots=True)
class Joint:
    """The parts of an output that a loss reads, as one tensor.

    Attributes:
        whole: An output of the model.
        read: Which of its tensors the loss reads, in their order.
        count: Samples of it.
        studied: Whether that is one tensor, the one that is studied anyhow.
        active: Whether the model gives the joined parts now.
    """

    whole: Any
    read: tuple[int, ...]
    count: int
    studied: bool = False
    active: bool = field(default=False, init=False)

    @property
    def single(self) -> bool:
        """Whether one part is read, which is studied as it is."""
        return len(self.read) == 1

    def join(self, output: Any) -> Tensor:
        """The parts side by side, `[samples, numbers]`; a single one as it is."""
        found = [*tensors(output)]
        if self.single:
            return found[self.read[0]]
        rows = max(len(found[i]) for i in self.read if self._is_rows(i))
        wide = [found[i].reshape(rows, -1) if self._is_rows(i)
                else found[i].reshape(1, -1).expand(rows, -1) for i in self.read]  # fmt: skip
        return torch.cat(wide, 1)

    def apart(self, joined: Tensor) -> Any:
        """The output that the parts were joined from; what the loss does not read is an old one."""
        given = [*tensors(self.whole)]
        if self.single:
            given[self.read[0]] = joined
        else:
            sizes = [given[i][:1].numel() if self._is_rows(i) else given[i].numel()
                     for i in self.read]  # fmt: skip
            for i, part in zip(self.read, joined.split(sizes, 1), strict=True):
                shape, old = given[i].shape, given[i]
                fresh = (
                    part.reshape(-1, *shape[1:]) if self._is_rows(i) else part.mean(0).view(shape)
                )
                given[i] = fresh.to(old.dtype) if joined.dtype != old.dtype else fresh
        parts = iter(given)
        return _rebuilt(self.whole, lambda _: next(parts))

    def columns_like(self, targets: Tensor) -> Tensor | None:
        """Which columns of the joined parts have the targets' form; None where none or all do."""
        given = [[*tensors(self.whole)][i] for i in self.read]
        like = [part.shape == targets.shape for part in given]
        if self.single or not any(like) or all(like):
            return None
        sizes = [p[:1].numel() if self._is_rows(i) else p.numel()
                 for i, p in zip(self.read, given, strict=True)]  # fmt: skip
        return torch.cat([torch.full((n,), own) for n, own in zip(sizes, like, strict=True)])

    def of(self, loss: Loss) -> Loss:
        """The loss of the joined parts."""

        def of_parts(output: Tensor, targets: Any) -> Tensor:
            return loss(self.apart(output), targets)

        of_parts.__name__ = getattr(loss, "__name__", type(loss).__name__)
        return of_parts

    def _is_rows(self, i: int) -> bool:
        part = [*tensors(self.whole)][i]
        return part.ndim > 0 and len(part) == self.count

    def __call__(self, _: nn.Module, args: Any, output: Any) -> Any:
        """As a hook of the model."""
        return self.join(output) if self.active and not isinstance(output, Tensor) else output

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

    Cost: an evaluation of the loss for each tensor.
    """
    if isinstance(whole, Tensor):
        return None
    detached = _rebuilt(whole, lambda t: t.detach())
    now = _value(loss, detached, targets)
    if now is None:
        return None
    parts = [*tensors(whole)]
    read = tuple(
        i for i, part in enumerate(parts)
        if part.is_floating_point() and part.numel()
        and _value(loss, _with_nan(detached, i), targets) != now
    )  # fmt: skip
    usual = (_studied(whole),)
    joint = Joint(detached, read or usual, count, (read or usual) == usual)
    if joint.single:
        return joint
    if not any(joint._is_rows(i) for i in read):
        raise Refusal("no tensor of the output that the loss reads has one row for each sample")
    width = sum(parts[i].numel() for i in read) // count
    if width > WIDEST:
        raise Refusal(f"the loss reads {width} numbers of each sample's output in several tensors")
    return joint


def _studied(whole: Any) -> int:
    tensor = as_tensor(whole)[0]
    return next(i for i, part in enumerate(tensors(whole)) if part is tensor)


def _value(loss: Loss, whole: Any, targets: Any) -> float | None:
    """Of a loss; None where it raises, or is no number."""
    try:
        with torch.no_grad(), random_states():
            value = float(loss(_rebuilt(whole, lambda t: t.clone()), targets))
    except Exception:  # noqa: BLE001 (a loss raises anything of what it does not take)
        return None
    return None if math.isnan(value) else value


def _with_nan(whole: Any, at: int) -> Any:
    count = iter(range(at + 1))
    return _rebuilt(whole, lambda t: torch.full_like(t, math.nan) if next(count, -1) == at else t)


def _rebuilt(whole: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same structure with other tensors; an output of Hugging Face answers by attribute too."""
    if isinstance(whole, Mapping) and type(whole) is not dict:
        return type(whole)(**{k: _rebuilt(v, change) for k, v in whole.items()})
    return mapped(whole, change)


@contextmanager
def joined(model: nn.Module, joint: Joint | None) -> Iterator[None]:
    """While the block runs the model, and every copy made in it, gives the parts as one tensor."""
    if joint is None or joint.studied or joint.active:
        yield
        return
    handle = model.register_forward_hook(joint)
    joint.active = True
    try:
        yield
    finally:
        joint.active = False
        handle.remove()


def joint_in(model: nn.Module) -> Joint | None:
    """What joins the outputs of a model while it is measured; None where nothing does."""
    hooks = (h for m in model.modules() for h in m._forward_hooks.values())
    return next((h for h in hooks if isinstance(h, Joint) and h.active), None)


def without_joints(model: nn.Module) -> nn.Module:
    """The same model without the hooks that joined its outputs while it was measured."""
    for module in model.modules():
        for key in [k for k, h in module._forward_hooks.items() if isinstance(h, Joint)]:
            del module._forward_hooks[key]
    return model
