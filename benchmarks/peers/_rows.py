"""What a comparison says: one question, and what each package answered."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

OURS = "sigmascope"


@dataclass(frozen=True, slots=True)
class Answer:
    """One question put to several packages.

    Attributes:
        question: What was asked, and of what.
        number: What the numbers are, with their unit.
        found: By package; `sigmascope` may have two entries, the second with a word after a comma.
        aim: The best value that there can be; nothing where smaller is simply better.
        asked: By package, what was called.
        says: What the reader should know beside the numbers.
        beside: Names in `found` that did less than was asked, and so are not compared.
    """

    question: str
    number: str
    found: Mapping[str, float]
    aim: float | None = 0.0
    asked: Mapping[str, str] = field(default_factory=dict)
    says: str = ""
    beside: tuple[str, ...] = ()


def processor_times(
    work: Mapping[str, Callable[[], object]], *, rounds: int = 7
) -> dict[str, float]:
    """Median processor seconds of each, over rounds in which all take turns.

    Processor time leaves out what neighbours on the machine take, turns spread what is left, and
    the first round is not counted.
    """
    taken: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds + 1):
        for name, call in work.items():
            began = time.process_time()
            call()
            if turn:
                taken[name].append(time.process_time() - began)
    return {name: median(seconds) for name, seconds in taken.items()}


def ratios(seconds: Mapping[str, float]) -> dict[str, float]:
    """Times over ours."""
    return {name: value / seconds[OURS] for name, value in seconds.items()}
