import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.models.gradients import again, differentiable_twice, dropped, joined, pushforward
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
