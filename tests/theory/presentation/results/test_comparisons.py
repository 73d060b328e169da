import copy
import json

import pytest
import torch
from torch import nn

from sigmascope import report, theory


@pytest.fixture(scope="module")
def found():
    torch.manual_seed(0)
    before = nn.Sequential(*(nn.Linear(3, 3) for _ in range(30)))
    after = copy.deepcopy(before)
    with torch.no_grad():
        for layer in after:
            layer.weight.neg_().mul_(2)
    return theory.compare(before.state_dict(), after.state_dict())


def test_what_moved_is_counted_and_the_rest_is_left_to_whole(found):
    short, whole = report.text(found), report.text(found, whole=True)
    moved = sum(c.moved for c in found.changes)
    assert short.startswith(f"{moved} of {len(found.changes)} quantities moved.")
    assert "more (--whole lists them)" in short
    assert "100.00%" in short  # of the signs changed
    assert "more" not in whole
    assert len(whole.splitlines()) > len(short.splitlines())


def test_what_moved_by_the_largest_factor_either_way_stands_first():
    before = {name: torch.eye(3) for name in "abcd"}
    sizes = {"a": 1.5, "b": 0.0, "c": 0.2, "d": 3.0}
    after = {name: size * before[name] for name, size in sizes.items()}
    lines = report.text(theory.compare(before, after)).splitlines()
    assert [row[0] for row in lines if " Frobenius norm " in row] == ["b", "c", "d", "a"]


def test_nothing_that_moved_is_said():
    same = theory.compare({"w": torch.eye(3)}, {"w": torch.eye(3)})
    assert report.text(same).startswith("0 of ")
    assert "factor" not in report.text(same)


def test_the_form_says_of_each_change_whether_it_is_one(found):
    form = json.loads(json.dumps(report.json_form(found), allow_nan=False))
    assert form["schema"] == "sigmascope/comparison/1"
    assert {c["moved"] for c in form["changes"]} <= {True, False}
    assert set(form["changes"][0]) == {
        "site", "quantity", "view", "form", "before", "after", "moved",
    }  # fmt: skip
    assert form["findings"] == []
