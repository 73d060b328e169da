"""Whether a network fits its data, up to noise."""

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.gate import Refusal
from sigmascope.linalg import sums
from sigmascope.probes import Subject
from sigmascope.probes.samples import IGNORED, Batch, require_finite_targets
from sigmascope.records import Estimate

FITS = 1 / 16  # of the variance of the targets, or of the errors of the best constant answer
PREDICTED = 0.1  # share of the residual that the input must explain to be called structure
MOST = 512  # samples among which residuals are predicted
RIDGES = tuple(10.0**p for p in range(-4, 2))


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a network fits.

    Attributes:
        unexplained: Share of the variance of the targets that is left, or of the errors that the
            best constant answer makes.
        fits: Whether that is less than a sixteenth, or looks like noise.
        says: In a few words.
    """

    unexplained: Estimate
    fits: bool
    says: str


def fit_of(subject: Subject, targets: Tensor) -> Fit:
    """How much of the targets a model leaves unexplained, and whether that is noise.

    A large rest is noise if the inputs do not predict it: kernel ridge regression with a Gaussian
    kernel, each sample predicted from the others.

    Args:
        subject: The model on its inputs.
        targets: Values in the shape of the output, or classes.

    Raises:
        Refusal: If targets are neither, not finite, all the same, or classes without an output.
    """
    if not isinstance(targets, Tensor):
        raise Refusal(
            f"`targets` must be a tensor of values or classes, got {type(targets).__name__}: wrap "
            "it with torch.as_tensor."
        )
    require_finite_targets(targets)
    output = subject.output.detach().cpu()
    targets = targets.detach().cpu()
    if targets.is_floating_point():
        rows = targets.reshape(len(targets), -1) if targets.ndim else targets
        return _of_values(subject.batch, output.reshape(len(output), -1), rows)
    return _of_classes(output, targets)


def _of_classes(output: Tensor, targets: Tensor) -> Fit:
    if output.ndim != 2 or targets.shape != output.shape[:1] or targets.is_complex():
        raise _unlike(targets, output)
    output, targets = output[targets != IGNORED], targets[targets != IGNORED].long()
    bad = targets[(targets < 0) | (targets >= output.shape[1])]
    if len(bad) or not len(targets):
        raise Refusal(
            f"`targets` must be classes from 0 to {output.shape[1] - 1}, for there are "
            f"{output.shape[1]} outputs, got {int(bad[0]) if len(bad) else IGNORED}. Renumber "
            "them, or widen the last layer."
        )
    wrong = float((output.argmax(1) != targets).double().mean())
    common = float(targets.flatten().bincount().max()) / len(targets)
    if common == 1:
        raise Refusal("Targets must differ, got one class. Pass samples of several classes.")
    share = wrong / (1 - common)
    fits = share < FITS
    words = f"it {'fits' if fits else 'does not fit'} ({1 - wrong:.1%} of the samples are right)"
    return Fit(Estimate.exactly(share, how="errors beside the best constant"), fits, words)


def _unlike(targets: Tensor, output: Tensor) -> Refusal:
    return Refusal(
        f"`targets` must be values in the shape of the output {tuple(output.shape)}, or one class "
        f"a row, got {targets.dtype} of shape {tuple(targets.shape)}. Pass those of these samples."
    )


def _of_values(batch: Batch, output: Tensor, targets: Tensor) -> Fit:
    if output.shape != targets.shape:
        raise _unlike(targets, output)
    scale = max(float(targets.abs().max()), float(output.abs().max())) or 1.0  # squares overflow
    y, rest = targets.double() / scale, (targets.double() - output.double()) / scale
    size = (y - y.mean(0)).square().sum()
    if float(size) == 0:
        raise Refusal("Targets must differ, got one value. Pass samples with several.")
    share = float(rest.square().sum() / size)
    estimate = Estimate.rounded(share, ulps=1e8, how="squared error beside the variance")
    left = f"{share:.1%} of the variance is left"
    if share < FITS:
        return Fit(estimate, True, f"it fits ({left})")
    if not isinstance(batch, Tensor):
        return Fit(estimate, False, f"it does not fit ({left})")
    predicted = predictable(batch.flatten(1).double().cpu()[:MOST], rest[:MOST])
    if predicted < PREDICTED:
        return Fit(estimate, True, f"it fits up to what looks like noise ({left})")
    words = f"it does not fit ({left}, and the inputs predict {predicted:.0%} of that)"
    return Fit(estimate, False, words)


def predictable(x: Float64[Tensor, "n d"], rest: Float64[Tensor, "n c"]) -> float:
    """Share of a residual that the inputs explain, each sample left out in turn.

    Args:
        x: Inputs.
        rest: Residuals.

    Returns:
        At most 1; 0 where the mean predicts as well.
    """
    distance = torch.cdist(x, x).square()
    scale = sums.median(distance) or 1.0
    K = torch.exp(-distance / scale)
    centred = rest - rest.mean(0)
    total = float(centred.square().sum())
    if total == 0:
        return 0.0
    values, vectors = torch.linalg.eigh(K)
    best = 0.0
    for ridge in RIDGES:
        weights = values.clamp(min=0) / (values.clamp(min=0) + ridge)
        smoothed = vectors @ (weights[:, None] * (vectors.mT @ centred))
        own = (vectors.square() * weights).sum(1)
        missed = (centred - smoothed) / (1 - own).clamp(min=1e-9)[:, None]
        best = max(best, 1 - float(missed.square().sum()) / total)
    return best
