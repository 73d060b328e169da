"""Tables of a run file, in every form."""

import csv
import io

import pyarrow.parquet as pq

from tests.cli.forms import SMALL, strictly


def test_two_steps_go_into_one_run_file_and_out_again(sigmascope, tmp_path):
    for step in ("0", "7"):
        code, _, err = sigmascope(*SMALL, "--run", "my.run", "--step", step)
        assert (code, err) == (0, f"Appended step {step} to my.run\n")
    home = tmp_path / "my models"
    rows = {}
    for form in ("csv", "json", "parquet"):
        assert sigmascope("export", "my.run", "--to", form)[::2] == (
            0,
            f"Wrote my-readings.{form}\n",
        )
        path = home / f"my-readings.{form}"
        rows[form] = {
            "csv": lambda p: list(csv.DictReader(io.StringIO(p.read_text()))),
            "json": lambda p: strictly(p.read_text()),
            "parquet": lambda p: pq.read_table(p).to_pylist(),
        }[form](path)
    assert {row["step"] for row in rows["json"]} == {0, 7}
    assert rows["json"] == rows["parquet"]
    assert [float(r["value"]) for r in rows["csv"]] == [r["value"] for r in rows["json"]]
    readings = strictly(sigmascope(*SMALL, "--json", "-")[1])["readings"]
    assert [r["value"] for r in rows["json"] if r["step"] == 7] == [r["value"] for r in readings]


def test_any_table_is_exported_to_a_file_of_any_name(sigmascope, tmp_path):
    sigmascope(*SMALL, "--run", "my.run")
    out = ("--table", "layers", "--out", "the layers.json")
    assert sigmascope("export", "my.run", "--to", "json", *out)[0] == 0
    layers = strictly((tmp_path / "my models" / "the layers.json").read_text())
    assert [layer["kind"] for layer in layers] == ["Linear"] * 3


def test_without_a_run_file_it_says_what_is_missing(sigmascope):
    code, _, err = sigmascope("export", "--to", "csv")
    assert code == 2
    assert "RUN" in err
    assert "--run" not in err
