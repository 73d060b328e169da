"""Rates by layer are stable where one rate for all is not, and faster than the one that is."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import report, sources
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis import layer_rates
from sigmascope.diagnosis.layer_rates import _part
from sigmascope.linalg.krylov.operators import Operator
from sigmascope.models import networks
from tests.models_zoo import Net


def task(scale=1.0):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(80, 6, generator=g, dtype=torch.float64)
    model = networks.mlp(inputs=6, outputs=2, depth=2, width=8, generator=g).double()
    model.hidden[0].linear.weight.data.mul_(scale)
    return model, x, (x @ torch.randn(6, 2, generator=g, dtype=torch.float64)).tanh()


def losses(groups, model, x, y, steps=60):
    by, seen = torch.optim.SGD(groups, lr=1.0), []
    for _ in range(steps):
        by.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        by.step()
        seen.append(loss.item())
    return seen


def test_rates_are_the_same_whatever_the_process_drew_before_and_take_a_generator():
    model, x, y = task()

    def rates(drawn, **named):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(drawn)
            return [g["lr"] for g in layer_rates(model, x, targets=y, loss=F.mse_loss, **named)]

    assert rates(0) == rates(1)
    other = rates(0, generator=torch.Generator().manual_seed(5))
    assert other != rates(0)
    assert other == pytest.approx(rates(0), rel=0.3)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_loss_falls_at_first_at_every_step_of_half_the_share(scale):
    model, x, y = task(scale)
    groups = layer_rates(model, x, targets=y, loss=F.mse_loss)
    assert [g["name"] for g in groups] == ["hidden.0.linear", "hidden.1.linear", "readout"]
    seen = losses(groups, model, x, y)
    assert max(seen) == seen[0]
    assert seen[-1] < 0.3 * seen[0]
    model, x, y = task(scale)
    seen = losses(layer_rates(model, x, targets=y, loss=F.mse_loss, share=0.5), model, x, y, 5)
    assert seen == sorted(seen, reverse=True)


def test_uneven_layers_learn_faster_than_at_one_safe_rate():
    """Large first weights make the later layers bend far more than the first."""
    end = []
    for one in (False, True):
        model, x, y = task(10.0)
        groups = layer_rates(model, x, targets=y, loss=F.mse_loss)
        least = min(g["lr"] for g in groups)
        groups = [{**g, "lr": least} for g in groups] if one else groups
        end.append(losses(groups, model, x, y)[-1])
    assert end[0] < 0.8 * end[1]


class Sum(nn.Module):
    """Linear in all of its weights at once, so that its squared error is a quadratic."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(6, 2) for _ in range(5))
        self.shift = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        each = zip(self.parts, SCALES, TURNS, strict=True)
        return sum(scale * part(x * turn) for part, scale, turn in each) + self.shift


SCALES = (1.0, 30.0, 0.1, 1.0, 3.0)
TURNS = (1.0, torch.tensor([1.0, -1, 1, 1, -1, 1]), 1.0, torch.eye(6)[0], 1 - torch.eye(6)[0])


@pytest.mark.parametrize(("share", "falls"), [(1.0, True), (1.95, True), (2.05, False)])
def test_the_rates_are_as_large_as_is_stable_and_no_smaller(share, falls):
    """On a quadratic: at twice the named share it is on the edge, whatever the layers share."""
    g = torch.Generator().manual_seed(0)
    model, x = Sum().double(), torch.randn(50, 6, generator=g, dtype=torch.float64)
    y = torch.randn(50, 2, generator=g, dtype=torch.float64)
    seen = losses(layer_rates(model, x, targets=y, loss=F.mse_loss, share=share), model, x, y, 400)
    assert (seen[-1] < seen[0]) == falls


def test_every_weight_has_the_rate_of_its_own_module():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(40, 6, generator=g)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    model.register_parameter("unused", nn.Parameter(torch.ones(3)))
    model[3].bias.requires_grad_(False)
    groups = layer_rates(model, x)
    assert [g["name"] for g in groups] == ["0", "1", "3", "(rest)"]
    assert groups[-1]["lr"] == min(g["lr"] for g in groups)
    assert [id(p) for p in groups[-1]["params"]] == [id(model.unused)]
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters())) - 1


def test_samples_are_first_unless_they_are_said_to_be_second():
    model, x, _ = task()
    second = Net(lambda self, x: self.net(x.mT).mT, net=model)
    plain = layer_rates(model, x)
    turned = layer_rates(second, x.mT.contiguous(), batch_dim=1)
    assert [g["lr"] for g in turned] == pytest.approx([g["lr"] for g in plain], rel=1e-9)


class Rows(nn.Module):
    """A transformer that reads an image row by row."""

    def __init__(self, width=16):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(8, width)
        self.place = nn.Parameter(0.1 * torch.randn(8, width))
        block = nn.TransformerEncoderLayer(
            width, 2, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        return self.head(self.blocks(self.embed(images[:, 0]) + self.place).mean(1))


def resnet():
    g = torch.Generator().manual_seed(0)
    return networks.resnet(inputs=(1, 8, 8), outputs=10, depth=8, width=8, generator=g)


def flat():
    g = torch.Generator().manual_seed(0)
    mlp = networks.mlp(inputs=64, outputs=10, depth=6, width=48, norm="layer", generator=g)
    return nn.Sequential(nn.Flatten(), mlp)


def trained(model, groups, x, y, steps=150):
    """The loss on minibatches, averaged over the last steps; that of a guess where it is lost."""
    by, seen = torch.optim.SGD(groups, lr=1.0), []
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        rows = torch.randint(len(x), (32,), generator=g)
        by.zero_grad()
        loss = F.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        by.step()
        seen.append(loss.item())
    end = sum(seen[-20:]) / 20
    return end if end < GUESS else GUESS


GUESS = math.log(10)


@pytest.mark.parametrize("make", [resnet, Rows, flat])
@pytest.mark.slow
def test_networks_with_skips_attention_and_normalisers_come_far_at_these_rates(make):
    """Two thirds of the way of the best of four rates for all, which had to be searched."""
    digits = sources.open_data("digits", samples=512)
    x, y = 2 * digits.inputs.float() - 1, digits.targets
    task = {"targets": y[:128], "loss": F.cross_entropy}
    model = make()
    ours = trained(model, layer_rates(model, x[:128], **task), x, y)
    ends = []
    for rate in (0.01, 0.03, 0.1, 0.3):
        model = make()
        ends.append(trained(model, [{"params": [*model.parameters()], "lr": rate}], x, y))
    assert (GUESS - ours) > 0.67 * (GUESS - min(ends)), (ours, ends)


def test_a_useless_share_is_refused():
    model, x, y = task()
    with pytest.raises(Refusal, match="`share` above 0"):
        layer_rates(model, x, targets=y, loss=F.mse_loss, share=0.0)


@pytest.mark.parametrize("rows", [[0], [1, 3, 4], [5, 2], [0, 1, 2, 3, 4, 5]])
def test_a_block_of_curvature_is_that_of_its_rows_and_columns(rows):
    A = torch.randn(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = A + A.mT
    block = _part(Operator.of(A), torch.tensor(rows))
    assert block.shape == (len(rows), len(rows))
    assert torch.allclose(block.dense(), A[rows][:, rows])
    X = torch.ones(len(rows), 2, dtype=torch.float64)
    assert torch.allclose(block.adjoint(X), A[rows][:, rows] @ X)


def test_rates_are_a_list_for_an_optimizer_that_is_shown_as_rates():
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(8, 3)
    rates = layer_rates(model, x)
    said = report.text(rates)
    assert repr(rates) == said.rstrip()
    assert "tensor(" not in said
    assert [row["parameters"] for row in report.json_form(rates)["layers"]] == [16, 5]
    assert report.table(rates)["lr"] == [g["lr"] for g in rates]
    for alike in (copy.deepcopy(rates), pickle.loads(pickle.dumps(rates))):
        assert (type(alike), len(alike)) == (type(rates), 2)
    torch.optim.SGD(rates).step()
