"""How good training is: scores at its end, and the probability that it gets under way."""

import math

import torch
from torch import Tensor

from sigmascope.diagnosis.programs.outputs import joint_in
from sigmascope.diagnosis.training.runs import Data, Run
from sigmascope.records import Estimate
from sigmascope.survey.task import labels_of

UNDERWAY = 0.55  # left, by which half of the variance, or of the classes, is told as a rule
NINETY = 1.645  # standard deviations on either side of nine tenths
LEAST_SPREAD = 0.2  # of the logarithm of what is left, between this sample and all data
FLOOR = 0.005


def chance_below(left: Estimate) -> Estimate:
    """Probability that less than `UNDERWAY` is left, if the logarithm errs as the interval says.

    Args:
        left: At the end of training.
    """
    tiny = 1e-9
    value, ends = math.log(max(left.value, tiny)), (left.low, left.high)
    aim = math.log(UNDERWAY)
    side = ends[1] if aim > value else ends[0]
    spread = max(abs(math.log(max(side, tiny)) - value) / NINETY, LEAST_SPREAD)
    z = (aim - value) / spread
    p = min(max(0.5 * (1 + math.erf(z / math.sqrt(2))), FLOOR), 1 - FLOOR)
    return Estimate.exactly(p, how=f"from what is left at the end: {left.how}")


def score_of(run: Run, data: Data) -> float | None:
    """Accuracy, or share of the targets' variance that is explained, on the samples at hand."""
    output = run.output(data)
    joint = joint_in(run.model)
    own = None if joint is None else joint.columns_like(data.targets)
    if own is not None and output.ndim == 2:
        output = output[:, own.to(output.device)].reshape(data.targets.shape)
    labels = labels_of(output, data.targets)
    if labels is None or not bool(output.isfinite().all()):
        return None
    wanted = labels.wanted
    if wanted is not None and wanted.shape[labels.dim] > 1 and labels.exclusive:
        right = output.argmax(labels.dim) == wanted.to(output).argmax(labels.dim)
        right = right if labels.counted is None else right[labels.counted.to(right.device)]
        return right.double().mean().item()
    if wanted is not None:
        return ((output > boundary(output, data)) == wanted).double().mean().item()
    if data.targets.shape != output.shape:
        return None
    y = data.targets.double()
    error, spread = (y - output.double()).square().sum(), (y - y.mean(0)).square().sum()
    return max(1.0 - float(error / spread), -1.0) if float(spread) > 0 else None


def boundary(output: Tensor, data: Data) -> float:
    """Between no and yes: the output at which the loss of both is the same, 0 or one half."""

    def gap(at: float) -> float:
        made = torch.full_like(output, at)
        with torch.no_grad():
            yes, no = (float(data.loss(made, torch.full_like(data.targets, y))) for y in (1.0, 0.0))
        return abs(yes - no)

    try:
        return min((0.5, 0.0), key=gap)
    except Exception:  # noqa: BLE001 (a loss may raise anything of targets that are made up)
        return 0.5
