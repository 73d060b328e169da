import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal, memory
from sigmascope.models.trial_gradients import trial_gradients as each_gradient
from tests.fingerprints import differences, fingerprint
from tests.models_zoo import Net


def drawn(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def trial_gradients(*given, **named):
    return dict(each_gradient(*given, **named))


def net():
    made = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(drawn(*p.shape, seed=i))
    return made


X, Y = drawn(6, 3, seed=8), drawn(6, 2, seed=9)


def of(model, scalar):
    return dict(
        zip(
            dict(model.named_parameters()),
            torch.autograd.grad(scalar, list(model.parameters())),
            strict=True,
        )
    )


def test_with_a_loss_it_is_its_gradient():
    model = net()
    found = trial_gradients(model, X, targets=Y, loss=F.mse_loss)
    torch.testing.assert_close(found, of(model, F.mse_loss(model(X), Y)))
    assert all(p.grad is None for p in model.parameters())


def test_without_one_it_is_that_of_the_outputs_with_normal_weights():
    model = net()
    found = trial_gradients(model, X, generator=torch.Generator().manual_seed(5))
    weights = torch.randn(6, 2, generator=torch.Generator().manual_seed(5)).double()
    torch.testing.assert_close(found, of(model, (model(X) * weights).sum()))
    again = trial_gradients(model, X, targets=Y, loss=F.mse_loss, pull="random",
                            generator=torch.Generator().manual_seed(5))  # fmt: skip
    torch.testing.assert_close(again, found)


def test_reweighted_is_not_zero_where_training_has_converged():
    model = net()
    with torch.no_grad():
        targets = model(X) + 1e-9 * Y
    plain = trial_gradients(model, X, targets=targets, loss=F.mse_loss)
    heavy = trial_gradients(model, X, targets=targets, loss=F.mse_loss, pull="reweighted")
    assert max(float(g.abs().max()) for g in plain.values()) < 1e-7
    assert min(float(g.abs().max()) for g in heavy.values()) > 1e-3


def test_signs_leave_the_size_of_what_would_cancel():
    """Two samples whose gradients cancel: with signs of their own they need not."""
    model, x = nn.Linear(3, 1, bias=False).double(), X[:1]
    pair, y = torch.cat([x, x]), model(x).detach() + torch.tensor([[1.0], [-1.0]])
    plain = trial_gradients(model, pair, targets=y, loss=F.mse_loss)["weight"]
    assert float(plain.abs().max()) < 1e-12
    g = torch.Generator().manual_seed(2)
    signs = 1.0 - 2.0 * torch.randint(2, (2,), generator=g)
    turned = trial_gradients(model, pair, targets=y, loss=F.mse_loss, signs=2)["weight"]
    expected = -(signs[0] - signs[1]) * x  # of (f - y)² / 2, and f = y ∓ 1
    torch.testing.assert_close(turned, expected)


def test_what_is_not_used_has_zeros_and_what_is_frozen_is_left_out():
    model = nn.ModuleDict({"used": nn.Linear(3, 2), "idle": nn.Linear(3, 2)}).double()
    model["used"].bias.requires_grad_(False)

    found = trial_gradients(Net(lambda m, x: m.parts["used"](x), parts=model), X)
    assert set(found) == {"parts.used.weight", "parts.idle.weight", "parts.idle.bias"}
    assert not found["parts.idle.weight"].any()
    assert found["parts.used.weight"].all()


def test_the_model_runs_in_its_own_modes_and_is_left_as_found():
    model = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)
    ).double()
    before = fingerprint(model=model)
    trial_gradients(model, X, nudge=1e-6, signs=6)
    assert not differences(before, fingerprint(model=model))


def test_a_model_that_cannot_be_trained_is_refused():
    class Spoils(nn.Linear):
        def forward(self, x):
            y = super().forward(x).exp()
            y.add_(1)
            return y

    with pytest.raises(Refusal, match="must be one that can be trained, got Spoils, of which auto"):
        trial_gradients(Spoils(3, 2), X)


def test_where_memory_is_scarce_they_come_a_few_at_a_time_and_are_the_same(monkeypatch):
    model = net()
    whole, backward, asked = trial_gradients(model, X, targets=Y, loss=F.mse_loss), [], []
    differentiate = torch.autograd.grad

    def counting(scalar, leaves, **named):
        asked.append([tuple(leaf.shape) for leaf in leaves])
        backward.append(named["retain_graph"])
        return differentiate(scalar, leaves, **named)

    monkeypatch.setattr(torch.autograd, "grad", counting)
    with memory(8 * 8 * (3 * 4 + 4)):  # an eighth of it holds the first layer
        found = trial_gradients(model, X, targets=Y, loss=F.mse_loss)
    assert asked == [[(4, 3), (4,)], [(2, 4), (2,)]]
    assert backward == [True, False]
    assert list(found) == list(whole)
    torch.testing.assert_close(found, whole, rtol=0, atol=0)
