"""What is released holds what it should, and nothing else."""

import tarfile
import zipfile

import pytest

from tests.release import bare


def wheel(place, names, size=10):
    file = place / "sigmascope-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as held:
        for name in names:
            held.writestr(name, b"x" * size)
    return file


def test_a_wheel_of_the_package_alone_has_no_fault(tmp_path):
    names = (*bare.NEEDED, "sigmascope/cli/apps.py", "sigmascope-1.0.dist-info/METADATA")
    assert bare.faults(wheel(tmp_path, names)) == []


def test_what_lies_in_the_packages_may_be_released(tmp_path):
    names = [
        str(file.relative_to(bare.ROOT))
        for folder in ("sigmascope", "sigmascope_experiments")
        for file in (bare.ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    assert len(names) > 300
    assert bare.faults(wheel(tmp_path, names)) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tests/test_docs.py", "is none of what is released"),
        ("sigmascope/tests/zoo.py", "is a test, a log or data"),
        ("sigmascope/test_it.py", "is a test, a log or data"),
        ("sigmascope/suite.log", "is a test, a log or data"),
        ("sigmascope_experiments/rows.npz", "is a test, a log or data"),
    ],
)
def test_what_does_not_belong_is_named(tmp_path, name, says):
    (fault, *_) = bare.faults(wheel(tmp_path, (*bare.NEEDED, name)))
    assert fault == f"{name} {says}"


def test_what_is_missing_and_what_is_too_large_is_named(tmp_path):
    file = wheel(tmp_path, bare.NEEDED[1:], size=2 * 10**6)
    assert bare.faults(file) == [
        "sigmascope/py.typed is missing",
        f"it has {len(bare.NEEDED[1:]) * 2:.2f} MB, more than 1.5",
    ]


def test_a_source_archive_is_looked_into_without_its_folder(tmp_path):
    file = tmp_path / "sigmascope-1.0.tar.gz"
    with tarfile.open(file, "w:gz") as held:
        for name in (*bare.NEEDED, "tests/zoo.py"):
            held.addfile(tarfile.TarInfo(f"sigmascope-1.0/{name}"))
    assert bare.faults(file) == [
        "tests/zoo.py is none of what is released",
        "tests/zoo.py is a test, a log or data",
    ]


def test_a_command_that_fails_ends_with_its_words(tmp_path):
    with pytest.raises(SystemExit, match=r"`false` ended with 1"):
        bare.ran("false", at=tmp_path)
