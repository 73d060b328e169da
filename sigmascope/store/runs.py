"""One run, one file."""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sigmascope.store import codecs
from sigmascope.store.refusals import require_run_file
from sigmascope.store.rows import (
    StoredCheck,
    StoredFinding,
    StoredLayer,
    StoredReading,
    StoredSkip,
    StoredSpectrum,
    StoredWord,
)
from sigmascope.store.shapes import (
    AnyCheck,
    AnyFinding,
    AnyLayer,
    AnyProfile,
    AnyReading,
    AnySkip,
    AnySpectrum,
)
from sigmascope.store.tables import Table, insertion, script, selection

_PATIENCE = 30.0  # seconds a writer waits for another one to commit

T = TypeVar("T")


class Run:
    """The file of one run: rows are appended, never changed, and a step is whole or absent.

    Other processes may read it while it grows, and more than one may write.

    Args:
        path: The file. It is created when it does not exist and may be written to.
        write: False opens an existing file for reading only.

    Raises:
        ValueError: If the file is not a run file, or is of a newer version; it is not touched.
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
        if write and not self.path.exists():
            _create(self.path)
        require_run_file(self.path)
        self._file = _connect(f"{self.path.absolute().as_uri()}?mode=rw")
        # Not mode=ro, whose last reader cannot take the log away and leaves two files behind.
        self._file.execute(f"PRAGMA query_only = {'OFF' if write else 'ON'}")
        # With WAL, NORMAL survives the death of the process at any moment, and a power cut leaves
        # whole transactions too, at worst without the last few.
        self._file.execute("PRAGMA synchronous = NORMAL")

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; whatever was added is in it."""
        self._file.close()

    def add(
        self,
        *,
        step: int,
        readings: Iterable[AnyReading] = (),
        spectra: Iterable[AnySpectrum] = (),
        checks: Iterable[AnyCheck] = (),
        findings: Iterable[AnyFinding] = (),
        skipped: Iterable[AnySkip] = (),
        layers: Iterable[AnyLayer] = (),
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Append rows at one step, all or none of them.

        Iterables are read inside the transaction: if one of them raises, nothing was added.
        """
        self._append(
            step,
            {
                "environment": (about or {}).items(),
                "layers": map(codecs.layer, layers),
                "readings": map(codecs.reading, readings),
                "spectra": map(codecs.spectrum, spectra),
                "checks": map(codecs.check, checks),
                "findings": map(codecs.finding, findings),
                "skipped": map(codecs.skip, skipped),
            },
        )

    def add_profile(
        self, profile: AnyProfile, findings: Iterable[AnyFinding] = (), *, step: int = 0
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
        )

    def steps(self) -> tuple[int, ...]:
        """Every step at which something was added, ascending."""
        tables = ("environment", "layers", "readings", "spectra", "checks", "findings", "skipped")
        query = " UNION ".join(f"SELECT step FROM {table}" for table in tables)
        return tuple(step for (step,) in self._file.execute(f"{query} ORDER BY step"))

    def readings(self) -> Iterator[StoredReading]:
        """Readings in the order in which they were added, as for every table below."""
        return self._rows("readings", codecs.as_reading)

    def spectra(self) -> Iterator[StoredSpectrum]:
        """Singular values, bit for bit."""
        return self._rows("spectra", codecs.as_spectrum)

    def checks(self) -> Iterator[StoredCheck]:
        """Theorems compared with facts."""
        return self._rows("checks", codecs.as_check)

    def findings(self) -> Iterator[StoredFinding]:
        """What was found."""
        return self._rows("findings", codecs.as_finding)

    def skipped(self) -> Iterator[StoredSkip]:
        """What was not measured."""
        return self._rows("skipped", codecs.as_skip)

    def layers(self) -> Iterator[StoredLayer]:
        """The layers of the model."""
        return self._rows("layers", codecs.as_layer)

    def about(self) -> Iterator[StoredWord]:
        """The circumstances."""
        return self._rows("environment", codecs.as_word)

    def cells(self, table: Table) -> Iterator[tuple]:
        """The bare cells of a table, `(step, time, *COLUMNS[table])` each."""
        # Rows are numbered by one transaction at a time, so a reader sees no half of a step.
        yield from self._file.execute(selection(table))

    def _rows(self, table: Table, decode: Callable[..., T]) -> Iterator[T]:
        return (decode(*cells) for cells in self.cells(table))

    def _append(self, step: int, tables: Mapping[Table, Iterable[tuple[Any, ...]]]) -> None:
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        self._file.execute("BEGIN IMMEDIATE")
        try:
            for table, rows in tables.items():
                cells = ((step, time, *row) for row in rows)
                self._file.executemany(insertion(table), cells)
        except BaseException:  # whatever happened, half a step must not stay; it is raised again
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE)


def _create(path: Path) -> None:
    """Put an empty run file at `path`, complete from the moment it can be seen."""
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"The folder {path.parent} for the run file {path.name} does not exist; "
            f"make it with `mkdir -p {path.parent}`."
        )
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        fresh = Path(folder) / path.name
        with closing(_connect(f"{fresh.absolute().as_uri()}?mode=rwc")) as file:
            file.executescript(script())
            # After the marks are in the header, so that they never live in the log alone.
            file.execute("PRAGMA journal_mode = WAL")
        if not path.exists():  # two first writers at once: the file of either will do
            _place(fresh, path)


def _place(fresh: Path, path: Path) -> None:
    try:
        os.link(fresh, path)  # unlike a rename it never replaces what another process just made
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        fresh.replace(path)
