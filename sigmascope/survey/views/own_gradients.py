"""One run forward and back as training will make it, and what is kept of its gradients.

Gradients of all parameters take as much memory as the parameters. What is read of most of them is a
few numbers, taken as each is made.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial

import torch
from torch import Tensor

from sigmascope.linalg import sums
from sigmascope.probes import Subject
from sigmascope.probes.execution import Dropped, dropped, plain, watching_dropout
from sigmascope.probes.samples import chosen
from sigmascope.probes.symmetry import reduced_gradients

SHARES = 2**14  # numbers of which a share is known to 0.004 by chance
LEAST = 4  # samples: normalisers need more than one


@dataclass(frozen=True, slots=True)
class Gradient:
    """What is kept of the gradient of one parameter.

    Attributes:
        square: Sum of squares.
        largest: Of its entries' sizes, of complex ones of their parts; nan where one is nan.
        bad: Entries that are not finite.
        entries: Itself, where more is asked of it.
    """

    square: float
    largest: float
    bad: int
    entries: Tensor | None

    @classmethod
    def of(cls, gradient: Tensor, *, whole: bool) -> "Gradient":
        dense = gradient if gradient.layout == torch.strided else gradient.to_dense()
        square = sums.square_sum(dense)
        bad = 0 if math.isfinite(square) else dense.numel() - int(dense.isfinite().sum())
        parts = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
        least, most = parts.aminmax() if parts.numel() else (torch.zeros(()), torch.zeros(()))
        largest = float(torch.maximum(most, -least))  # a copy without signs would be as large
        return cls(square, largest, bad, dense.clone() if whole else None)


Gradients = Callable[[], dict[str, Gradient]]


class OwnModes:
    """One run forward and back in the model's own modes, made when it is first asked for."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._places: tuple[Dropped, ...] | None = None
        self.gradients = cache(self._gradients)

    def _gradients(self) -> dict[str, Gradient]:
        """Of the loss, or of a random sum of the outputs where there is none."""
        s = self._subject
        if s.loss is not None and s.targets is not None and (apart := s.loss_gradients()):
            kept: dict[str, Gradient] = {}
            for name, gradient in apart:
                kept[name] = self._kept(name, gradient)
                del gradient  # or it is held while the next ones are made
            return kept
        task = {"targets": s.targets, "loss": s.loss, "fused": True}
        ask = partial(reduced_gradients, s.model, s.batch, self._kept, **task)
        try:
            with watching_dropout(s.model) as places:
                found = ask()
        except Exception:  # noqa: BLE001 (operations may refuse to be watched; else it comes again)
            return ask()
        if all(m.training for m in s.model.modules()):
            self._places = tuple(places.values())
        return found

    @cached_property
    def _whole(self) -> frozenset[str]:
        """Names of weights of whose gradients more is asked."""
        return frozenset(name for name, _ in alike(self._subject))

    def _kept(self, name: str, gradient: Tensor) -> Gradient:
        return Gradient.of(gradient, whole=name in self._whole)

    def dropped(self) -> tuple[Dropped, ...]:
        """What dropout takes away in training mode; another run where there was none in it."""
        if self._places is not None:
            return self._places
        s = self._subject
        if (few := self._enough()) < s.count:
            with suppress(Exception):  # a model of one size of batch alone is run on all
                return dropped(s.model, chosen(s.batch, torch.arange(few), batch_dim=s.batch_dim))
        return dropped(s.model, *(piece.batch for piece, _ in s.pieces))

    def _enough(self) -> int:
        """Of how many samples every layer writes numbers enough to tell a share by."""
        s = self._subject
        fewest = min((c.output.numel() for c in s.calls), default=0) / s.count
        return max(LEAST, math.ceil(SHARES / fewest)) if fewest else s.count


def alike(subject: Subject) -> Iterator[tuple[str, int]]:
    """Weights to be trained whose rows are all the same, and not zero; and how many rows."""
    for name, p in subject.model.named_parameters():
        rows = plain(p).flatten(1) if p.ndim > 1 and p.requires_grad else None
        if rows is None or min(rows.shape) < 2:
            continue
        if bool(rows[0].any()) and bool((rows == rows[0]).all()):
            yield name, len(rows)
