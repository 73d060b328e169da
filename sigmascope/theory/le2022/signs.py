"""Whether training has reached the regime of stable signs and stable activations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from sigmascope.probes.execution import plain
from sigmascope.probes.piecewise_affine import activation_patterns
from sigmascope.probes.samples import Batch


@final
@dataclass(frozen=True, slots=True)
class Stability:
    """What changed its sign since the first look.

    Attributes:
        changed: Share of the entries whose sign differs from the first look, in [0, 1].
        flipped: Share that changed since the look before.
        since: The look from which on nothing changed; the last one if something just did.
    """

    changed: float
    flipped: float
    since: int


@final
class SignRecord:
    """Signs of weights and sides of activations, look by look.

    Le & Jegelka call it the stable sign regime when no weight changes its sign any more; then the
    tree network of their Lemma 1 is fixed.

    Source:
        Le & Jegelka 2022, Assumptions 1 and 2.
    """

    def __init__(self) -> None:
        self._first: dict[str, Tensor] = {}
        self._last: dict[str, Tensor] = {}
        self._since: dict[str, int] = {}

    def look(
        self, model: nn.Module, batch: Batch | None = None, *, step: int
    ) -> Mapping[str, Stability]:
        """Compare with the looks before.

        Args:
            model: Left as it was found.
            batch: Where given, the sides of activations on it are compared too; always the same.
            step: Of training.

        Returns:
            By name of the parameter (two or more dimensions), or `"relu #3"` for the third call
            of an activation.
        """
        now = {n: plain(p).sign().to(torch.int8) for n, p in model.named_parameters() if p.ndim > 1}
        if batch is not None:
            now.update(activation_patterns(model, batch))
        found = {name: self._compared(name, signs, step) for name, signs in now.items()}
        self._last = now
        return found

    def _compared(self, name: str, signs: Tensor, step: int) -> Stability:
        first = self._first.setdefault(name, signs)
        last = self._last.get(name, signs)
        flipped = float((signs != last).double().mean())
        if flipped > 0 or name not in self._since:
            self._since[name] = step
        return Stability(float((signs != first).double().mean()), flipped, self._since[name])
