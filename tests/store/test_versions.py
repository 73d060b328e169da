"""Run files of older formats: `files/version-1.run` was written by the code of format 1."""

import shutil
from pathlib import Path

import pytest

from sigmascope.store import Run, Unwritable

OLD = Path(__file__).parent / "files" / "version-1.run"
STEPS = (0, 10, 20)  # the profile and findings of conftest at each


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copy(OLD, tmp_path / "old.run"))


def test_a_run_of_format_1_reads_as_it_was_written(old, profile, findings):
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


def test_what_format_1_lacked_comes_back_empty(old):
    with Run(old, write=False) as run:
        assert list(run.views()) == []
        assert {f.follows for f in run.findings()} == {""}


def test_a_run_of_format_1_is_not_appended_to_and_says_why(old):
    before = old.read_bytes()
    with pytest.raises(Unwritable, match=r"run format 1\), whose steps have no checksums.*another"):
        Run(old)
    assert old.read_bytes() == before
    assert list(old.parent.iterdir()) == [old]
