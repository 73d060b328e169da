"""What a scan of a checkpoint yields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from sigmascope.records.results import Reading, Shown, SiteSpectrum, Skipped

__all__ = ["Effort", "Matrix", "Scan", "ScanPlan"]

Effort = Literal["full", "leading"]


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix of a checkpoint.

    Attributes:
        site: Its name: that of the tensor, with the part in brackets where a tensor holds several
            (`"h.0.attn.c_attn.weight[q]"`).
        kind: What it is in the network (`"attention query"`, `"linear"`, `"embedding"`), by which
            matrices are compared with one another.
        depth: Number of its block in the network; -1 where its name has none.
        rows: Outputs of the map.
        cols: Inputs of the map.
        dtype: How its numbers are stored.
        tensors: Names of what it is read from.
        bytes: How much of the checkpoint is read for it.
        effort: `"full"` where all singular values are computed, `"leading"` where the largest are.
        work: Expected multiplications.
        form: As of a reading: `"matrix"`, `"kernel"`, `"operator"`, `"product"`.
    """

    site: str
    kind: str
    depth: int
    rows: int
    cols: int
    dtype: str
    tensors: tuple[str, ...]
    bytes: int
    effort: Effort
    work: float
    form: str = "matrix"

    @property
    def shape(self) -> tuple[int, int]:
        """`(rows, cols)`."""
        return self.rows, self.cols


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ScanPlan(Shown):
    """What a scan will do, from headers alone.

    Attributes:
        source: The checkpoint, as it was named.
        matrices: In the order of the checkpoint.
        skipped: What is left out, each with the reason; `what` is `"tensor"`.
        tensors: How many the checkpoint holds.
        bytes: How many are read.
        seconds: Processor time expected, from rates measured here.
        memory: Peak of one process, in bytes.
        workers: Processes.
        about: Format and circumstances, as words.
        settings: What was asked, as words; a scan that is gone on with must have the same.
    """

    source: str
    matrices: tuple[Matrix, ...]
    skipped: tuple[Skipped, ...]
    tensors: int
    bytes: int
    seconds: float
    memory: int
    workers: int = 1
    about: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Scan(Shown):
    """Everything measured of the matrices of a checkpoint.

    Attributes:
        plan: What was to be done.
        readings: In the order of the matrices; `site` is that of the matrix, or `"a → b"` of two
            that meet.
        spectra: The singular values behind them, as far as they were kept.
        skipped: What was not measured of them, each with the reason; `plan.skipped` has the
            tensors that are no matrices.
        about: Circumstances, as words.
    """

    plan: ScanPlan
    readings: tuple[Reading, ...]
    spectra: tuple[SiteSpectrum, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    about: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """The matrices, in the order of the checkpoint."""
        return self.plan.matrices

    def series(self, name: str, *, site: str | None = None) -> tuple[Reading, ...]:
        """Readings of one quantity, in the order of the matrices."""
        return tuple(r for r in self.readings if r.quantity == name and site in (None, r.site))
