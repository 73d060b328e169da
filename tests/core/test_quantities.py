"""The table of quantities says the truth about what is read."""

import math
import re
from pathlib import Path
from typing import get_args

import pytest

from sigmascope.core import quantities
from sigmascope.core.quantities import ALL, EVERY, SCAN, TRAINING, WATCH, View, quantity

TABLE = quantities.quantities()
ROOT = Path(__file__).parents[2]


def test_a_row_is_whole():
    for q in TABLE.values():
        assert q.views, q.name
        assert set(q.views) <= set(get_args(View)), q.name
        assert q.least < q.most or (q.least == q.most and not q.symbol), q.name
        assert q.range, q.name
        assert not q.compared or q.column, q.name


def test_every_view_has_quantities_and_the_page_on_them_names_it():
    assert set(ALL) < set(EVERY)
    page = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    for view in (*EVERY, TRAINING, SCAN, WATCH):
        assert quantities.in_view(view)
        assert f"| {view}" in page


def test_panels_are_of_one_unit_and_one_scale():
    for names in quantities.families().values():
        assert len(names) > 1
        assert len({(TABLE[n].unit, TABLE[n].scale) for n in names}) == 1


def test_ranges_in_words_come_from_the_ends():
    assert quantity("dead units").range == "0 to 1"
    assert quantity("gain").range == "≥ 0"
    assert quantity("target signal").range == "any"
    assert quantity("taken by the loss").range == "`probabilities`, `any numbers`"
    assert quantity("target signal").least == -math.inf
    for q in TABLE.values():  # and words that were given say the same
        if told := re.match(r"(\d+) to ", q.range):
            assert int(told[1]) == q.least, q.name


OWN = quantities.Quantity("crest factor", ("weights",), "peak over root mean square", least=1)


def test_own_quantities_are_in_the_table_within_the_block_only():
    with quantities.with_own(OWN):
        assert quantity("crest factor") == OWN
        assert OWN in quantities.in_view("weights")
        with pytest.raises(ValueError, match="already"), quantities.with_own(OWN):
            pass
    assert dict(quantities.quantities()) == dict(TABLE)
    with pytest.raises(ValueError, match="crest factor"):
        quantity("crest factor")


def test_own_quantities_need_a_view_that_there_is():
    for views in ((), ("elsewhere",)):
        with (
            pytest.raises(ValueError, match="must name some of representations"),
            quantities.with_own(quantities.Quantity("mine", views, "it")),
        ):
            pass
