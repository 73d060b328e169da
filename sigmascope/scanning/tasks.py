"""What there is to do, piece by piece: small values that any process can run."""

from dataclasses import dataclass

from sigmascope.quantities import SCAN
from sigmascope.records import Estimate, Reading, Skipped
from sigmascope.records.scans import Matrix
from sigmascope.scanning.cuts import Cut


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix `scaling * left @ right` that is never formed.

    Attributes:
        left: Tall.
        right: Wide.
        scaling: Factor.
        turned: Whether the adapter's settings say that the weight is stored as `[in, out]`; None
            for an embedding, of which they say nothing.
        base: What it is added to; None for the product alone.
    """

    left: Cut
    right: Cut
    scaling: float
    turned: bool | None = False
    base: Cut | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One matrix to measure.

    Attributes:
        index: Its place in the plan.
        matrix: What is known of it.
        cut: Where it lies.
        seed: Of the generator for everything that is drawn for it.
        wanted: Names of the quantities that are read.
        spectra: Whether its singular values are kept.
        exact: Whether small singular values are computed to full precision.
        grid: Points along each side on which a convolution is an operator too; 0 for none.
        paired: Whether it meets another matrix, so that its leading vectors are needed too.
        note: What has to be said of it, as why it was not split.
    """

    index: int
    matrix: Matrix
    cut: Cut | Product
    seed: int
    wanted: frozenset[str]
    spectra: bool = True
    exact: bool = False
    grid: int = 0
    paired: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two matrices to hold against one another.

    Attributes:
        index: Its place among the steps of the run.
        kind: `"meet"` where the second reads what the first writes, `"copy"` where they may be
            the same, `"change"` where they are two versions of one.
        site: Of the readings.
        tasks: The two matrices.
        wanted: Names of the quantities that are read.
        work: Expected multiplications.
    """

    index: int
    kind: str
    site: str
    tasks: tuple[Task, Task]
    wanted: frozenset[str]
    work: float


def read(matrix: Matrix, name: str, estimate: Estimate) -> Reading:
    """A number of this matrix."""
    return Reading(matrix.site, name, estimate, SCAN, matrix.form)


def skip(matrix: Matrix, what: str, why: str) -> Skipped:
    """What is not measured of this matrix."""
    return Skipped(matrix.site, what, why)
