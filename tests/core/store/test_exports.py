import csv
import json
import sys

import pytest

from sigmascope.core.store import Run, export

pytestmark = pytest.mark.usefixtures("written")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.run"


@pytest.fixture
def written(path, profile, findings):
    with Run(path) as run:
        run.add_profile(profile, findings, step=3)


def refuse(constant):
    raise ValueError(constant)


def strict(path):
    return json.loads(path.read_text(), parse_constant=refuse)


def rows_of(file, to):
    if to == "json":
        return strict(file)
    if to == "csv":
        with file.open(newline="", encoding="utf-8") as lines:
            return list(csv.DictReader(lines))
    table = pytest.importorskip("pyarrow.parquet").read_table(file)
    assert "value" not in table.schema.names or str(table.schema.field("value").type) == "double"
    return table.to_pylist()


@pytest.mark.parametrize("to", ["csv", "json", "parquet"])
def test_every_digit_and_hostile_names_are_kept(path, tmp_path, profile, to):
    rows = rows_of(export(path, to=to, path=tmp_path / "out"), to)
    numbers = ("value", "low", "high", "risk")
    for row, reading in zip(rows, profile.readings, strict=True):
        assert (row["site"], row["how"]) == (reading.site, reading.estimate.how)
        assert [float(row[n]) for n in numbers] == [getattr(reading.estimate, n) for n in numbers]
    assert {str(row["step"]) for row in rows} == {"3"}
    assert to != "json" or rows[1]["high"] == "Infinity"
    spectra = rows_of(export(path, to=to, path=tmp_path / "spectra", table="spectra"), to)
    sigma = [json.loads(row["sigma"]) if to == "csv" else row["sigma"] for row in spectra]
    assert sigma == [s.spectrum.sigma.tolist() for s in profile.spectra]


@pytest.mark.parametrize("to", ["csv", "json", "parquet"])
@pytest.mark.parametrize("table", ["environment", "layers", "checks", "findings", "skipped"])
def test_every_table_can_be_exported(path, tmp_path, to, table):
    assert export(path, to=to, path=tmp_path / "out", table=table).stat().st_size > 0


def test_an_empty_table_is_an_empty_list(tmp_path):
    Run(tmp_path / "empty.run").close()
    assert strict(export(tmp_path / "empty.run", to="json", path=tmp_path / "out")) == []


def test_parquet_without_pyarrow_says_what_to_install(path, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ImportError, match=r"pip install 'sigmascope\[parquet\]'"):
        export(path, to="parquet", path=tmp_path / "out.parquet")
    assert sorted(tmp_path.iterdir()) == before


def test_a_failed_export_leaves_the_old_file(path, tmp_path, monkeypatch):
    old = tmp_path / "out.parquet"
    old.write_bytes(b"PAR1 old sigmascope export PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError):
        export(path, to="parquet", path=old)
    assert old.read_bytes() == b"PAR1 old sigmascope export PAR1"


def test_refusals_name_what_is_allowed(path, tmp_path, as_users_see_it):
    with pytest.raises(ValueError, match="`parquet`, `csv` or `json`, got the text 'xml'"):
        export(path, to="xml", path=tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="mkdir -p"):
        export(path, to="csv", path=tmp_path / "nowhere" / "out.csv")


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_an_export_never_replaces_the_run_file(path, end):
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is the run file itself"):
        export(path, to="csv", path=f"{path}{end}")
    assert path.read_bytes() == before


def test_an_export_never_replaces_a_device(path):
    with pytest.raises(ValueError, match="must be a file or nothing"):
        export(path, to="csv", path="/dev/null")
