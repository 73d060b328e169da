import copy
import math

import pytest
import torch
from scipy import stats
from torch import nn

from sigmascope import survey
from sigmascope.models.jacobian import Sweep
from sigmascope.survey.views.features import _least_ranks
from tests.models_zoo import Net


def test_sampled_outputs_have_an_interval_that_covers_the_whole():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 200)), torch.randn(6, 5)
    whole = survey.profile(model, x, views=["features"], outputs=200)
    exact = {r.site: r.estimate for r in whole.readings if r.quantity == "NTK trace"}
    misses = 0
    for seed in range(40):
        g = torch.Generator().manual_seed(seed)
        part = survey.profile(model, x, views=["features"], outputs=12, generator=g)
        for r in part.readings:
            if r.quantity == "NTK trace":
                assert r.estimate.risk > 0
                misses += not r.estimate.low <= exact[r.site].value <= r.estimate.high
    assert misses <= 4  # 80 intervals at risk 0.01
    assert any("16 of" in s.why or "12 of" in s.why for s in part.skipped)


def test_in_single_precision_the_interval_holds_what_double_precision_says():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(5, 30), nn.Tanh(), nn.Linear(30, 4)), torch.randn(9, 5)
    single, double = (
        survey.profile(m, x.to(m[0].weight.dtype), views=["features"])
        for m in (model, copy.deepcopy(model).double())
    )
    exact = {(r.site, r.quantity): r.estimate.value for r in double.readings}
    for r in single.readings:
        if r.quantity in ("NTK trace", "adjoint norm"):
            assert r.estimate.low <= exact[r.site, r.quantity] <= r.estimate.high
            assert r.estimate.high - r.estimate.low < 1e-4 * r.estimate.value


def test_mixtures_cover_the_share_of_fused_layers():
    """The recurrent layer's share, against one backward pass per sample and output."""
    torch.manual_seed(0)

    model, x = (
        Net(
            lambda m, x: m.head(m.rnn(x)[1][0][-1]),
            rnn=nn.LSTM(3, 4, batch_first=True),
            head=nn.Linear(4, 6),
        ).double(),
        torch.randn(5, 7, 3).double(),
    )
    total = 0.0
    for i in range(5):
        for k in range(6):
            grads = torch.autograd.grad(model(x[i : i + 1])[0, k], list(model.rnn.parameters()))
            total += sum(float(g.square().sum()) for g in grads) / 5
    misses = 0
    for seed in range(20):
        g = torch.Generator().manual_seed(seed)
        measured = survey.profile(model, x, views=["features"], generator=g)
        found = next(r.estimate for r in measured.series("NTK trace") if r.site == "rnn")
        misses += not found.low <= total <= found.high
    assert misses <= 1  # 20 intervals at risk 0.01: more with a chance of 2 %
    assert "normal mixtures" in found.how


def test_tied_uses_lie_between_opposed_and_aligned_gradients():
    torch.manual_seed(0)
    layer = nn.Linear(5, 5)
    model, x = (
        nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(5, 2)).double(),
        torch.randn(4, 5).double(),
    )
    total = 0.0
    for i in range(4):
        for k in range(2):
            grads = torch.autograd.grad(model(x[i : i + 1])[0, k], list(layer.parameters()))
            total += sum(float(g.square().sum()) for g in grads) / 4
    measured = survey.profile(model, x, views=["features"])
    found = next(r.estimate for r in measured.series("NTK trace") if r.site == "0")
    assert found.low <= total <= found.high
    assert "2 uses" in found.how
    assert "use" not in next(r.estimate.how for r in measured.series("NTK trace") if r.site == "4")


@pytest.mark.parametrize("twice", ["", "one.bias", "two.bias"])
def test_modules_that_share_a_weight_are_one_whatever_else_is_strange_of_them(twice):
    """The parameters of both are in the share, also where one is used outside of its layer."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(5, 5), nn.Linear(5, 5)
            self.two.weight = self.one.weight

        def forward(self, x):
            y = self.two(self.one(x).tanh())
            return y * (1 + self.get_parameter(twice)) if twice else y

    torch.manual_seed(0)
    model, x = Tied().double(), torch.randn(4, 5).double()
    total = 0.0
    for i in range(4):
        for k in range(5):
            grads = torch.autograd.grad(model(x[i : i + 1])[0, k], list(model.parameters()))
            total += sum(float(g.square().sum()) for g in grads) / 4
    misses, seeds = 0, 10 if twice else 1
    sketched = []
    for seed in range(seeds):
        g = torch.Generator().manual_seed(seed)
        measured = survey.profile(model, x, views=["features"], generator=g)
        (found,) = measured.series("NTK trace")
        misses += not found.estimate.low <= total <= found.estimate.high
        sketched.append(found.estimate.value)
    assert found.site == "one"
    assert misses <= 1
    if twice:  # and not by the width of its interval
        assert sum(sketched) / seeds == pytest.approx(total, rel=0.15)


BARE = [
    nn.BatchNorm1d(16, affine=False),
    nn.BatchNorm1d(16, affine=False, track_running_stats=False),
    nn.LayerNorm(16, elementwise_affine=False),
    nn.LayerNorm(16, bias=False),
    nn.GroupNorm(4, 16, affine=False),
    nn.RMSNorm(16, elementwise_affine=False),
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm", BARE, ids=str)
def test_normalisers_without_weights_have_no_share_and_lose_no_view(norm, training):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 3)).train(training)
    found = survey.profile(net, torch.randn(12, 8), views=["features"])
    assert found.readings
    assert not [s for s in found.skipped if "failed" in s.why]


@pytest.mark.parametrize("passes", [4, 12, 40])
def test_the_rank_from_mixtures_of_outputs_has_an_interval_that_holds_it(passes):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 200)), torch.randn(6, 5)
    g = torch.Generator().manual_seed(1)
    part = survey.profile(model, x, views=["features"], outputs=passes, generator=g)
    assert not [s for s in part.skipped if "failed" in s.why]
    ranks = {r.site: r.estimate for r in part.series("adjoint rank")}
    assert {r.site for r in part.series("NTK trace")} == {"0", "2"}
    for site, rank in (("0", 7), ("2", 200)):
        assert ranks[site].low <= rank <= ranks[site].high
        assert ranks[site].low <= passes
    assert ranks["0"].low == min(passes, 7)  # all of the rank that so many passes can show
    assert ranks["0"].high == 7  # its width, whatever was sampled
    assert ranks["0"].risk > 0


def test_volume_is_that_of_the_samples_whose_derivative_is_not_zero():
    model = nn.Sequential(nn.Linear(1, 3, bias=False), nn.ReLU(), nn.Linear(3, 3, bias=False))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[2].weight.copy_(torch.diag(torch.tensor([1.0, 2.0, 4.0])))
    x = torch.tensor([[1.0], [-1.0], [2.0], [3.0]])
    found = survey.profile(model, x, views=["features"])
    at = {(r.site, r.quantity): r.estimate for r in found.readings}
    volume = at["0", "adjoint log pseudo-determinant"]
    assert volume.value == pytest.approx(math.log(8), rel=1e-6)
    assert volume.how == "mean over 3 samples that are not zero"
    assert at["0", "adjoint rank"].value == pytest.approx(3 * 3 / 4)
    assert at["2", "adjoint log pseudo-determinant"].how == "mean over 4 samples"
    assert at["0", "adjoint norm"].value == pytest.approx(math.sqrt(21 * 3 / 4))


@pytest.mark.parametrize(("part", "rank"), [(1 - 1e-6, 1), (1 + 1e-6, 2)])
@pytest.mark.parametrize("passes", [1, 4, 60])
def test_a_value_of_a_mixture_counts_where_it_is_more_than_mixing_makes_of_none(passes, part, rank):
    """`‖G‖ <= norm` and `σ₁(J) <= high / root`, each but for a chance of 1 in 200."""
    total = 300
    norm = 1 + math.sqrt(passes / total) + math.sqrt(2 * math.log(200) / total)
    root = math.sqrt(stats.chi2.ppf(1 / 200, passes) / total)
    high, least = 3.0, total * 1e-7  # of the largest, below which a value counts as zero
    low = torch.tensor([[2.0, part * least * norm * high / root]], dtype=torch.float64)
    ends = low, low, torch.tensor([[high, high]], dtype=torch.float64)
    swept = Sweep({}, tuple(range(passes)), total, {}, {}, mixed=True)
    (found, _, most), risk = _least_ranks(ends, torch.tensor([2]), 50, swept)
    assert (found.tolist(), most.tolist(), risk) == ([rank], [50], 0.01)
