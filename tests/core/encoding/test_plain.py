import json
import math

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.core.encoding import built, encoded, strict
from sigmascope.core.records import Check, Estimate, Finding, Reading, Verdict

NUMBERS = st.floats(allow_nan=False)
ROW = {
    "site": "fc", "quantity": "rank", "view": "weights", "form": "",
    "value": 1.0, "low": 0.5, "high": "Infinity", "how": "free", "risk": 0.0,
}  # fmt: skip


@given(NUMBERS)
def test_every_number_comes_back_from_strict_json(number):
    assert float(json.loads(json.dumps(strict(number), allow_nan=False))) == number


def test_what_is_no_number_is_a_word():
    assert [strict(math.nan), strict(-math.inf)] == ["NaN", "-Infinity"]


def test_tensors_words_and_nothing():
    assert encoded({"a": torch.tensor([1.0, math.inf]), "b": Verdict.HOLDS, "c": None}) == {
        "a": [1.0, "Infinity"],
        "b": "holds",
        "c": None,
    }


def test_a_side_that_is_missing_is_null():
    check = Check("t", "s", "a ≤ b", "fc", None, None, "at most", (), Verdict.INAPPLICABLE)
    assert encoded(check)["measured"] is None
    assert built(Check, encoded(check)) == check


def test_a_record_is_built_from_its_columns():
    assert built(Reading, ROW).estimate == Estimate(1.0, 0.5, math.inf, "free")


@pytest.mark.parametrize(
    ("name", "wrong", "error"),
    [
        ("site", 3, TypeError),
        ("value", None, TypeError),
        ("value", "many", ValueError),
        ("value", math.nan, ValueError),
        ("low", 2.0, ValueError),
    ],
)
def test_cells_of_another_kind_are_refused(name, wrong, error):
    with pytest.raises(error):
        built(Reading, ROW | {name: wrong})


def test_a_missing_column_is_named():
    with pytest.raises(KeyError, match="quantity"):
        built(Reading, {k: v for k, v in ROW.items() if k != "quantity"})


def test_records_within_records_are_refused_where_they_are_none():
    finding = encoded(Finding("a", "fc", "note", (built(Reading, ROW),), "b", "c", ("d",)))
    assert built(Finding, finding).remedies == ("d",)
    with pytest.raises(TypeError, match="was expected, got int"):
        built(Finding, finding | {"evidence": [3]})
    with pytest.raises(TypeError, match="list"):
        built(Finding, finding | {"remedies": "d"})
