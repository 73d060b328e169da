"""Run files of older formats: each of `files` was written by the code of its format."""

import shutil
from pathlib import Path

import pytest

from sigmascope.core.store import Damaged, Run, Unwritable, export, salvage
from tests.core.store.rewrites import unsafely

FILES = Path(__file__).parent / "files"
OLD = FILES / "version-1.run"
STEPS = (0, 10, 20)  # the profile and findings of conftest at each


@pytest.fixture(params=[1, 2, 3, 4])
def old(tmp_path, request):
    return Path(shutil.copy(FILES / f"version-{request.param}.run", tmp_path / "old.run"))


def test_a_run_of_an_older_format_reads_as_it_was_written(old, profile, findings):
    before = old.read_bytes()
    with Run(old, write=False) as run:
        assert run.steps() == STEPS
        assert [r.estimate for r in run.readings()] == [r.estimate for r in profile.readings] * 3
        sigma = [s.spectrum.sigma.tolist() for s in run.spectra()]
        assert sigma == [s.spectrum.sigma.tolist() for s in profile.spectra] * 3
        check = next(run.checks())
        assert (check.measured, check.limit) == (
            profile.checks[0].measured,
            profile.checks[0].limit,
        )
        assert [f.says for f in run.findings()] == [f.says for f in findings] * 3
        assert list(run.views()) == []
        assert {f.follows for f in run.findings()} == {""}
        version = int.from_bytes(before[60:64], "big")
        facts = [] if version < 4 else [f.word for f in profile.facts] * 3
        assert [f.word for f in run.facts()] == facts
        layers = [(x.site, x.parameters, x.writes, x.multiply_adds) for x in run.layers()]
        assert layers == [("blocks.0", profile.layers[0].parameters, (), None)] * 3
    export(old, to="csv", path=old.with_name("out.csv"))
    assert old.read_bytes() == before
    assert sorted(old.parent.iterdir()) == [old, old.with_name("out.csv")]


def test_a_run_of_an_older_format_is_not_appended_to_and_says_why(old):
    before = old.read_bytes()
    with pytest.raises(Unwritable, match=r"run format \d\); this one appends.*another"):
        Run(old)
    assert old.read_bytes() == before
    assert list(old.parent.iterdir()) == [old]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("table", "column"), [("readings", "value"), ("findings", "says")])
def test_the_checksums_of_older_formats_are_those_of_now(tmp_path, version, table, column):
    path = Path(shutil.copy(FILES / f"version-{version}.run", tmp_path / "old.run"))
    with unsafely(path) as file:
        file.execute(f"UPDATE {table} SET {column} = 9 WHERE step = 10")
    with pytest.raises(Damaged, match=f"{table} of step 10 are not those that were written"):
        Run(path, write=False)
    said = salvage(path, to="csv", path=tmp_path / "out.csv", table=table)
    assert said == f"2 of 3 steps have their {table} whole; not whole: step 10."
