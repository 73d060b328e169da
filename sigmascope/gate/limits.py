"""How much memory and time work may take, in the user's words, and how that is kept to."""

import ctypes
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sigmascope.gate.refusals import Refusal, printable

# ------------------------------------------------------------------------------
# How much memory what comes from outside may ask for, before any of it is given.
#
# A file of a few hundred bytes can declare terabytes. What it declares is weighed first: against
# the bytes that the file has, where the two must agree, and against a budget, which the user can
# raise.


VARIABLE = "SIGMASCOPE_MEMORY"
SHARE = 0.5  # of the machine's memory, where the user says nothing
SMALL = 4 << 30  # bytes, where the machine does not tell how much it has
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
UNITS |= {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}

BUDGET: ContextVar[int | None] = ContextVar("BUDGET", default=None)


def size_of(text: str) -> int:
    """Bytes from words: `8GB`, `512 MiB`, `2e9`.

    Raises:
        Refusal: If they are no positive size.
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]{1,2})?)\s*([kmgt]?i?)b?\s*", text.lower())
    try:
        number, unit = match.groups() if match else ("", "")
        size = float(number) * UNITS[unit]
        if not 1 <= size < 1 << 63:
            raise ValueError
    except (ValueError, KeyError, OverflowError):
        raise Refusal(
            f"A size of memory must read like `8GB`, `512MiB` or `2e9`, got `{printable(text)}`."
        ) from None
    return int(size)


@contextmanager
def memory(limit: int | str | None) -> Iterator[None]:
    """Within the block this many bytes may be asked for; nothing changes for None."""
    size = size_of(limit) if isinstance(limit, str) else limit
    token = BUDGET.set(BUDGET.get() if size is None else size)
    try:
        yield
    finally:
        BUDGET.reset(token)


def allowed() -> int:
    """Bytes that one thing from outside may take: the user's word, or half of the memory."""
    said = BUDGET.get()
    if said is not None:
        return said
    if VARIABLE in os.environ:
        return size_of(os.environ[VARIABLE])
    try:
        return int(SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return SMALL


def trim() -> None:
    """Give memory back to the system that is free but kept, for sizes that are asked for no more.

    A C library keeps what lies between blocks that are held; where it cannot be asked, it goes on.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def require_room(
    needed: int, what: str | Path, *, gives: str = "of memory", do: str = "take less of it"
) -> None:
    """Refuse what would take more memory than is allowed.

    Args:
        needed: Bytes, or the least they could be.
        what: What needs them.
        gives: What they are for, as the end of "needs 3 GiB or more ...".
        do: What to do, other than to allow more.

    Raises:
        Refusal: With what it needs, what is allowed, and how to allow more.
    """
    if needed > allowed():
        raise Refusal(
            f"{what} needs {size_words(needed)} or more {gives}, and {size_words(allowed())} are "
            f"allowed: {do}, or allow more: `{VARIABLE}=64GB` in the environment, or `--memory "
            "64GB` for commands that name a model."
        )


def size_words(size: int) -> str:
    """Bytes as words: `1.5 GiB`."""
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if size >= 1 << power:
            number = size / (1 << power) if size < 1 << 1000 else float("inf")
            return f"{number:.3g} {unit}"
    return f"{size} bytes"


STRIDED = "torch.strided"  # by name: the command line's help does not wait for torch


def require_dense(tensor: Any, place: str) -> None:
    """Refuse a tensor that is not a plain array of numbers in memory.

    Args:
        tensor: A `torch.Tensor` of any make.
        place: Its name in a refusal.

    Raises:
        Refusal: If it is sparse, nested, quantised, on the meta device or of a kind of number that
            torch cannot turn into float32, or if it declares more than fits the budget of memory.
    """
    kind = ""
    if tensor.is_nested:
        kind = "nested tensor: pad its parts to one shape"
    elif str(tensor.layout) != STRIDED:
        kind = f"tensor of layout {tensor.layout}: pass `tensor.to_dense()`"
    elif tensor.is_quantized:
        kind = "quantised tensor: pass `tensor.dequantize()`"
    elif tensor.is_meta:
        kind = "tensor on the meta device, which holds no numbers: pass a real one"
    elif not _computes(tensor):
        kind = f"tensor of {tensor.dtype}, of which torch computes nothing: pass it as float32"
    if kind:
        raise Refusal(f"{place} must be a dense tensor, got a {kind}.")
    require_room(tensor.numel() * tensor.element_size(), place)


def _computes(tensor: Any) -> bool:
    try:
        one = tensor.new_empty(1)
        return one.is_complex() or one.float().ndim == 1
    except (RuntimeError, NotImplementedError):  # which is how torch says so
        return False


# ------------------------------------------------------------------------------
# How long training of copies may take, in the user's words, and how it is kept to.
#
# A step of torch cannot be interrupted, so that a budget holds within about one step.


SECONDS = {"": 1, "s": 1, "sec": 1, "min": 60, "h": 3600}
LONGEST = 1e9  # seconds


class OverBudget(Refusal):
    """What was asked for takes longer than is allowed."""


def seconds_of(text: str) -> float:
    """Seconds from words: `60s`, `2min`, `1.5 h`, `90`.

    Raises:
        Refusal: If they are no time above zero.
    """
    match = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([a-z]*)\s*", text.lower())
    number, unit = match.groups() if match else ("0", "")
    seconds = float(number) * SECONDS.get(unit, 0)
    if not 0 < seconds <= LONGEST:
        raise Refusal(
            f"A budget of time must be above zero and read like `60s`, `2min` or `1h`, got "
            f"`{printable(text)}`. Write a number and its unit."
        )
    return seconds


def time_words(seconds: float) -> str:
    """Seconds as words, as `seconds_of` reads them: `0.4s`, `48s`, `12min`, `3.5h`."""
    if seconds < 90:
        return f"{seconds:.2g}s" if seconds < 10 else f"{seconds:.0f}s"
    return f"{seconds / 60:.3g}min" if seconds < 5400 else f"{seconds / 3600:.3g}h"


@dataclass(slots=True)
class Budget:
    """Seconds that training of copies may take; several in turn share them.

    Attributes:
        seconds: So many; infinite for as long as it takes.
        tell: Is told what something will cost before most of it is done.
        clock: In seconds.
    """

    USUAL: ClassVar[float] = 120.0  # seconds, where the user says nothing

    seconds: float = USUAL
    tell: Callable[[str], None] | None = None
    clock: Callable[[], float] = time.monotonic
    _used: float = 0.0
    _since: float | None = field(default=None)

    def __post_init__(self) -> None:
        known = isinstance(self.seconds, int | float) and not isinstance(self.seconds, bool)
        if not known or not self.seconds > 0:  # a nan is not either
            raise Refusal(
                f"`budget` must be seconds above 0, got {self.seconds!r}. Pass None for as long as "
                "it takes."
            )

    @classmethod
    def of(cls, budget: "Budget | float | None") -> "Budget":
        """A budget of so many seconds; one without end for None."""
        if isinstance(budget, Budget):
            return budget
        return cls(math.inf if budget is None else budget)

    @property
    def used(self) -> float:
        """Seconds that are used."""
        return self._used + (0.0 if self._since is None else self.clock() - self._since)

    @property
    def left(self) -> float:
        """Seconds that are not used yet; negative where it was overrun."""
        return self.seconds - self.used

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Time that passes in the block is used; blocks may lie in one another."""
        if self._since is not None:
            yield
            return
        self._since = self.clock()
        try:
            yield
        finally:
            self._used, self._since = self.used, None
