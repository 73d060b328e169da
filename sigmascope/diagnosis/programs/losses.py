"""Losses by name, and the one that fits targets where none is named."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal, nearest
from sigmascope.models.samples import IGNORED, Loss, class_dim

LossSpec = str | Loss | nn.Module
# short names beside those of `torch.nn.functional` and of the classes of `torch.nn`
SHORT: dict[str, Callable[..., Tensor]] = {
    "ce": F.cross_entropy,
    "mse": F.mse_loss,
    "mae": F.l1_loss,
    "l1": F.l1_loss,
    "smooth_l1": F.smooth_l1_loss,
    "bce": F.binary_cross_entropy,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
    "nll": F.nll_loss,
    "huber": F.huber_loss,
}


def loss_of(loss: LossSpec) -> Loss:
    """A loss by its name, or as it is.

    Args:
        loss: `cross_entropy`, `mse`, `bce_with_logits`, the name of any loss in
            `torch.nn.functional` or of its class (`CrossEntropyLoss`), a function of output and
            targets, or a module.

    Raises:
        Refusal: If there is no such loss.
    """
    if not isinstance(loss, str):
        return loss
    named = SHORT.get(loss) or _functional(loss)
    if named is None:
        kind = getattr(nn, loss, None)
        if isinstance(kind, type) and issubclass(kind, nn.modules.loss._Loss):
            return kind()
        names = loss_names()
        raise Refusal(
            f"There is no loss `{loss}`; there are {', '.join(names)}, and `file.py:function`."
            f"{nearest(loss, names)}"
        )

    def whole(output: Tensor, targets: Any) -> Tensor:
        # scores of sequences `[n, T, classes]` with classes `[n, T]` as torch wants them
        if named in (F.cross_entropy, F.nll_loss) and isinstance(targets, Tensor):
            rows = output.ndim > 2 and targets.shape == output.shape[:-1]
            if rows and not targets.is_floating_point():
                return named(output.flatten(0, -2), targets.flatten().long())
            if not targets.is_floating_point():
                return named(output, targets.long())
        if isinstance(targets, Tensor) and not targets.is_floating_point():
            targets = targets.to(output.dtype)  # losses of values take no whole numbers
        return named(output, targets)

    whole.__name__ = named.__name__
    return whole


def loss_names() -> tuple[str, ...]:
    """Names that `loss_of` takes, but for those of classes."""
    functional = (name for name in dir(F) if _functional(name) is not None)
    return tuple(sorted({*SHORT, *functional}))


def _functional(name: str) -> Callable[..., Tensor] | None:
    three = ("embedding", "margin_ranking", "triplet", "ctc", "gaussian", "with_distance")
    ends = name.endswith(("_loss", "cross_entropy", "_with_logits"))
    if not ends or name.startswith("_") or any(word in name for word in three):
        return None
    return getattr(F, name, None)


def is_language(ids: Tensor, output: Tensor) -> bool:
    """Whether a model gives scores of all ids for every place of its input."""
    return output.ndim == 3 and output.shape[:2] == ids.shape and output.shape[2] > int(ids.max())


def tells_next(model: nn.Module) -> bool:
    """Whether a model may be one that tells the next token.

    One of Hugging Face's, however wrapped, that says by its name that it fills in masked tokens is
    none. That it cannot `generate` says nothing: users' own models of its base class cannot either.
    """
    kinds = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
    return not any(kind.endswith(("ForMaskedLM", "ForPreTraining")) for kind in kinds)


def tokens_of(batch: Any) -> Tensor | None:
    """The token ids of a batch: whole numbers `[n, T]`, the decoder's where it has its own."""
    named = isinstance(batch, Mapping)
    ids: Any = batch.get("decoder_input_ids", batch.get("input_ids")) if named else batch
    first: Any = ids[0] if isinstance(ids, tuple) and ids else ids
    if not isinstance(first, Tensor) or first.ndim != 2 or first.is_floating_point():
        return None
    return None if first.dtype == torch.bool else first


def mask_of(batch: Any) -> Tensor | None:
    """Which of the tokens of a batch count, where it says so."""
    if not isinstance(batch, Mapping):
        return None
    side = "decoder_" if "decoder_input_ids" in batch else ""
    return batch.get(f"{side}attention_mask")


def shifted(ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """The next token of each; what losses leave out behind the last, and for padding."""
    following = torch.full_like(ids, IGNORED, dtype=torch.long)
    following[:, :-1] = ids[:, 1:]
    if mask is not None and mask.shape == ids.shape:
        following[:, :-1][mask[:, 1:] == 0] = IGNORED
    return following


# ------------------------------------------------------------------------------
# The loss that fits the targets of a file, which names none.


def fitting_loss(output: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy for whole-number targets, mean squared error for others."""
    if targets.is_floating_point() or targets.is_complex():
        # the output's values in their order: of its shape, or with flat rows
        sizes = [[size for size in t.shape if size != 1] for t in (output, targets)]
        flat = output.shape[:1] == targets.shape[:1] and output[:1].numel() == targets[:1].numel()
        if sizes[0] != sizes[1] and not (flat and min(output.ndim, targets.ndim) <= 2):
            raise Refusal(
                f"Floating targets must have the shape of the output, {tuple(output.shape)}, got "
                f"{tuple(targets.shape)}. Give one value for each output, or whole numbers for "
                "classes."
            )
        if targets.is_complex() and not output.is_complex():
            raise Refusal(
                f"Targets must be real, for the output is {output.dtype}, got {targets.dtype}, "
                "whose imaginary parts would be lost. Give real and imaginary parts as two "
                "outputs."
            )
        if not bool(targets.to(output.dtype).isfinite().all()):
            largest = float(targets.abs().max())
            raise Refusal(
                f"Targets must fit {output.dtype}, the precision of the output, got {largest:.3g}. "
                "Scale them, or measure the model in float64."
            )
        return F.mse_loss(output, targets.to(output.dtype).reshape(output.shape))
    scores = output.movedim(1, -1) if class_dim(output, targets) == 1 else output
    shape = tuple(output.shape)
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
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten().long())
