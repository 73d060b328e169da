import math

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from sigmascope import survey
from sigmascope.diagnosis import judge
from sigmascope.models import networks
from sigmascope.theory import random_chains
from sigmascope.theory.bottleneck import inner_dimension
from sigmascope.theory.views.bottleneck import counted


def read(model, x):
    found = survey.profile(model, x, views=["bottleneck"])
    return found, {(r.site, r.quantity): r.estimate for r in found.readings}


def cube(n=40):
    return torch.rand(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_network_of_bottleneck_rank_three():
    depth, eps = 12, 0.2
    net = random_chains.lipschitz_counterexample(depth, eps=eps)
    _, found = read(net, cube())
    ranks = [e.value for (_, quantity), e in found.items() if quantity == "weight rank"]
    assert ranks == [3] * depth
    assert found["(network)", "Jacobian rank"].value == 3
    excess = found["(network)", "norm excess"]
    assert excess.value == pytest.approx(random_chains.counterexample_excess(depth, eps), rel=0.2)
    assert excess.low >= 0
    distances = [e.value for (_, q), e in found.items() if q == "isometry distance"]
    assert max(distances) < 1.5


def test_a_projection_has_one_dimension_and_no_excess():
    line = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    net = nn.Sequential(
        nn.Linear(2, 1, bias=False), nn.ReLU(), nn.Linear(1, 2, bias=False)
    ).double()
    with torch.no_grad():
        net[0].weight.copy_(line)
        net[2].weight.copy_(line.T)
    x = torch.rand(20, 1, generator=torch.Generator().manual_seed(0)).double() @ line
    _, found = read(net, x)
    assert found["(network)", "norm excess"].value == pytest.approx(0, abs=1e-9)
    assert found["2", "two-component variance"].value == pytest.approx(1)
    assert found["2", "kernel angle"].value == pytest.approx(0, abs=1e-5)
    assert found["(network)", "balance defect"].value == pytest.approx(0, abs=1e-12)
    assert found["0.weight", "isometry distance"].value == pytest.approx(0, abs=1e-9)


def test_intervals_show_whether_there_is_a_gap():
    gap = counted(torch.tensor([1.0, 0.9, 1e-3]), 0.1, "values")
    none = counted(torch.tensor([1.0, 0.15, 0.09]), 0.1, "values")
    assert (gap.low, gap.value, gap.high) == (2, 2, 2)
    assert (none.low, none.value, none.high) == (1, 2, 3)


def test_other_networks_are_read_as_far_as_can_be():
    net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)).double()
    profile, found = read(net, cube())
    assert ("0.weight", "weight rank") in found
    assert ("(network)", "norm excess") not in found
    skipped = {s.what: s.why for s in profile.skipped}
    assert "something else than one activation" in skipped["norm excess and balance"]
    assert judge(profile) == ()


def test_angles_between_kernels_are_those_of_alignment():
    g = torch.Generator().manual_seed(0)
    net = networks.mlp(inputs=3, outputs=2, depth=2, width=6, generator=g).double()
    profile, found = read(net, cube())
    x = cube() - cube().mean(0)
    h = torch.relu(net.hidden[0].linear(cube())).detach()
    h = h - h.mean(0)
    one, two = x @ x.T, h @ h.T
    cosine = float((one * two).sum() / (one.norm() * two.norm()))
    site = profile.layers[1].site
    assert found[site, "kernel angle"].value == pytest.approx(math.acos(cosine))


def spectra(top, *, rest=1e-3, count=20, width=8, seed=0):
    """Given leading values, noisy from sample to sample, and small others."""
    g = torch.Generator().manual_seed(seed)
    s = torch.full((count, width), rest, dtype=torch.float64)
    s[:, : len(top)] = torch.tensor(top, dtype=torch.float64)
    return (s * torch.empty_like(s).log_normal_(0, 0.2, generator=g)).sort(1, descending=True)[0]


@given(rank=st.integers(1, 6), scale=st.floats(-3, 3), seed=st.integers(0, 1000))
def test_a_gap_is_found_at_any_scale(rank, scale, seed):
    top = [0.7**i for i in range(rank)]
    found = inner_dimension(10**scale * spectra(top, seed=seed))
    assert (found.low, found.value, found.high) == (rank, rank, rank)
    assert found.risk == 0.05


@pytest.mark.parametrize(
    ("top", "options", "mixtures", "low", "high"),
    [
        ([1, 0.9, 0.8], {"width": 3}, None, 3, 3),  # full rank is a rank
        ([1, 0.9, 0.8], {"width": 3}, 3, 3, math.inf),  # as many as mixtures may be more
        ([1, 0.9], {}, 8, 2, 2),
        ([1.0, 0.2], {"rest": 0.03}, None, 1, 2),  # two gaps
    ],
)
def test_how_far_a_gap_decides(top, options, mixtures, low, high):
    found = inner_dimension(spectra(top, **options), mixtures=mixtures)
    assert (found.low, found.high) == (low, high)


def test_no_gap_claims_little():
    s = torch.tensor([[0.8**i for i in range(20)]], dtype=torch.float64).expand(5, 20)
    found = inner_dimension(s)
    assert "no clear gap" in found.how
    assert found.low <= 4
    assert found.high >= 17


def test_samples_with_another_rank_do_not_decide():
    s = spectra([1.0, 0.8], count=21)
    s[:8, 1] = 1e-6
    assert inner_dimension(s).value == 2


@pytest.mark.parametrize("width", [0, 3])
def test_no_dependence_is_dimension_zero(width):
    found = inner_dimension(torch.zeros(4, width, dtype=torch.float64))
    assert (found.low, found.high) == (0, 0)
    assert math.isfinite(found.value)


def test_samples_on_which_the_output_does_not_depend_have_no_rank():
    """On most of them the unit is off."""
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU(), nn.Linear(1, 2, bias=False))
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[2].weight.copy_(torch.tensor([[3.0], [4.0]]))
    x = torch.linspace(-7, 2, 20)[:, None]
    _, found = read(net, x)
    rank = found["(network)", "Jacobian rank"]
    assert (rank.low, rank.value, rank.high) == (1, 1, 1)
    volume = found["(network)", "Jacobian log pseudo-determinant"]
    assert volume.value == pytest.approx(math.log(5))
