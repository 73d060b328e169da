"""One run, one file."""

import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sigmascope.core import products
from sigmascope.core.guard import Closing, Refusal, door_of
from sigmascope.core.records import (
    Check,
    Fact,
    Finding,
    Layer,
    Profile,
    Reading,
    SiteSpectrum,
    Skipped,
)
from sigmascope.core.store import rows
from sigmascope.core.store.files import (
    Unwritable,
    appending,
    create,
    snapshot,
    sound,
)
from sigmascope.core.store.integrity import Position, Rows, append, require_whole, steps
from sigmascope.core.store.rows import AskedView, Row, Word
from sigmascope.core.store.schema import STEPS, Table, tables


@door_of
class Run(Closing):
    """The file of one run: rows are appended, never changed, and a step is whole or absent.

    Other processes may read it while it grows, and more than one may write.

    Args:
        path: The file. It is created when it does not exist and may be written to.
        write: False opens an existing file for reading only.

    Raises:
        Damaged: If it does not hold what was written to it; it is not touched.
        ValueError: If the file is not a run file, or is of a newer version; it is not touched.
        Unwritable: If it may be read only: its folder, its disk, or a format before checksums.
        FileNotFoundError: If it does not exist and may not be written, or its folder is missing.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with Run(f"{folder.name}/mlp.run") as run:
        ...     run.add(step=0, about={"model": "mlp"})
        ...     [word.value for word in run.about()]
        ['mlp']
        >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, write: bool = True) -> None:
        self.path = Path(path)
        self._write = write
        self._closed = False
        if write and not os.path.lexists(self.path):
            create(self.path)
        with snapshot(self.path) as found:
            require_whole(found)
        if write:
            with appending(self.path):  # whether it could be
                pass

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._write else "open for reading"
        return f"Run({str(self.path)!r}), {state}"

    def close(self) -> None:
        """Let go of the file; whatever was added is in it.

        A log that stayed beside it, for somebody read while a step ended, is folded in.
        """
        log = Path(f"{os.path.realpath(self.path)}-wal")
        if self._write and not self._closed and log.exists():
            with suppress(Refusal, OSError), appending(self.path):
                pass
        self._closed = True

    def add(
        self,
        *,
        step: int,
        readings: Iterable[Reading | Row[Reading]] = (),
        spectra: Iterable[SiteSpectrum | Row[SiteSpectrum]] = (),
        checks: Iterable[Check | Row[Check]] = (),
        findings: Iterable[Finding | Row[Finding]] = (),
        skipped: Iterable[Skipped | Row[Skipped]] = (),
        layers: Iterable[Layer | Row[Layer]] = (),
        about: Mapping[str, str] | None = None,
        views: Iterable[str] = (),
        facts: Iterable[Fact | Row[Fact]] = (),
    ) -> None:
        """Append rows at one step, all or none of them, with a checksum over all of them.

        If one of the iterables raises, nothing was added.

        Raises:
            Unwritable: If they cannot be written, as on a full disk; the file is as it was.
            Damaged: If another hand has changed the file and left it damaged.
        """
        of: dict[str, Any] = {"readings": readings, "spectra": spectra, "checks": checks}
        of |= {"findings": findings, "skipped": skipped, "layers": layers, "about": about}
        self.add_steps([{"step": step, **of, "views": views, "facts": facts}])

    def add_steps(self, steps: Iterable[Mapping[str, Any]]) -> None:
        """Append at some steps, all of them or none: one wait for the disk does for all.

        Args:
            steps: What `add` takes, by name, for each.

        Raises:
            As `add`.
        """
        self._require_open()
        if not self._write:
            raise Unwritable(f"{self.path} was opened for reading only; open it with write=True.")
        # before the file is locked, for what is iterated over may take its time, or fail
        given = [(operator.index(each["step"]), _rows(each)) for each in steps]
        if some := [(step, cells) for step, cells in given if any(cells.values())]:
            time = datetime.now(UTC).isoformat(timespec="microseconds")
            with appending(self.path) as file:
                for step, cells in some:
                    append(file, step, time, cells)

    def add_profile(
        self, profile: Profile, findings: Iterable[Finding | Row[Finding]] = (), *, step: int = 0
    ) -> None:
        """Append everything a profile holds, and what was found in it, all or none."""
        self.add(
            step=step,
            readings=profile.readings,
            spectra=profile.spectra,
            checks=profile.checks,
            findings=findings,
            skipped=profile.skipped,
            layers=profile.layers,
            about=profile.about,
            views=profile.views,
            facts=profile.facts,
        )

    def steps(self) -> tuple[int, ...]:
        """Every step at which something was added, ascending."""
        self._require_open()
        with snapshot(self.path) as found:
            places = [STEPS[found.version]] if found.version in STEPS else tables(found.version)
            query = " UNION ".join(f"SELECT DISTINCT step FROM {place}" for place in places)
            return tuple(step for (step,) in found.file.execute(f"{query} ORDER BY step"))

    def readings(self) -> Iterator[Row[Reading]]:
        """Readings in the order in which they were added, as for every table below."""
        return self._rows("readings")

    def facts(self) -> Iterator[Row[Fact]]:
        """What was read and is no number."""
        return self._rows("facts")

    def spectra(self) -> Iterator[Row[SiteSpectrum]]:
        """Singular values, bit for bit."""
        return self._rows("spectra")

    def checks(self) -> Iterator[Row[Check]]:
        """Theorems compared with facts."""
        return self._rows("checks")

    def findings(self) -> Iterator[Row[Finding]]:
        """What was found."""
        return self._rows("findings")

    def skipped(self) -> Iterator[Row[Skipped]]:
        """What was not measured."""
        return self._rows("skipped")

    def layers(self) -> Iterator[Row[Layer]]:
        """The layers of the model."""
        return self._rows("layers")

    def about(self) -> Iterator[Row[Word]]:
        """The circumstances."""
        return self._rows("environment")

    def views(self) -> Iterator[Row[AskedView]]:
        """The views that were asked for."""
        return self._rows("views")

    def plot(self, *, width: float = 6.5, quantities: str | Iterable[str] = ()) -> Any:
        """What was read, over the steps, as a figure of matplotlib; see `sigmascope.report.plot`.

        Args:
            width: In inches.
            quantities: Which; the loss and those that alarms rest on come first if not given.
        """
        return products.report().plot(self, width=width, quantities=quantities)

    def cells(self, table: Table) -> Iterator[tuple]:
        """The bare cells of a table, `(step, time, *COLUMNS[table])` each.

        They are those of the moment in which the first is asked for, each step checked against its
        checksum before a cell of it is given.
        """
        self._require_open()
        with snapshot(self.path) as found:
            for _, cells in steps(found, Position(), of=(table,)):
                yield from cells.get(table, ())

    def _rows(self, table: Table) -> Iterator[Row[Any]]:
        for cells in self.cells(table):
            with sound(self.path, f"the {table} of step {cells[0]} cannot be read"):
                row = rows.row(table, *cells)
            yield row

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError(f"The run file {self.path} was closed; open it again with `Run`.")


def _rows(given: Mapping[str, Any]) -> Rows:
    """The cells of what is to be added at a step, by table."""
    words = (given.get("about") or {}).items()
    named: dict[Table, Iterable[Any]] = {
        "environment": (Word(*item) for item in words),
        "views": map(AskedView, given.get("views", ())),
        "layers": given.get("layers", ()),
        "readings": given.get("readings", ()),
        "facts": given.get("facts", ()),
        "spectra": given.get("spectra", ()),
        "checks": given.get("checks", ()),
        "findings": given.get("findings", ()),
        "skipped": given.get("skipped", ()),
    }
    return {table: [rows.cells(table, r) for r in each] for table, each in named.items()}
