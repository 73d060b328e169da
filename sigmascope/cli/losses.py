"""The loss that fits the targets of a file, which names none."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

IGNORED = -100  # the target that torch's cross-entropy leaves out


def fitting_loss(output: "Tensor", targets: "Tensor") -> "Tensor":
    """Cross-entropy for whole-number targets, mean squared error for others."""
    from torch.nn import functional as F

    if targets.is_floating_point():
        _require_values(output, targets)
        return F.mse_loss(output, targets.to(output.dtype).view_as(output))
    scores = output
    if output.ndim > 2 and targets.shape != output.shape[:-1]:
        scores = output.movedim(1, -1)  # the classes of a segmentation come before its pixels
    _require_classes(scores, targets, shape=tuple(output.shape))
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten().long())


def _require_values(output: "Tensor", targets: "Tensor") -> None:
    from sigmascope import probes

    if output.numel() != targets.numel():
        raise probes.Refusal(
            f"Floating targets must have the shape of the output, {tuple(output.shape)}, got "
            f"{tuple(targets.shape)}. Give one value for each output, or whole numbers for classes."
        )


def _require_classes(scores: "Tensor", targets: "Tensor", *, shape: tuple[int, ...]) -> None:
    from sigmascope import probes

    if scores.ndim < 2 or targets.shape != scores.shape[:-1]:
        raise probes.Refusal(
            f"Whole-number targets must be one class for each row of scores, got targets of shape "
            f"{tuple(targets.shape)} for an output of shape {shape}. Give one class a sample, or "
            "floating targets of the shape of the output."
        )
    classes = scores.shape[-1]
    bad = targets[(targets >= classes) | ((targets < 0) & (targets != IGNORED))]
    if len(bad):
        raise probes.Refusal(
            f"Whole-number targets must be classes from 0 to {classes - 1}, for the model has "
            f"{classes} outputs, got {int(bad[0])}. Renumber them, or widen the last layer."
        )
