"""The batches of a probe: minibatches of its samples, or all of them where they belong together."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from sigmascope.diagnosis.trainability.target_r2 import ROWS, thinned
from sigmascope.gate import random_states
from sigmascope.probes.execution import duplicate
from sigmascope.probes.samples import Batch, Loss, as_tensor, chosen, run

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
