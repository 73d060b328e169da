"""The largest curvature, against dense Hessians."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, hessian

from sigmascope.watching.sinks import WHOLE
from tests.watching.made import Shelf, at_leisure, stack, task


def loss_of(output, y):
    return (output - y).square().mean()


def dense(model, x, y):
    names = dict(model.named_parameters())

    def f(flat):
        parts, at = {}, 0
        for name, p in names.items():
            parts[name] = flat[at : at + p.numel()].view_as(p)
            at += p.numel()
        return loss_of(functional_call(model, parts, x), y)

    return hessian(f)(torch.cat([p.detach().flatten() for p in names.values()]))


def watched(model, optimizer, x, y, steps=40):
    shelf = Shelf()
    options = {"probe_batch": x, "targets": y, "loss": loss_of, "views": ()}
    with at_leisure(model, optimizer, sinks=[shelf], only=["sharpness"], **options) as w:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
            w.step(loss)
    return {(r.quantity, r.site): r.estimate for r in shelf.readings()}


def test_it_follows_the_largest_eigenvalue_of_all_and_of_each_layer():
    torch.manual_seed(0)
    model = stack(5, 4, 3, activation=nn.Tanh).double()
    x, y = task()
    found = watched(model, torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.5), x, y)
    H = dense(model, x, y)
    split = 5 * 4 + 4
    for site, block in ((WHOLE, H), ("0", H[:split, :split]), ("2", H[split:, split:])):
        true = float(torch.linalg.eigvalsh(block)[-1])
        assert found["sharpness", site].value == pytest.approx(true, rel=1e-3)
        assert found["sharpness", site].low <= true * (1 + 1e-6) <= found["sharpness", site].high
        ratio = found["rate times sharpness", site].value
        assert ratio == pytest.approx(1e-6 * true / 3, rel=1e-3)


def test_of_adam_it_is_that_in_its_own_coordinates():
    torch.manual_seed(0)
    model = stack(5, 4, 3, activation=nn.Tanh).double()
    x, y = task()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-7)
    found = watched(model, optimizer, x, y)
    H = dense(model, x, y)
    state = [optimizer.state[p] for p in model.parameters()]
    second = torch.cat([s["exp_avg_sq"].flatten() / (1 - 0.999 ** float(s["step"])) for s in state])
    d = (1e-7 / (second.sqrt() + 1e-8)).sqrt()
    true = float(torch.linalg.eigvalsh(d[:, None] * H * d)[-1])
    assert found["rate times sharpness", WHOLE].value == pytest.approx(true / 38, rel=1e-2)


def test_of_an_optimizer_that_is_not_known_only_the_sharpness_is_read():
    torch.manual_seed(0)
    model = stack(5, 4, 3, activation=nn.Tanh).double()
    x, y = task()
    found = watched(model, torch.optim.RMSprop(model.parameters(), lr=1e-7), x, y, 8)
    assert {name for name, _ in found} >= {"sharpness"}
    assert "rate times sharpness" not in {name for name, _ in found}
