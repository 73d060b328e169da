"""Norms of gradients, weights and updates as the optimizer makes them."""

import math

import pytest
import torch
from torch import nn

from sigmascope.watching.probes import norms
from tests.watching.made import Shelf, at_leisure, stack, task, trained


def watched(model, optimizer, steps=1, **options):
    """The last readings by quantity and site."""
    shelf = Shelf()
    x, y = task()
    with at_leisure(model, optimizer, sinks=[shelf], **options) as watching:
        trained(model, x, y, optimizer, steps, watching)
    return {(r.quantity, r.site, r.form): r.estimate for r in shelf.readings()}


def norm(tensors):
    return math.sqrt(sum(float(t.double().square().sum()) for t in tensors))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_norms_of_a_step_are_those_of_what_it_did(kind):
    model = stack(5, 4, 3).double()
    optimizer = kind(model.parameters(), lr=0.1)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    found = watched(model, optimizer)
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
            assert found[name, site, ""].value == pytest.approx(value, rel=1e-12), name


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
    found = watched(model, optimizer)
    grads = [p.grad for n, p in model.named_parameters() if n.startswith("0")]
    assert found["gradient norm", "0", ""].value == pytest.approx(norm(grads), rel=1e-12)


def test_rates_are_those_of_each_group():
    model = stack(5, 4, 3).double()
    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}]
    found = watched(model, torch.optim.SGD(groups, lr=0.5))
    assert found["rate", "(optimizer)", "0.0"].value == 0.1
    assert found["rate", "(optimizer)", "0.1"].value == 0.5


def test_frozen_layers_have_no_norm():
    model = stack(5, 4, 3).double()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    found = watched(model, optimizer)
    assert ("gradient norm", "0", "") not in found
    assert ("gradient norm", "2", "") in found


def test_updates_of_large_models_are_read_for_some_layers_at_a_time(monkeypatch):
    monkeypatch.setattr(norms, "COPIED", 30)
    model = stack(5, 4, 4, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shelf = Shelf()
    x, y = task()
    with at_leisure(model, optimizer, sinks=[shelf], only=["updates"]) as watching:
        trained(model, x, y, optimizer, 40, watching)
    sites = {r.site for r in shelf.readings() if r.quantity == "update norm"}
    assert sites == {"0", "2", "4"}
    first = [r.site for r in shelf.looks[0].readings if r.quantity == "update norm"]
    assert first == ["0"]


def test_sparse_gradients_have_norms():
    class Looked(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 3, sparse=True)

        def forward(self, x):
            return self.table(x).sum(1)

    model = Looked()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shelf = Shelf()
    with at_leisure(model, optimizer, sinks=[shelf]):
        model(torch.tensor([[1, 1, 4]])).sum().backward()
        optimizer.step()
    (found,) = [r for r in shelf.readings() if r.quantity == "gradient norm"]
    assert found.estimate.value == pytest.approx(math.sqrt(3 * 4 + 3))


@pytest.mark.parametrize("apart", [150, 30])
def test_layers_that_are_frozen_by_hand_or_take_turns_have_not_stopped_by_themselves(apart):
    torch.manual_seed(0)
    model, shelf = stack(5, 4, 3).double(), Shelf()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = task()
    with at_leisure(model, optimizer, sinks=[shelf]) as watching:
        for turn in range(300 // apart):
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
