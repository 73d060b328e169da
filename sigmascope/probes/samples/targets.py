"""Whether targets suit the outputs that a loss compares them with.

A loss takes much that was not meant: numbers of other shapes are broadcast against one another, and
NaN or values that are no probabilities go through to a number of its own. What it is asked to do is
watched once, on the first output.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from sigmascope.gate import Refusal, random_states
from sigmascope.probes.samples.batches import tensors

Loss = Callable[[Tensor, Any], Tensor]
SAME_SHAPE = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)
CLASSES = (F.cross_entropy, F.nll_loss)
SHARES = (F.binary_cross_entropy, F.binary_cross_entropy_with_logits)
SQUARED = "squared error"
IGNORED = -100  # the class that torch's losses leave out unless told otherwise
ARITHMETIC = {
    "add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide",
    "pow", "eq", "ne", "gt", "ge", "lt", "le", "maximum", "minimum",
}  # fmt: skip


def loss_name(loss: Loss | None, targets: Any) -> str:
    """What a loss is called in a sentence; squared error is meant where there is none to take."""
    if loss is None or targets is None:
        return SQUARED
    name = getattr(loss, "__name__", type(loss).__name__)
    return "the loss given" if name == "<lambda>" else name


def class_dim(output: Tensor, classes: Tensor) -> int | None:
    """The dimension of scores that counts classes: the last, or the second, as of segmentations.

    Args:
        output: Scores.
        classes: One for each row of them.

    Returns:
        None where there is not one class for each row either way.
    """
    if classes.shape == output.shape[:-1]:
        return -1
    if output.ndim > 1 and classes.shape == (*output.shape[:1], *output.shape[2:]):
        return 1
    return None


def require_finite_targets(targets: Any) -> None:
    """Raise if a tensor among the targets is empty, or holds NaN or an infinity."""
    for tensor in tensors(targets):
        shape = tuple(tensor.shape)
        if tensor.numel() == 0:
            raise Refusal(
                f"`targets` must hold one target for each sample, got shape {shape}. Pass those of "
                "the batch."
            )
        whole = not (tensor.is_floating_point() or tensor.is_complex())
        bad = 0 if whole else int((~tensor.isfinite()).sum())
        if bad:
            first = tuple((~tensor.isfinite()).nonzero()[0].tolist())
            raise Refusal(
                f"`targets` must be finite, got {bad} of {tensor.numel()} values that are not, the "
                f"first at {first} of shape {shape}. Leave these samples out, or fill the values."
            )


def scalar_loss(loss: Loss, out: Tensor, targets: Any) -> Tensor:
    """The loss, which is refused if it does not accept the targets or is not one number."""
    try:
        value = loss(out, targets)
    except Refusal:
        raise
    except Exception as error:  # a user's loss raises anything
        shape = tuple(targets.shape) if isinstance(targets, Tensor) else type(targets).__name__
        words = str(error).rstrip(".")
        raise Refusal(
            f"`loss` must accept the output {tuple(out.shape)} and the targets {shape}, got "
            f"{type(error).__name__}: {words}. Pass targets and a loss that fit the output."
        ) from error
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise Refusal(f"`loss` must return a scalar, got {got}. Reduce it with .mean().")
    return value.squeeze()


def require_task(output: Tensor, targets: Any, loss: Loss, *, count: int, batch_dim: int) -> None:
    """Raise unless a loss compares each output with the target that belongs to it.

    Args:
        output: Of the model on the batch.
        targets: What the loss compares it with.
        loss: Called once, on numbers that are not kept.
        count: Samples in the batch.
        batch_dim: Where the batch has them.

    Raises:
        Refusal: If there are more or fewer targets than samples, if the loss raises or is no
            scalar, if it sets every output against the targets of other samples, or if targets are
            classes that there is no output for, or no probabilities where these are meant.
    """
    if isinstance(targets, Tensor):
        _require_rows(output, targets, count, batch_dim)
    held = output.detach().clone()
    with random_states(), torch.no_grad(), _Watch(held, targets):
        scalar_loss(loss, held, targets)


def _require_rows(output: Tensor, targets: Tensor, count: int, batch_dim: int) -> None:
    """As many targets as samples, or as rows of the output; scores in rows count as rows."""
    ends = {0, batch_dim}
    rows = {count, output.numel()}
    rows |= {output.shape[:-1].numel()} if output.ndim > 1 else set()
    rows |= {output.shape[d] for d in ends if d < output.ndim}
    found = [targets.shape[d] for d in sorted(ends) if d < targets.ndim]
    if not rows.intersection(found):
        raise Refusal(
            f"`targets` must have one row for each of the {count} samples, got shape "
            f"{tuple(targets.shape)} for an output of shape {tuple(output.shape)}. Pass the "
            "targets of these samples, in their order."
        )


class _Watch(TorchFunctionMode):
    """Looks at every operation of a loss that joins what comes from outputs and from targets."""

    def __init__(self, output: Tensor, targets: Any) -> None:
        super().__init__()
        self._shape = output.shape
        self._sides = [{id(output): output}, {id(t): t for t in tensors(targets)}]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        read = [*tensors((args, kwargs))]
        of = [any(id(t) in side for t in read) for side in self._sides]
        if all(of):
            _require_suited(func, args, kwargs)
        found = func(*args, **kwargs)
        wrote = [*tensors(found)]
        if all(of) and func.__name__.strip("_") in ARITHMETIC and len(wrote) == 1:
            self._require_alike(read, wrote[0])
        for side, mine in zip(self._sides, of, strict=True):
            if mine:
                side.update({id(t): t for t in wrote})  # kept, so that no id is used again
        return found

    def _require_alike(self, read: list[Tensor], wrote: Tensor) -> None:
        """Neither side may be spread over the other: (n) against (n, 1) makes n times n.

        Nor may the outputs as they are be spread over more targets than there are outputs; a loss
        that means to does so by a shape of its own.
        """
        outputs, targets = (
            [t for t in read if id(t) in mine and id(t) not in other]
            for mine, other in (self._sides, self._sides[::-1])
        )
        if not (outputs and targets) or wrote.numel() <= outputs[0].numel():
            return
        if wrote.numel() > targets[0].numel() or outputs[0].shape == self._shape:
            raise _spread(outputs[0], targets[0])


def _require_suited(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> None:
    """What torch's own losses take without a word, or in words that name no remedy."""
    named = dict(zip(("input", "target"), args, strict=False)) | kwargs
    output, target = named.get("input"), named.get("target")
    if not (isinstance(output, Tensor) and isinstance(target, Tensor)):
        return
    if func in SAME_SHAPE and output.shape != target.shape:
        raise _spread(output, target)
    if func in SHARES and bool(((target < 0) | (target > 1)).any()):
        raise Refusal(
            "`targets` of a binary cross-entropy must be between 0 and 1, got values from "
            f"{float(target.min()):.3g} to {float(target.max()):.3g}. Pass 0 and 1 for the classes."
        )
    if func in CLASSES:
        _require_classes(output, target, int(kwargs.get("ignore_index", IGNORED)))


def _require_classes(output: Tensor, target: Tensor, ignored: int) -> None:
    count = output.shape[1 if output.ndim > 1 else 0]
    if target.is_floating_point():
        if target.shape == output.shape and bool((target < 0).any()):
            raise Refusal(
                "Floating `targets` of a cross-entropy are probabilities of the classes, got "
                f"{float(target.min()):.3g}. Pass classes as whole numbers, or a loss for values."
            )
        return
    bad = target[((target < 0) | (target >= count)) & (target != ignored)]
    if len(bad):
        raise Refusal(
            f"`targets` must be classes from 0 to {count - 1}, for there are {count} outputs, got "
            f"{int(bad.flatten()[0])}. Renumber them, or widen the last layer."
        )
    if not bool((target != ignored).any()):
        raise Refusal(
            f"`targets` must hold a class that counts, got {ignored}, which the loss leaves out, "
            "for every sample. Pass samples with labels."
        )


def _spread(output: Tensor, target: Tensor) -> Refusal:
    shapes = tuple(output.shape), tuple(target.shape)
    return Refusal(
        f"`loss` must compare each output with its own target, got shapes {shapes[0]} and "
        f"{shapes[1]}, which are broadcast against one another. Give both one shape, e.g. "
        "`targets.view_as(output)`."
    )
