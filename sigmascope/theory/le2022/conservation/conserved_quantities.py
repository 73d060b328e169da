"""What training conserves in a network, what it does not, and why."""

from dataclasses import dataclass
from typing import Any, final

from torch import nn

from sigmascope.probes import Subject
from sigmascope.probes.samples import Batch, Loss
from sigmascope.probes.symmetry import Fixed
from sigmascope.records import Shown
from sigmascope.theory.le2022.conservation.invariants import Invariant, claims
from sigmascope.theory.le2022.conservation.rate_trials import judged


@final
@dataclass(frozen=True, slots=True, repr=False)
class Conserved(Shown):
    """What training conserves in a network, what it does not, and why.

    Attributes:
        invariants: Each measured on the example.
        broken: What the forward pass promises and the backward pass does not keep: a wrong custom
            backward, or a part of the network that is detached.
        fixed: Rows, columns and entries of parameters that are in no balance, with the reason.
    """

    invariants: tuple[Invariant, ...]
    broken: tuple[Invariant, ...]
    fixed: tuple[Fixed, ...]

    @classmethod
    def of(cls, subject: Subject) -> "Conserved":
        """Of what is being studied."""
        found = subject.symmetries
        measured = judged(subject, claims(found))
        return cls(
            tuple(i for i in measured if i.rate <= i.tolerance),
            tuple(i for i in measured if not i.rate <= i.tolerance),
            found.fixed,
        )


def invariants(
    model: nn.Module, example: Batch, *, targets: Any = None, loss: Loss | None = None
) -> tuple[Invariant, ...]:
    """What gradient flow conserves in a network.

    Args:
        model: Left as it was found.
        example: A batch; pairs of units are listed where their activation patterns agree on it.
        targets: What `loss` compares the output with.
        loss: Followed too if given: under a softmax the last layer's column sums are conserved.

    Raises:
        Refusal: If the model cannot be run on the example, or nothing of it is trained.

    Source:
        Le & Jegelka 2022, Lemmas 2 and 3 and Theorem 1.

    Cost: two forward passes and a backward pass; nine more of both where a rate is not zero.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> [i.tensors for i in invariants(net, torch.ones(2, 3)) if i.kind != "norm"]
        [('2.weight', '0.weight', '0.bias')]
    """
    return conserved(model, example, targets=targets, loss=loss).invariants


def conserved(
    model: nn.Module, example: Batch, *, targets: Any = None, loss: Loss | None = None
) -> Conserved:
    """As `invariants`, with what is not conserved and why.

    Args:
        model: Left as it was found.
        example: A batch.
        targets: What `loss` compares the output with.
        loss: Followed too if given.

    Raises:
        Refusal: As for `invariants`.

    Source:
        Le & Jegelka 2022, Sec. 4.2.
    """
    return Conserved.of(Subject(model, example, targets, loss))
