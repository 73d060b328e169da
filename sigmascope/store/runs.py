"""One run, one file."""

import operator
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sigmascope.gate import Closing
from sigmascope.records import Check, Finding, Layer, Profile, Reading, SiteSpectrum, Skipped
from sigmascope.store import codecs
from sigmascope.store.appends import Rows, append
from sigmascope.store.creations import create
from sigmascope.store.images import ALONE, Picture, fetched, signature
from sigmascope.store.refusals import Unwritable, require_file, require_rights, sound
from sigmascope.store.rows import Asked, Row, Word
from sigmascope.store.seals import require_kinds
from sigmascope.store.tables import VERSION, Table, selection, tables
from sigmascope.store.wholes import view


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
        self._view: tuple[Picture, sqlite3.Connection] | None = None
        if write and not os.path.lexists(self.path):
            create(self.path)
        require_file(self.path)
        self._real = Path(os.path.realpath(self.path))  # beside which its log lies
        picture, _ = self._look()
        self._seen = picture.seen
        if write:
            self._require_present_form(picture)
            require_rights(self._real, self.path)
            self._view = None  # a writer seldom reads, and memory is dear

    def close(self) -> None:
        """Let go of the file; whatever was added is in it."""
        self._closed, self._view = True, None

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
    ) -> None:
        """Append rows at one step, all or none of them, with a checksum over all of them.

        If one of the iterables raises, nothing was added.

        Raises:
            Unwritable: If they cannot be written, as on a full disk; the file is as it was.
            Damaged: If another hand has changed the file and left it damaged.
        """
        given: dict[Table, Iterable[Any]] = {
            "environment": (Word(*item) for item in (about or {}).items()),
            "views": map(Asked, views),
            "layers": layers,
            "readings": readings,
            "spectra": spectra,
            "checks": checks,
            "findings": findings,
            "skipped": skipped,
        }
        self._append(step, {t: map(partial(codecs.cells, t), rows) for t, rows in given.items()})

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
        )

    def steps(self) -> tuple[int, ...]:
        """Every step at which something was added, ascending."""
        picture, file = self._look()
        query = " UNION ".join(f"SELECT step FROM {name}" for name in tables(picture.version))
        return tuple(step for (step,) in file.execute(f"{query} ORDER BY step"))

    def readings(self) -> Iterator[Row[Reading]]:
        """Readings in the order in which they were added, as for every table below."""
        return self._rows("readings")

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

    def views(self) -> Iterator[Row[Asked]]:
        """The views that were asked for."""
        return self._rows("views")

    def cells(self, table: Table) -> Iterator[tuple]:
        """The bare cells of a table, `(step, time, *COLUMNS[table])` each."""
        picture, file = self._look()
        with sound(self.path, f"the {table} cannot be read"):
            for cells in fetched(file, selection(table, picture.version), picture):
                require_kinds(table, cells)
                yield cells

    def _rows(self, table: Table) -> Iterator[Row[Any]]:
        for cells in self.cells(table):
            with sound(self.path, f"the {table} of step {cells[0]} cannot be read"):
                row = codecs.row(table, *cells)
            yield row

    def _look(self) -> tuple[Picture, sqlite3.Connection]:
        """The file as it is now, all of it checked."""
        self._require_open()
        last = self._view and self._view[0]
        if self._view and last and last.settled and signature(self._real) == last.seen:
            return self._view
        self._view = view(self._real, self.path)
        return self._view

    def _append(self, step: int, rows: Mapping[Table, Iterable[tuple[Any, ...]]]) -> None:
        self._require_open()
        if not self._write:
            raise Unwritable(f"{self.path} was opened for reading only; open it with write=True.")
        listed: Rows = {table: list(cells) for table, cells in rows.items()}  # before the lock
        if not any(listed.values()):
            return
        with ALONE:
            if signature(self._real) != self._seen:  # another writer, or another hand
                self._look()
            self._view = None
            require_rights(self._real, self.path)
            append(self._real, self.path, operator.index(step), listed)
            self._seen = signature(self._real)

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError(f"The run file {self.path} was closed; open it again with `Run`.")

    def _require_present_form(self, picture: Picture) -> None:
        """Refuse to append where steps would not be protected alike."""
        if picture.version < VERSION:
            raise Unwritable(
                f"{self.path} was written by an older sigmascope (run format {picture.version}), "
                f"whose steps have no checksums; this one appends to format {VERSION} only, so "
                "that no file is protected in part. It reads as before; name another file."
            )
        if picture.main[18:19] != b"\2" or os.path.lexists(f"{self._real}-journal"):
            raise Unwritable(
                f"{self.path} is not in the state in which sigmascope left it: another program has "
                "turned its write-ahead log off or left a journal beside it. It reads as before; "
                f"`sqlite3 {self.path} 'PRAGMA journal_mode = WAL'` lets it be appended to."
            )
