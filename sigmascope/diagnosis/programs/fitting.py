"""The loss that fits the targets of a file, which names none."""

from torch import Tensor
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.probes.samples import IGNORED, class_dim


def fitting_loss(output: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy for whole-number targets, mean squared error for others."""
    if targets.is_floating_point() or targets.is_complex():
        _require_values(output, targets)
        return F.mse_loss(output, targets.to(output.dtype).reshape(output.shape))
    scores = output.movedim(1, -1) if class_dim(output, targets) == 1 else output
    _require_classes(scores, targets, shape=tuple(output.shape))
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten().long())


def _require_values(output: Tensor, targets: Tensor) -> None:
    if not _same_numbers(output, targets):
        raise Refusal(
            f"Floating targets must have the shape of the output, {tuple(output.shape)}, got "
            f"{tuple(targets.shape)}. Give one value for each output, or whole numbers for classes."
        )
    if targets.is_complex() and not output.is_complex():
        raise Refusal(
            f"Targets must be real, for the output is {output.dtype}, got {targets.dtype}, whose "
            "imaginary parts would be lost. Give real and imaginary parts as two outputs."
        )
    if not bool(targets.to(output.dtype).isfinite().all()):
        largest = float(targets.abs().max())
        raise Refusal(
            f"Targets must fit {output.dtype}, the precision of the output, got {largest:.3g}. "
            "Scale them, or measure the model in float64."
        )


def _same_numbers(output: Tensor, targets: Tensor) -> bool:
    """Whether targets are the output's values in their order: of its shape, or with flat rows."""
    sizes = [[size for size in t.shape if size != 1] for t in (output, targets)]
    flat = output.shape[:1] == targets.shape[:1] and output[:1].numel() == targets[:1].numel()
    return sizes[0] == sizes[1] or (flat and min(output.ndim, targets.ndim) <= 2)


def _require_classes(scores: Tensor, targets: Tensor, *, shape: tuple[int, ...]) -> None:
    if scores.ndim < 2 or targets.shape != scores.shape[:-1]:
        raise Refusal(
            f"Whole-number targets must be one class for each row of scores, got targets of shape "
            f"{tuple(targets.shape)} for an output of shape {shape}. Give one class a sample, or "
            "floating targets of the shape of the output."
        )
    classes = scores.shape[-1]
    bad = targets[(targets >= classes) | ((targets < 0) & (targets != IGNORED))]
    if len(bad):
        raise Refusal(
            f"Whole-number targets must be classes from 0 to {classes - 1}, for the model has "
            f"{classes} outputs, got {int(bad[0])}. Renumber them, or widen the last layer."
        )
