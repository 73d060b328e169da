"""Checksums: a chain in which no step can be missing, changed, moved or of another run."""

import json
import sqlite3
from contextlib import closing
from hashlib import sha256

import pytest

from sigmascope.store import Damaged, Run, export, seals
from sigmascope.store.seals import Span
from tests.store.rewrites import rewriting

RUN = 32 * "a"
TIME = "2024-01-02T03:04:05.000006+00:00"
ROWS = {"readings": Span(3, 2, "0" * 64), "checks": Span(1, 1, "f" * 64)}


@pytest.fixture
def path(tmp_path, profile, findings):
    with Run(tmp_path / "a.run") as run:
        for step in (0, 10):
            run.add_profile(profile, findings, step=step)
    return tmp_path / "a.run"


def test_a_step_written_anew_with_checksums_of_its_own_does_not_fit_the_chain(path, tmp_path):
    with rewriting(path) as file:
        first = seals.parsed(seals.name(file), file.execute("SELECT * FROM seals").fetchone())
        rows = {table: span for table, span in first.rows.items() if table != "skipped"}
        file.execute("UPDATE skipped SET id = id + 1000 WHERE id = 1")
        again = seals.made(seals.name(file), (1, 0, first.time), rows, "")
        file.execute("UPDATE seals SET rows = ?, seal = ? WHERE id = 1", again.cells()[3::2])
    with pytest.raises(Damaged, match="step 10 does not follow the one before it"):
        export(path, to="csv", path=tmp_path / "out.csv")


def line(*cells):
    return sha256((json.dumps(cells, separators=(",", ":")) + "\n").encode()).hexdigest()


def test_a_seal_is_the_sha_256_of_the_name_and_the_rest_of_its_row():
    plain = {"checks": [1, 1, "f" * 64], "readings": [3, 2, "0" * 64]}  # in alphabetical order
    rows = json.dumps(plain, separators=(",", ":"))
    seal = seals.made(RUN, (2, 7, TIME), ROWS, "before")
    assert seal.seal == line(RUN, 2, 7, TIME, rows, "before")
    assert seal.cells() == (2, 7, TIME, rows, "before", seal.seal)
    assert seals.parsed(RUN, seal.cells()) == seal
    assert seal.rows["readings"].ends == (3, 4)


@pytest.mark.parametrize(
    ("at", "cell"),
    [(0, 3), (1, 8), (2, TIME[:-1]), (3, "{}"), (4, ""), (5, 64 * "0")],
    ids=["number", "step", "time", "rows", "previous", "seal"],
)
def test_no_cell_of_a_seal_can_be_another(at, cell):
    cells = list(seals.made(RUN, (2, 7, TIME), ROWS, "before").cells())
    with pytest.raises(ValueError, match="its own checksum is"):
        seals.parsed(RUN[:-1] + "b", tuple(cells))
    cells[at] = cell
    with pytest.raises(ValueError, match="its own checksum is"):
        seals.parsed(RUN, tuple(cells))


def test_a_span_is_of_every_cell_with_a_blob_by_its_own_checksum(path):
    with closing(sqlite3.connect(path)) as file:
        found = seals.span(file, "spectra", 1, 2)
        whole = sha256()
        for row in file.execute("SELECT * FROM spectra WHERE id BETWEEN 1 AND 2 ORDER BY id"):
            plain = [{"sha256": sha256(c).hexdigest()} if isinstance(c, bytes) else c for c in row]
            whole.update(json.dumps(plain, separators=(",", ":")).encode() + b"\n")
        assert found == Span(1, 2, whole.hexdigest())
        seals.require_span(file, "spectra", found)
        with pytest.raises(ValueError, match="3 rows were written and 2 are there"):
            seals.require_span(file, "spectra", Span(3, 3, found.digest))
        with pytest.raises(ValueError, match=f"SHA-256 {found.digest[:12]}… was expected"):
            seals.require_span(file, "spectra", Span(3, 2, found.digest))


@pytest.mark.parametrize(
    ("table", "cells", "says"),
    [
        ("views", (0, TIME, 1), "views.view must be TEXT, got int"),
        ("views", ("0", TIME, "weights"), "views.step must be INTEGER, got str"),
        ("views", (0, None, "weights"), "views.time must be TEXT, got NoneType"),
        ("readings", (0, TIME, *"abcd", float("nan"), 0.0, 1.0, "", 0.0), "value is not a number"),
        ("readings", (0, TIME, *"abcd", 1, 0.0, 1.0, "", 0.0), "value must be REAL, got int"),
        (
            "spectra",
            (0, TIME, *"abc", 1, 1, "", 0.0, b"seven by", None, b"seven"),
            "high has 5 bytes, no multiple of 8",
        ),
    ],
)
def test_cells_are_of_the_kinds_of_their_columns(table, cells, says):
    with pytest.raises(TypeError, match=says):
        seals.require_kinds(table, cells)


def test_a_cell_may_be_empty_where_its_column_says_so():
    seals.require_kinds("spectra", (0, TIME, *"abc", 1, 1, "", 0.0, bytes(16), None, None))
    with pytest.raises(TypeError, match="sigma must be BLOB, got NoneType"):
        seals.require_kinds("spectra", (0, TIME, *"abc", 1, 1, "", 0.0, None, None, None))
