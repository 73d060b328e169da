"""Records as rows of tables, and back."""

import copy
import pickle
from datetime import UTC, datetime

import pytest

from sigmascope.core.encoding import columns, wide
from sigmascope.core.records import Estimate, Reading, Skipped
from sigmascope.core.store import Row
from sigmascope.core.store.rows import RECORDS, cells, row
from sigmascope.core.store.schema import COLUMNS

ROW = Row(3, datetime(2026, 1, 2, tzinfo=UTC), Skipped("head", "weights", "lazy"))
TIME = "2026-01-02T03:04:05.000006+00:00"
READING = Reading("fc", "rank", Estimate(2.0, 1.0, float("inf"), "free", 0.5), "weights", "matrix")


@pytest.mark.parametrize("table", COLUMNS)
def test_a_table_has_a_cell_for_every_field_of_its_record(table):
    """The columns are the promise of the format: a new field needs a new version of it."""
    assert {c.name for c in wide(RECORDS[table])} == set(COLUMNS[table])


def test_cells_stand_in_the_order_of_the_format():
    assert cells("readings", READING) == (
        "fc", "weights", "matrix", "rank", 2.0, 1.0, float("inf"), "free", 0.5,
    )  # fmt: skip


def test_cells_become_the_record_again_and_its_row_is_stored_as_it_is(profile, findings):
    given = {"readings": profile.readings, "checks": profile.checks, "findings": findings}
    for table, records in given.items():
        for record in records:
            back = row(table, 3, TIME, *cells(table, record))
            assert back.record == record
            assert cells(table, back) == cells(table, record)


def test_ends_that_are_the_values_themselves_take_no_room(profile):
    free, exact = (cells("spectra", s)[-2:] for s in profile.spectra)
    assert exact == (None, None)
    assert free[0] is None  # its lower end is the value
    assert isinstance(free[1], bytes)


@pytest.mark.parametrize("time", ["yesterday", "2026-01-02T03:04:05"])
def test_a_time_that_is_none_or_of_nowhere_is_refused(time):
    with pytest.raises(ValueError, match=r"isoformat|UTC"):
        row("readings", 3, time, *cells("readings", READING))


def test_columns_of_readings_within_findings_are_those_of_their_table():
    assert {c.name for c in columns(Reading)} == set(COLUMNS["readings"])


def test_a_row_has_the_attributes_of_its_record():
    assert (ROW.step, ROW.site, ROW.why) == (3, "head", "lazy")
    with pytest.raises(AttributeError, match="colour"):
        _ = ROW.colour


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_a_row_can_be_copied_and_sent(twin):
    assert twin(ROW) == ROW


def test_half_a_character_is_written_out():
    """No file in UTF-8 can hold it: neither this one nor what is exported from it."""
    odd = Skipped("a\ud800b", "weights", "lazy \udfff")
    assert cells("skipped", odd)[:3] == ("a\\ud800b", "weights", "lazy \\udfff")
