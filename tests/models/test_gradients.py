import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal, memory
from sigmascope.models.gradients import (
    again,
    differentiable_twice,
    dropped,
    joined,
    pushforward,
    trial_gradients as each_gradient,
)
from tests.fingerprints import differences, fingerprint, process
from tests.models_zoo import Net


def drawn(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def test_pushing_forward_is_the_jacobian_times_a_vector():
    W, x = drawn(3, 4), drawn(4, seed=1)
    f = lambda W, x: (W @ x).tanh()
    along = drawn(3, 4, seed=2), drawn(4, seed=3)
    live = [t.clone().requires_grad_() for t in (W, x)]
    found = pushforward(f(*live), live)(along)
    torch.testing.assert_close(found.detach(), torch.func.jvp(f, (W, x), along)[1])


def test_what_depends_on_nothing_has_no_derivative():
    x, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    assert pushforward(x.exp(), [other])([torch.ones(3)]) is None
    assert again([None, torch.ones(3)], [x], [torch.ones(3)] * 2) == [None]
    (slope,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    (found,) = again([slope, None], [x], [torch.ones(3), torch.ones(3)])
    assert found.tolist() == [6, 6, 6]


def test_parts_are_joined_with_zeros_for_those_that_are_not_there():
    sparse = torch.tensor([[0.0, 5.0]]).to_sparse()
    found = joined([None, sparse], [torch.ones(2, 2), torch.ones(1, 2)])
    assert found.tolist() == [0, 0, 0, 0, 0, 5]


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_normalisation_by_its_parts_is_the_same_map(dim):
    net = nn.utils.weight_norm(nn.Linear(4, 3).double(), dim=dim)
    x = drawn(2, 4)
    with differentiable_twice(net):
        by_parts = net(x)
    torch.testing.assert_close(by_parts, net(x))


def test_running_statistics_stay_and_the_tape_outlives_the_block():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    before = net[1].running_mean.clone()
    with differentiable_twice(net):
        value = net(drawn(6, 3).float()).square().sum()
    assert torch.equal(net[1].running_mean, before)
    (slope,) = torch.autograd.grad(value, net[0].weight, create_graph=True)
    assert torch.autograd.grad(slope.square().sum(), net[2].weight)[0].isfinite().all()


def test_what_autograd_cannot_do_is_said_in_its_words():
    net = nn.Linear(3, 3)
    with pytest.raises(Refusal, match="must be differentiable, got RuntimeError"):
        with_no_tape(net)


def with_no_tape(net):
    with differentiable_twice(net):
        torch.autograd.grad(net(torch.ones(1, 3)).detach().sum(), net.weight)


# ------------------------------------------------------------------------------
# What dropout takes away is counted in training mode, and nothing is left behind.


def by_hand():
    return Net(lambda m, x: F.dropout(x, 0.6, training=m.training))


@pytest.mark.parametrize(
    ("part", "share"),
    [(nn.Dropout(0.99), 0.99), (nn.Dropout(0.0), 0.0), (by_hand(), 0.6),
     (nn.Dropout(0.3, inplace=True), 0.3), (nn.Dropout1d(0.5), 0.5)],
)  # fmt: skip
def test_the_share_is_that_of_the_zeros(part, share):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 200), part, nn.Linear(200, 2)).eval()
    (place,) = dropped(model, torch.randn(50, 8))
    assert place.site == "1"
    assert place.share == pytest.approx(share, abs=0.1 if isinstance(part, nn.Dropout1d) else 0.02)


def test_zeros_that_were_there_do_not_count():
    model = nn.Sequential(nn.Linear(4, 300), nn.ReLU(), nn.Dropout(0.5))
    (place,) = dropped(model, torch.randn(20, 4))
    assert place.before < 20 * 300 * 0.8
    assert place.share == pytest.approx(0.5, abs=0.05)


def test_one_place_for_all_calls_of_a_module():
    drop = nn.Dropout(0.5)
    model = nn.Sequential(nn.Linear(4, 50), drop, nn.Linear(50, 50), drop)
    (place,) = dropped(model, torch.randn(10, 4))
    assert 10 * 50 < place.before <= 2 * 10 * 50


def test_the_model_and_the_random_state_are_as_they_were():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()
    x = torch.randn(10, 4)
    before, around = fingerprint(model=model), process()
    dropped(model, x)
    assert not differences(before, fingerprint(model=model))
    assert process() == around


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
