"""Norms of gradients, weights and updates as the optimizer makes them, and losses."""

import math

import pytest
import torch
from torch import nn

from sigmascope.watching.probes import Losses, norms
from sigmascope.watching.probes.base import places
from sigmascope.watching.probes.norms import Squares
from sigmascope.watching.processes import Processes
from tests.models_zoo import Net
from tests.watching.made import Shelf, at_leisure, passed, stack, task, trained, watched

KEPT = 64


def norm(tensors):
    return math.sqrt(sum(float(t.double().square().sum()) for t in tensors))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_norms_of_a_step_are_those_of_what_it_did(kind):
    model = stack(5, 4, 3).double()
    optimizer = kind(model.parameters(), lr=0.1)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    found = watched(model, optimizer).estimates()
    for site in ("0", "2"):
        mine = {n: p.detach() for n, p in model.named_parameters() if n.startswith(site)}
        grads = [p.grad for n, p in model.named_parameters() if n.startswith(site)]
        update = norm([mine[n] - before[n] for n in mine])
        expected = {
            "gradient norm": norm(grads),
            "Frobenius norm": norm(mine.values()),
            "update norm": update,
            "update ratio": update / norm(mine.values()),
        }
        for name, value in expected.items():
            assert found[name, site].value == pytest.approx(value, rel=1e-12), name


def test_gradients_are_read_as_the_optimizer_is_handed_them():
    model = stack(5, 4, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shelf = Shelf()
    x, y = task()
    with at_leisure(model, optimizer, sinks=[shelf]):
        for _ in range(3):  # accumulated
            (model(x) - y).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        optimizer.step()
    found = [r.estimate.value for r in shelf.readings() if r.quantity == "gradient norm"]
    assert math.hypot(*found) == pytest.approx(1e-3, rel=1e-3)
    assert shelf.looks[0].step == 1


def test_a_gradient_scaler_inside_of_a_fused_step_is_taken_out():
    model = stack(5, 4, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(1024.0), torch.tensor(0.0)
    found = watched(model, optimizer).estimates()
    grads = [p.grad for n, p in model.named_parameters() if n.startswith("0")]
    assert found["gradient norm", "0"].value == pytest.approx(norm(grads), rel=1e-12)


def test_rates_are_those_of_each_group():
    model = stack(5, 4, 3).double()
    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}]
    shelf = watched(model, torch.optim.SGD(groups, lr=0.5))
    rates = {r.form: r.estimate.value for r in shelf.readings() if r.quantity == "rate"}
    assert rates == {"0.0": 0.1, "0.1": 0.5}


def test_frozen_layers_have_no_norm():
    model = stack(5, 4, 3).double()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    found = watched(model, optimizer).estimates()
    assert ("gradient norm", "0") not in found
    assert ("gradient norm", "2") in found


def test_updates_of_large_models_are_read_for_some_layers_at_a_time(monkeypatch):
    monkeypatch.setattr(norms, "COPIED", 30)
    model = stack(5, 4, 4, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shelf = watched(model, optimizer, 40, only=["updates"])
    sites = {r.site for r in shelf.readings() if r.quantity == "update norm"}
    assert sites == {"0", "2", "4"}
    first = [r.site for r in shelf.looks[0].readings if r.quantity == "update norm"]
    assert first == ["0"]


def test_sparse_gradients_have_norms():
    model = Net(lambda m, x: m.table(x).sum(1), table=nn.Embedding(10, 3, sparse=True))
    shelf = passed(model, torch.tensor([[1, 1, 4]]), steps=1)
    (found,) = [r for r in shelf.readings() if r.quantity == "gradient norm"]
    assert found.estimate.value == pytest.approx(math.sqrt(3 * 4 + 3))


@pytest.mark.parametrize(("apart", "turns"), [(60, 2), (10, 8)])
def test_layers_that_are_frozen_by_hand_or_take_turns_have_not_stopped_by_themselves(apart, turns):
    torch.manual_seed(0)
    model, shelf = stack(5, 4, 3).double(), Shelf()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = task()
    with at_leisure(model, optimizer, sinks=[shelf]) as watching:
        for turn in range(turns):
            model[0].requires_grad_(turn % 2 == 0)
            trained(model, x, y, optimizer, apart, watching)
    assert "frozen-weights" not in {f.name for look in shelf.looks for f in look.findings}
    late = shelf.of(watching.steps)
    assert {r.site for r in late if r.quantity == "update norm"} == {"2"}
    weights = {r.site for r in late if r.quantity == "Frobenius norm"}
    assert weights == {"0", "2"}


def test_a_layer_that_gets_no_gradient_has_stopped_by_itself():
    torch.manual_seed(0)
    model, shelf = stack(5, 4, 3).double(), Shelf()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = task()
    with at_leisure(model, optimizer, sinks=[shelf]) as watching:
        trained(model, x, y, optimizer, 60, watching)
        cut = model[1].register_forward_hook(lambda m, args, out: out.detach())
        trained(model, x, y, optimizer, 10, watching)
        cut.remove()
    found = {(f.name, f.site) for look in shelf.looks for f in look.findings}
    assert ("frozen-weights", "0") in found


def made(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer, Squares(places(model, [optimizer]), Processes())


def norms_of(model, dtype=None):
    if dtype:
        model = model.to(dtype)
    optimizer, squares = made(model)
    out = squares.empty()
    with torch.no_grad():
        squares.add(out, optimizer, lambda i: squares.parameters[i])
    return squares, squares.norms(out.flatten(), all)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_norms_are_those_of_each_layer_within_their_error(dtype):
    model = stack(7, 5, 3)
    squares, found = norms_of(model, dtype)
    for site, value in found.items():
        layer = model.get_submodule(site)
        true = math.sqrt(sum(float(p.detach().double().square().sum()) for p in layer.parameters()))
        assert abs(value - true) <= true * squares.error
        assert squares.error < 1e-4


@pytest.mark.parametrize(("value", "dtype", "error"), [(1e25, None, 1e-6),
                                                      (6e4, torch.float16, 1e-2)])  # fmt: skip
def test_norms_whose_squares_leave_the_format_are_not_infinite(value, dtype, error):
    model = nn.Linear(4, 4, bias=False)
    nn.init.constant_(model.weight, value)
    _, found = norms_of(model, dtype)
    assert found["(model)"] == pytest.approx(4 * value, rel=error)


def test_what_is_not_finite_shows():
    model = stack(3, 2, 2)
    with torch.no_grad():
        model[0].weight[0, 0] = math.nan
        model[2].weight[0, 0] = math.inf
    _, found = norms_of(model)
    assert math.isnan(found["0"])
    assert found["2"] == math.inf


def test_a_place_of_which_nothing_was_read_has_no_norm():
    model = stack(3, 2, 2)
    optimizer, squares = made(model)
    out = squares.empty()
    with torch.no_grad():
        squares.add(out, optimizer, lambda i: squares.parameters[i] if i == 0 else None)
    assert squares.norms(out.flatten(), all) == {}
    assert [*squares.norms(out.flatten(), any)] == ["0"]


def read(losses):
    probe = Losses()
    for loss in losses:
        probe.add(1, loss)
    return {c.form: c.values[0] for c in probe.read(probe.local())}


def test_the_last_and_the_largest_are_read():
    assert read([1.0, torch.tensor(5.0), 2.0]) == {"": 2.0, "largest": 5.0}
    assert read([]) == {}


def test_one_that_is_no_number_is_not_passed_over():
    assert all(math.isnan(v) for v in read([1.0, math.nan, 2.0]).values())


def test_one_that_is_no_number_is_filed_at_its_own_step():
    probe = Losses()
    for step, loss in enumerate([1.0, math.nan, 2.0, 3.0]):
        probe.add(step, loss)
    assert {c.step for c in probe.read(probe.local())} == {1}
    probe.add(4, 2.0)
    assert {c.step for c in probe.read(probe.local())} == {4}


def test_memory_does_not_grow_between_looks():
    probe = Losses()
    for k in range(10_000):
        probe.add(k, float(k))
    assert len(probe._given) <= 2 * KEPT
    assert {c.form: c.values[0] for c in probe.read(probe.local())}[""] == 9999.0


def test_over_processes_it_is_the_mean():
    one, other = Losses(), Losses()
    for k in range(3):
        one.add(k, float(k))
        other.add(k, float(k) + 1)
    (last, largest) = one.read(one.local() + other.local())
    assert (last.values[0], largest.values[0]) == pytest.approx((2.5, 2.5))


def test_a_gradient_of_zero_has_a_norm_of_zero():
    model = stack(5, 4, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    shelf = Shelf()
    with at_leisure(model, optimizer, sinks=[shelf]):
        for _ in range(2):
            (0.0 * model(task()[0]).sum()).backward()
            optimizer.step()
    found = {r.site: r.estimate.value for r in shelf.readings() if r.quantity == "gradient norm"}
    assert found == {"0": 0.0, "2": 0.0}
