"""The largest curvature against dense Hessians, and learning rates as they are applied."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, hessian

from sigmascope.watching.probes.sharpness import rate_of
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


def smooth():
    torch.manual_seed(0)
    return stack(5, 4, 3, activation=nn.Tanh).double(), *task()


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
    return shelf.estimates()


def test_it_follows_the_largest_eigenvalue_of_all_and_of_each_layer():
    model, x, y = smooth()
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
    model, x, y = smooth()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-7)
    found = watched(model, optimizer, x, y)
    H = dense(model, x, y)
    state = [optimizer.state[p] for p in model.parameters()]
    second = torch.cat([s["exp_avg_sq"].flatten() / (1 - 0.999 ** float(s["step"])) for s in state])
    d = (1e-7 / (second.sqrt() + 1e-8)).sqrt()
    true = float(torch.linalg.eigvalsh(d[:, None] * H * d)[-1])
    assert found["rate times sharpness", WHOLE].value == pytest.approx(true / 38, rel=1e-2)


def test_of_an_optimizer_that_is_not_known_only_the_sharpness_is_read():
    model, x, y = smooth()
    found = watched(model, torch.optim.RMSprop(model.parameters(), lr=1e-7), x, y, 8)
    names = {name for name, _ in found}
    assert "sharpness" in names
    assert "rate times sharpness" not in names


def grows(make, curvature, steps=400):
    """Whether descent on `c x² / 2` runs away."""
    x = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = make([x])
    for _ in range(steps):
        optimizer.zero_grad()
        (0.5 * curvature * x.square()).sum().backward()
        optimizer.step()
        if not abs(float(x.detach())) < 1e6:
            return True
    return abs(float(x.detach())) > 1.0


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_descent_diverges_just_beyond_what_is_borne(momentum):
    def make(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=momentum)

    x = nn.Parameter(torch.ones(1))
    optimizer = make([x])
    rate = rate_of(optimizer, optimizer.param_groups[0], x)
    limit = rate.borne / float(rate.roots) ** 2
    assert not grows(make, 0.99 * limit, 4000)
    assert grows(make, 1.01 * limit, 4000)


def test_adam_is_scaled_by_its_second_moments():
    x = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.Adam([x], lr=0.01, betas=(0.9, 0.99), eps=0.0)
    (x * torch.tensor([3.0, 5.0])).sum().backward()
    assert rate_of(optimizer, optimizer.param_groups[0], x) is None  # no moments yet
    optimizer.step()
    rate = rate_of(optimizer, optimizer.param_groups[0], x)
    torch.testing.assert_close(rate.roots.square(), 0.01 / torch.tensor([3.0, 5.0]))
    assert rate.borne == pytest.approx(38.0)


class OwnSteps(torch.optim.SGD):
    """Steps that are not those of what it inherits from."""

    def step(self, closure=None):
        return None


class OwnName(torch.optim.SGD):
    """Steps that are."""


def test_of_other_optimizers_nothing_is_said():
    x = nn.Parameter(torch.ones(2, 2))
    for optimizer in (torch.optim.RMSprop([x]), torch.optim.Muon([x]), OwnSteps([x], lr=0.1)):
        assert rate_of(optimizer, optimizer.param_groups[0], x) is None
    plain = OwnName([x], lr=0.1)
    torch.optim.lr_scheduler.StepLR(plain, 10)  # which wraps its step
    assert rate_of(plain, plain.param_groups[0], x).borne == 2.0
