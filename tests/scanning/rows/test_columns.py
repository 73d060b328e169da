import pytest

from sigmascope.report import table
from tests.report.made_scans import plan, scan


def test_a_scan_has_a_row_for_each_matrix_and_a_column_for_each_quantity():
    found = scan(3)
    columns = table(found)
    assert list(columns)[:6] == ["site", "kind", "depth", "rows", "cols", "dtype"]
    assert {len(column) for column in columns.values()} == {len(found.matrices)}
    assert columns["site"] == [m.site for m in found.matrices]
    assert columns["stable rank"] == [r.estimate.value for r in found.series("stable rank")]
    assert "alignment" not in columns


def test_what_was_not_read_is_none():
    exponents = table(scan(3))["power-law exponent"]
    assert exponents[0] is None
    assert exponents[1] > 1


def test_a_plan_has_a_row_for_each_matrix():
    planned = plan(2)
    columns = table(planned)
    assert {len(column) for column in columns.values()} == {len(planned.matrices)}
    assert set(columns["effort"]) == {"full"}


def test_a_scan_is_a_data_frame():
    pytest.importorskip("pandas")
    frame = scan(2).to_pandas()
    assert frame.shape[0] == 14
    assert frame["spectral norm"].min() > 0
    assert len(plan(2).to_pandas()) == 14
