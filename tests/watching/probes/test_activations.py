"""What layers read and write in a training step."""

import copy
import math

import pytest
import torch
from torch import nn

from sigmascope.linalg import participation_ratio
from sigmascope.linalg.spectra import spectrum
from sigmascope.survey import profile
from sigmascope.watching.probes import activations
from sigmascope.watching.probes.base import handed
from sigmascope.watching.processes import Processes
from tests.watching.made import Shelf, at_leisure, passed, stack, task, watched


def read_of(model, *batches):
    """Readings of a step in which these batches pass, the second of all; not what they cost."""
    found = passed(model, *batches, only=["activations"]).estimates()
    return {at: estimate.value for at, estimate in found.items() if at[1] != "(watch)"}


def test_sizes_and_variation_are_those_of_what_each_layer_reads():
    torch.manual_seed(0)
    model = stack(5, 8, 3).double()
    x = torch.randn(6, 5, dtype=torch.float64)
    found = read_of(model, x)
    h = model[:2](x).detach()
    for site, rows in (("0", x), ("2", h)):
        apart = (rows - rows.mean(0)).norm() / rows.norm()
        assert found["mean square", site] == pytest.approx(float(rows.square().mean()), rel=1e-12)
        assert found["relative variation", site] == pytest.approx(float(apart), rel=1e-9)
    dead = float((h == 0).all(0).double().mean())
    assert found["dead units", "2"] == dead
    assert ("dead units", "0") not in found  # inputs are no units


class Sparse(nn.Module):
    """A linear layer of a matrix that may be sparse, as of words or neighbours."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, dtype=torch.float64) / inputs)

    def forward(self, x):
        return x @ self.weight.mT


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr"])
def test_a_layer_that_is_handed_a_sparse_matrix_keeps_no_other_from_being_read(layout):
    torch.manual_seed(0)
    model = nn.Sequential(Sparse(5, 8), nn.ReLU(), nn.Linear(8, 3).double())
    x = torch.randn(6, 5, dtype=torch.float64).relu()
    dense, found = read_of(model, x), read_of(model, getattr(x, layout)())
    assert found == pytest.approx({at: v for at, v in dense.items() if at[1] != "0"}, rel=1e-12)
    assert ("mean square", "2") in found


def test_passes_of_one_step_add_up():
    torch.manual_seed(0)
    model = stack(5, 8, 3).double()
    x = torch.randn(6, 5, dtype=torch.float64)
    assert read_of(model, x[:2], x[2:]) == pytest.approx(read_of(model, x), rel=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_of_one_row_nothing_is_said_that_several_would_tell(rows):
    """A bag that is pooled is one row: it differs from no other, and half of its units are zero."""
    torch.manual_seed(0)
    model = stack(5, 8, 3).double()
    found = read_of(model, torch.randn(rows, 5, dtype=torch.float64))
    assert (("relative variation", "2") in found) is (rows > 1)
    assert (("dead units", "2") in found) is (rows > 1)
    assert found["mean square", "2"] > 0
    # passes of one row each, as where samples go through one by one, are rows of one step
    assert ("dead units", "2") in read_of(model, *torch.randn(2, 1, 5, dtype=torch.float64))


def test_channels_are_units_where_there_are_positions():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)).double()
    with torch.no_grad():
        model[0].bias[1:3] = -100.0
    found = read_of(model, torch.randn(3, 2, 8, 8, dtype=torch.float64))
    assert found["dead units", "2"] == 0.5


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (nn.Sigmoid, 0.0, 1.0),
        (nn.Hardsigmoid, 0.0, 1.0),
        (nn.Tanh, -1.0, 1.0),
        (nn.Hardtanh, -1.0, 1.0),
        (nn.Softsign, -1.0, 1.0),
    ],
)
def test_saturation_is_the_share_within_a_hundredth_of_the_range_of_an_end(kind, low, high):
    model = nn.Sequential(nn.Linear(1, 1), kind()).double()
    nn.init.ones_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    x = torch.linspace(-6, 6, 20001, dtype=torch.float64).sinh()[:, None]
    y = kind()(x)
    near = torch.minimum(y - low, high - y) <= 0.01 * (high - low)
    assert 0 < near.double().mean() < 1
    assert read_of(model, x)["saturated share", "1"] == float(near.double().mean())


def test_drift_is_between_batch_and_running_statistics():
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4, momentum=0.0)).double()
    x = torch.randn(4000, 4, dtype=torch.float64)
    x = (x - x.mean(0)) / x.std(0, correction=0)
    assert read_of(model, 2.0 * x + 3.0)["statistics drift", "0"] == pytest.approx(
        math.hypot(1.5, math.log(2.0)), rel=1e-9
    )
    assert read_of(model, x)["statistics drift", "0"] == pytest.approx(0.0, abs=1e-12)


def test_validation_passes_and_copies_are_not_heard():
    torch.manual_seed(0)
    model = stack(5, 8, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x = torch.randn(6, 5, dtype=torch.float64)
    shelf = Shelf()
    with at_leisure(model, optimizer, sinks=[shelf], only=["activations"]):
        for _ in range(2):
            with torch.no_grad():
                model(100 * x)
            copy.deepcopy(model)(100 * x)
            model(x).sum().backward()
            optimizer.step()
    assert shelf.estimates()["mean square", "0"].value == pytest.approx(
        float(x.square().mean()), rel=1e-12
    )


def test_what_is_not_a_number_is_read_as_such():
    model = stack(3, 4, 2)
    x = torch.randn(5, 3)
    x[0, 0] = math.nan
    found = read_of(model, x)
    assert ("non-finite entries", "0") in found


def test_a_unit_is_dead_where_it_is_zero_on_every_sample_and_nowhere_else():
    rows = torch.tensor(
        [[0.0, -1, 0, 2, 0], [0, 0, 3, 2, 0], [0, -1, 0, 2, 0]], dtype=torch.float64
    )
    model = nn.Sequential(nn.Linear(5, 5, bias=False), nn.Linear(5, 2)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(5))
    assert read_of(model, rows)["dead units", "1"] == 2 / 5


def estimates(model, x, steps=3):
    return passed(model, x, steps=steps, only=["representations"]).estimates()


@pytest.mark.parametrize("wide", [1024, 3])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_both_ratios_are_those_of_the_spectra(monkeypatch, wide, shift):
    monkeypatch.setattr(activations, "WIDE", wide)
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


@pytest.mark.parametrize("wide", [1024, 3])
@pytest.mark.parametrize("shares", [(7, 0), (0, 7), (3, 4), (2, 0, 5)])
def test_processes_read_together_what_one_does_also_where_some_heard_nothing(
    monkeypatch, shares, wide
):
    monkeypatch.setattr(activations, "WIDE", wide)
    torch.manual_seed(0)
    model, x = stack(5, 3).double(), torch.randn(7, 5, dtype=torch.float64) + 2
    probes = []
    for rank, rows in enumerate(x.split(shares)):
        own = copy.deepcopy(model)
        probe = activations.Representations(own, Processes(count=len(shares), rank=rank))
        probe.open()
        if len(rows):
            own(rows)
        probes.append(probe)
    running, total, last = [handed(probe) for probe in probes], None, False
    while not last:
        parts, ends = zip(*(r.send(total) for r in running), strict=True)
        total, last = sum(parts), ends[0]
    found = {c.quantity: c.estimates[0] for c in probes[0].read(total)}
    for name, of in (("", x), ("centred ", x - x.mean(0))):
        true = participation_ratio(spectrum(of)).value
        assert found[f"{name}participation ratio"].value == pytest.approx(true, rel=1e-9)


def test_positions_are_thinned_alike_in_every_sample():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4)).double()
    x = torch.randn(3, 100, 4, dtype=torch.float64)
    found = estimates(model, x)
    step = -(-100 // activations.POSITIONS)
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


def test_values_of_some_features_stand_among_zeros_for_those_that_others_have():
    values = torch.tensor([3.0, 4.0])
    assert activations._put(values, slice(1, 3), 4).tolist() == [0.0, 3.0, 4.0, 0.0]
    assert activations._put(values, slice(0, 2), 2) is values
