import pytest
import torch
from torch import nn

from sigmascope.probes import Subject
from sigmascope.theory import THEOREMS, check

model = nn.Linear(4, 3)
subject = Subject(model, torch.ones(5, 4))


def test_names_are_unique_and_every_theorem_says_what_and_whence():
    assert len({t.name for t in THEOREMS}) == len(THEOREMS)
    for theorem in THEOREMS:
        assert theorem.statement
        assert "20" in theorem.source


def test_only_those_asked_for():
    assert {c.theorem for c in check(subject, only=["soft-rank"])} == {"soft-rank"}


def test_unknown_names_are_refused():
    with pytest.raises(
        ValueError, match=r"got \['rank-partition'\]. There are: rank-participation"
    ):
        check(subject, only=["rank-partition"])
