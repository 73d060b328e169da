"""Models come back from their files as they were, and overwrite nothing else."""

from dataclasses import dataclass

import pytest

from sigmascope.diagnosis.trainability.model import Kept
from sigmascope.gate import Refusal


@dataclass(frozen=True, slots=True)
class Numbers(Kept):
    names: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    trained: int


@dataclass(frozen=True, slots=True)
class Others(Kept):
    rows: tuple[float, ...]
    names: tuple[str, ...]


KEPT = Numbers(("a", "b"), ((0.1, 2.0), (1 / 3, -0.0)), 7)


def test_it_comes_back(tmp_path):
    file = tmp_path / "numbers.json"
    KEPT.save(file)
    assert Numbers.read(file) == KEPT
    assert file.read_text().splitlines()[1] == ' "names": ["a", "b"],'


def test_it_is_written_again_over_its_own_kind_only(tmp_path):
    file = tmp_path / "numbers.json"
    KEPT.save(file)
    KEPT.save(file)
    with pytest.raises(Refusal):
        Others((1.0,), ("a",)).save(file)
    assert Numbers.read(file) == KEPT
    letter = tmp_path / "letter.txt"
    letter.write_text("dear")
    with pytest.raises(Refusal):
        KEPT.save(letter)
    assert letter.read_text() == "dear"
