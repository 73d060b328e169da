"""Participation ratios of what layers read while they train, and profiles."""

import pytest
import torch
from torch import nn

from sigmascope.linalg import participation_ratio
from sigmascope.linalg.spectra import spectrum
from sigmascope.survey import profile
from sigmascope.watching.probes import representations
from tests.watching.made import passed, stack, task, watched


def estimates(model, x, steps=3):
    return passed(model, x, steps=steps, only=["representations"]).estimates()


@pytest.mark.parametrize("wide", [1024, 3])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_both_ratios_are_those_of_the_spectra(monkeypatch, wide, shift):
    monkeypatch.setattr(representations, "WIDE", wide)
    torch.manual_seed(0)
    model = stack(5, 8, 3).double()
    x = torch.randn(7, 5, dtype=torch.float64) + shift
    found = estimates(model, x, 8)
    for site, rows in (("0", x), ("2", model[:2](x).detach())):
        for name, of in (
            ("participation ratio", rows),
            ("centred participation ratio", rows - rows.mean(0)),
        ):
            estimate = found[name, site]
            true = participation_ratio(spectrum(of)).value
            assert estimate.low <= true <= estimate.high
            assert estimate.value == pytest.approx(true, rel=1e-9)
            assert estimate.high - estimate.low < 1e-6


def test_positions_are_thinned_alike_in_every_sample():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4)).double()
    x = torch.randn(3, 100, 4, dtype=torch.float64)
    found = estimates(model, x)
    step = -(-100 // representations.POSITIONS)
    true = participation_ratio(spectrum(x[:, ::step].flatten(0, 1))).value
    assert found["participation ratio", "0"].value == pytest.approx(true, rel=1e-9)


def test_equal_rows_have_no_centred_ratio():
    model = stack(4, 3).double()
    found = estimates(model, torch.ones(5, 4, dtype=torch.float64))
    assert found["participation ratio", "0"].value == pytest.approx(1.0)
    assert ("centred participation ratio", "0") not in found


def test_rows_that_are_not_finite_have_none():
    model = stack(4, 3).double()
    x = torch.randn(5, 4, dtype=torch.float64)
    x[0, 0] = float("inf")
    assert {name for name, _ in estimates(model, x)} == {"watched share"}


def test_readings_are_those_of_profile_in_their_own_view():
    model = stack(5, 4, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x, _ = task()
    shelf = watched(model, optimizer, 30, probe_batch=x, views=["weights"], only=["profile"])
    found = {(r.site, r.quantity, r.form): r.estimate for r in shelf.readings()
             if r.view == "weights"}  # fmt: skip
    own = profile(model, x, views=["weights"]).readings
    assert found == {(r.site, r.quantity, r.form): r.estimate for r in own}
