"""The table of quantities says the truth about what is read."""

import math
from pathlib import Path
from typing import get_args

import pytest
from models_zoo import MODELS, call
from torch.nn import functional as F

from sigmascope import quantities, survey
from sigmascope.quantities import ALL, EVERY, SCAN, TRAINING, WATCH, View, quantity

TABLE = quantities.quantities()
ROOT = Path(__file__).parents[1]


def profile_of(name):
    module, batch = MODELS[name]()
    out = call(module, batch)
    if not hasattr(out, "detach") or out[0].numel() > 64:
        return survey.profile(module, batch)
    return survey.profile(module, batch, targets=out.detach() + 1, loss=F.mse_loss, views=EVERY[:7])


@pytest.mark.parametrize("name", MODELS)
def test_readings_lie_in_the_range_that_is_declared(name, as_users_see_it):
    for r in profile_of(name).readings:
        q = TABLE[r.quantity]
        slack = 1e-6 * max(1.0, abs(r.estimate.value))
        assert q.least - slack <= r.estimate.value <= q.most + slack, r


@pytest.mark.parametrize("q", TABLE.values(), ids=lambda q: q.name)
def test_a_row_is_whole(q):
    assert q.views
    assert set(q.views) <= set(get_args(View))
    assert not q.says.endswith(".")
    assert q.least <= q.most
    assert q.range
    assert not q.compared or q.column


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
    assert quantity("constant output").range == "1"
    assert quantity("target signal").least == -math.inf


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
