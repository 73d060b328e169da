"""Where numbers cease to be numbers: in what leads to a loss, in its derivatives, or in a step.

A script whose loss is not a number from some step on is run once more up to there, and every
operation is asked whether it made that of numbers; behind a derivative, autograd tells the line on
which the operation was computed that it is of. The invariant: an operation is named only where
nothing that it was given is without a value. Infinities alone are no fault, for masks are made of
them: the first that is not written down as such is the origin of what is made of it.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from sigmascope.diagnosis.scripts.seen import BrokenSeen, Line
from sigmascope.models.samples import tensors
from sigmascope.models.trace import storage_of

WRITTEN = frozenset(("full", "full_like", "fill", "masked_fill", "scalar_tensor", "where", "copy"))
UNWRITTEN = "empty"  # memory as it was found, which begins the name of what gives it
AT = re.compile(r'File "([^"]+)", line (\d+)')


def _numbers(t: Tensor) -> Tensor:
    """All that are held, of a tensor that leaves out zeros, too."""
    held = t._values() if t.layout == torch.sparse_coo else t
    return t.values() if t.layout not in (torch.strided, torch.sparse_coo) else held


def _is_finite(t: Tensor) -> bool:
    return not t.is_floating_point() or bool(_numbers(t).isfinite().all())


def _is_nan(t: Tensor) -> bool:
    return t.is_floating_point() and bool(_numbers(t).isnan().any())


class Origins(TorchDispatchMode):
    """Listens to all operations for the first that makes what is not a number.

    Args:
        place: The line of the script that is being run.
        own: Whether a file is the user's.
    """

    def __init__(self, place: Callable[[], Line | None], own: Callable[[str], bool]) -> None:
        super().__init__()
        self._place, self._own = place, own
        self._undo = ExitStack()
        self._first: tuple[str, Line | None] | None = None  # that made what is not a number
        self._infinite: tuple[str, Line | None] | None = None  # or an infinity
        self._given: Line | None = None  # where one that was made by nothing here was met first
        self.began = False

    def begin(self) -> None:
        """Listen from now on."""
        self.began = True
        self._undo.enter_context(torch.autograd.set_detect_anomaly(True, check_nan=False))
        self._undo.enter_context(self)

    def end(self) -> None:
        """Listen no more."""
        self._undo.close()

    def seen(self, what: str, values: Iterable[Tensor], step: int) -> BrokenSeen | None:
        """What is known where something ceased to be a number; None where nothing did.

        Args:
            what: Was computed last: `loss`, `gradients` or `step`.
            values: Of it.
            step: How many were made.
        """
        if not self.began or all(map(_is_finite, values)):
            return None
        made = self._first or self._infinite
        if made is None and what == "loss" and self._given is not None:
            return BrokenSeen(step, "data", "", self._given)
        return BrokenSeen(step, what, *(made or ("", None)))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = str(func).split(".")[1].strip("_")
        if self._first is not None or name.removeprefix("new_").startswith(UNWRITTEN):
            return func(*args, **(kwargs or {}))
        given = [*tensors((args, kwargs or {}))]  # asked before, for it may be written to
        of_numbers, bad = all(map(_is_finite, given)), [t for t in given if _is_nan(t)]
        of_values, places = not bad, {storage_of(t) for t in bad}
        out = func(*args, **(kwargs or {}))
        made = [*tensors(out)]
        # memory as it was found may be viewed, and is written over before it is read
        read = bool(bad) and any(_is_nan(t) and storage_of(t) not in places for t in made)
        if read and self._infinite is None:
            self._given = self._given or self._place()
        if of_values and any(map(_is_nan, made)):
            known = None if of_numbers else self._infinite
            self._first = known or self._told(name)
        elif of_numbers and name not in WRITTEN and not all(map(_is_finite, made)):
            self._infinite = self._infinite or self._told(name)
        return out

    def _told(self, name: str) -> tuple[str, Line | None]:
        """The operation that is being run, or whose derivative it is, and its line."""
        node = torch._C._current_autograd_node()
        if node is None:
            return name, self._place()
        kept: dict[str, list[str]] = node.metadata  # pyright: ignore[reportAssignmentType]
        trace = AT.findall("".join(kept.get("traceback_", ())))
        lines = [Line(file, int(line)) for file, line in trace if self._own(file)]
        name = type(node).__name__.partition("Backward")[0]
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        return words, lines[-1] if lines else None
