"""Which rescalings of the weights leave a network as it is: the door."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.execution.freeze import alive
from sigmascope.probes.execution.refusals import (
    called,
    require_finite_batch,
    require_model,
    require_real,
)
from sigmascope.probes.samples.batches import Batch, as_tensor, beside, prepared, tensors
from sigmascope.probes.samples.targets import Loss
from sigmascope.probes.symmetry.families import Fixed, Symmetry, families
from sigmascope.probes.symmetry.scaled_tensors import Shadows
from sigmascope.probes.symmetry.symbolic_run import Trace
from sigmascope.probes.symmetry.zero_gradient_sums import zero_sums


@dataclass(frozen=True, slots=True)
class StillSum:
    """Sums of a gradient that are zero whatever the loss.

    Attributes:
        tensor: Name of the parameter.
        axes: Over which its gradient sums to zero; none where each entry is zero.
        count: How many sums there are.
        terms: Of how many entries each.
    """

    tensor: str
    axes: tuple[int, ...]
    count: int
    terms: int


@dataclass(frozen=True, slots=True)
class Symmetries:
    """All that was found in one run.

    Attributes:
        scalings: Families of units that may be rescaled.
        sums: Gradients that sum to zero.
        fixed: What may not be rescaled.
    """

    scalings: tuple[Symmetry, ...]
    sums: tuple[StillSum, ...]
    fixed: tuple[Fixed, ...]


def symmetries(
    model: nn.Module, batch: Batch, *, targets: Any = None, loss: Loss | None = None
) -> Symmetries:
    """How the weights may be changed without changing what the model computes on a batch.

    One run is followed operation by operation, in the model's own modes; every unit gets an unknown
    scale, every operation gives equations between them. Operations that are not known let nothing
    be rescaled. Patterns of activations count on the samples of this batch only.

    Args:
        model: Left as it was found. Parameters that need no gradient count as constants.
        batch: As for `Subject`.
        targets: What `loss` compares the output with.
        loss: Followed too, if given: a softmax in it forgets what is added to all logits.

    Raises:
        Refusal: If the model or the batch cannot be run.
    """
    model = getattr(model, "_orig_mod", model)
    require_model(model)
    batch = prepared(model, batch)
    require_finite_batch(model, batch)
    learnable = _learnable(model)
    shadows = Shadows()
    shadows.own(learnable)
    frozen = {n: p for n, p in model.named_parameters() if not p.requires_grad}
    shadows.disown({**frozen, **dict(model.named_buffers())})
    with alive(model), Trace(shadows) as trace:
        out = called(model, batch)
        if loss is not None and targets is not None:
            out = loss(as_tensor(out)[0], beside(model, targets))
    for t in tensors(out):
        if t.is_floating_point() and t.numel():
            shadows.pin(t, "the network's output")
    shadows.settle()
    wanted = {trace.key(p): n for n, p in learnable.items()}
    sums = zero_sums(trace.steps, wanted, [trace.key(t) for t in tensors(out)])
    stills = (
        _still(n, learnable[n], axes) for n, a in sums.items() for axes in sorted(map(sorted, a))
    )
    scalings, fixed = families(shadows)
    return Symmetries(tuple(scalings), tuple(stills), tuple(fixed))


def _learnable(model: nn.Module) -> dict[str, nn.Parameter]:
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise Refusal(
            "`model` must have parameters that are trained, got none that need a gradient. "
            "Call requires_grad_() on those that the optimiser changes."
        )
    require_real(trained, "What is conserved")
    return trained


def _still(name: str, parameter: Tensor, axes: list[int]) -> StillSum:
    terms = int(np.prod([parameter.shape[a] for a in axes]))
    return StillSum(name, tuple(axes), parameter.numel() // terms, terms)
