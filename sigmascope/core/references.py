"""How large quantities are in networks that train: bands to hold a reading against.

`references.csv` is made by `python -m benchmarks.references`, which says what was measured. A band
is no verdict: networks outside of it may train as well, and a rule asks for more than one number.
Nothing heavy is imported, as in `quantities`.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args

Stage = Literal["start", "trained"]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)

SHARES: Final = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}
FILE: Final = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True, slots=True)
class Reference:
    """What one quantity was in reference networks, at all their layers; each network counts alike.

    Attributes:
        quantity: Its name.
        view: In which it was read.
        form: Of the reading, as `"samples"` and `"channels"` of representations.
        stage: Before the first step, or after training that went well.
        networks: How many had such a reading.
        readings: How many there were.
        p05: A twentieth of the readings is below.
        p25: A quarter is.
        median: Half is.
        p75: Three quarters are.
        p95: All but a twentieth are.
    """

    quantity: str
    view: str
    form: str
    stage: Stage
    networks: int
    readings: int
    p05: float
    p25: float
    median: float
    p75: float
    p95: float

    @property
    def curve(self) -> tuple[str, str, str]:
        """What it is read with: view, form and quantity."""
        return self.view, self.form, self.quantity


@cache
def references() -> tuple[Reference, ...]:
    """All that were measured."""
    with FILE.open(encoding="utf-8", newline="") as file:
        found = []
        for row in csv.DictReader(file):
            stage: Stage = "start" if row["stage"] == STAGES[0] else "trained"
            ends = (float(row[name]) for name in SHARES)
            counts = (int(row["networks"]), int(row["readings"]))
            words = row["quantity"], row["view"], row["form"]
            found.append(Reference(*words, stage, *counts, *ends))
    return tuple(found)


def references_of(quantity: str, *, view: str = "", form: str | None = None) -> list[Reference]:
    """Of one quantity, those at the start first; none where too few networks have such readings.

    Args:
        quantity: Its name.
        view: In which it is read; any where not given.
        form: Of its readings; any where not given.
    """
    return sorted(
        (
            r
            for r in references()
            if r.quantity == quantity and view in ("", r.view) and form in (None, r.form)
        ),
        key=lambda r: (r.view, r.form, STAGES.index(r.stage)),
    )
