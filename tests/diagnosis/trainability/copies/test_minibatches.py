"""Steps take some samples where each has its own target, and all where they belong together."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.diagnosis.trainability.copies import STEPS, minibatches

X = torch.randn(100, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(100) % 3


def model():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def of(net, targets=Y, loss=F.cross_entropy, **options):
    return minibatches(net, X, targets, loss, count=100, **options)


def test_a_mean_over_samples_is_split():
    data = of(model())
    assert data.split
    assert (data.steps, data.size, data.rows) == (STEPS, 12, 64)
    each = data.each()
    batches = [next(each) for _ in range(9)]
    assert all(len(x) == len(y) == 12 for x, y in batches)
    assert all(
        torch.equal(Y[(row == X).all(1)], y[None])
        for x, y in batches
        for row, y in zip(x, y)  # noqa: B905
    )
    seen = torch.cat([x for x, _ in batches[:8]])
    assert len(seen.unique(dim=0)) == 96  # no sample twice before all were there


def test_the_order_is_the_same_every_time():
    first, second = (next(of(model()).each()) for _ in range(2))
    assert torch.equal(first[0], second[0])


class Fixed(nn.Module):
    """Made for a hundred samples and no other number."""

    def __init__(self):
        super().__init__()
        self.inner, self.state = model(), nn.Parameter(torch.zeros(100, 3))

    def forward(self, x):
        return self.inner(x) + self.state


class Mixing(nn.Module):
    """One output for all samples together."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x):
        return self.inner(x).mean(0, keepdim=True)


def contrastive(out, y):
    return F.cross_entropy(out @ out.T, torch.arange(len(out)))


def added(out, y):
    return F.cross_entropy(out, y, reduction="sum")


@pytest.mark.parametrize(
    ("net", "options"),
    [
        (Fixed(), {}),
        (Mixing(), {"targets": torch.zeros(100, 3), "loss": lambda o, y: (o - y).square().mean()}),
        (model(), {"loss": contrastive}),
        (model(), {"loss": added}),
        (model(), {"loss": lambda o, y: (torch.ones(100) * o[:, 0]).mean()}),
        (model(), {"targets": torch.zeros(99, 3)}),
        (model(), {"targets": None, "loss": lambda o, y: o.mean()}),
        (model(), {"batch_dim": 1}),
    ],
)
def test_what_belongs_together_is_not_split(net, options):
    data = of(net, **options)
    assert not data.split
    assert (data.steps, data.size) == (1, 100)
    assert next(data.each())[0] is X


def test_the_model_is_left_as_it_is():
    net = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)).eval()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    state = torch.random.get_rng_state()
    of(net)
    assert not net.training
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())


def test_an_output_of_a_step_stands_for_all():
    data = of(model())
    whole = data.whole(torch.arange(12.0)[:, None])
    assert whole.shape == (100, 1)
    assert whole[:14, 0].tolist() == [*range(12), 0, 1]


@pytest.mark.parametrize(
    ("count", "size", "steps"),
    [(256, 32, 8), (128, 16, 8), (64, 8, 8), (40, 8, 5), (16, 8, 2), (15, 15, 1), (3, 3, 1)],
)
def test_a_round_is_no_dearer_than_a_pass(count, size, steps):
    data = minibatches(model(), X.repeat(3, 1)[:count], Y.repeat(3)[:count], F.cross_entropy,
                       count=count)  # fmt: skip
    assert (data.size, data.steps, data.split) == (size, steps, count >= 16)
    assert size * steps <= count
