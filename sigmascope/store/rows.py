"""What comes back out of a run file: the records that went in, each with its step and time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Row(Generic[R]):
    """A record at one step; the record's own attributes are the row's too, as in `row.site`.

    Attributes:
        step: Step of training (or any count the writer keeps), as given to `Run.add`.
        time: When it was committed, UTC.
        record: What was measured, as it went in.
    """

    step: int
    time: datetime
    record: R

    def __getattr__(self, name: str) -> Any:
        # through object, for a copy that is not filled yet has no record to ask
        return getattr(object.__getattribute__(self, "record"), name)


@dataclass(frozen=True, slots=True)
class Word:
    """One line about the circumstances: the model, the batch, a version, a cost."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One of the views that were asked for."""

    view: str
