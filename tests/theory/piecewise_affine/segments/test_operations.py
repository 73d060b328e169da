"""Every answer about a piecewise-affine network against the network, or a refusal by name."""

from itertools import pairwise

import pytest
import torch
from affine_zoo import PIECEWISE, REFUSED, UNKNOWN, D, Pooled, through
from hypothesis import given, settings, strategies as st
from torch import nn

from sigmascope import networks
from sigmascope.gate import Refusal
from sigmascope.theory.piecewise_affine import (
    local_affine,
    partition,
    region_distance,
    regions_along,
)
from sigmascope.theory.piecewise_affine.regions import Polygon

EVERYTHING = {**PIECEWISE, **UNKNOWN, **{name: f for name, (f, _) in REFUSED.items()}}
SAME = 1e-9  # of numbers of order one


def asked(question, *args):
    try:
        return question(*args)
    except Refusal:
        return None


def evaluated(model, points):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.cat([model(p).detach() for p in points])


def is_affine(model, a, b):
    """By values alone, at points between two that are in one region."""
    t = torch.tensor([0.0, 0.27, 0.5, 0.81, 1.0], dtype=D)
    f = evaluated(model, [a + s * (b - a) for s in t])
    return torch.allclose(f, f[0] + t[:, None] * (f[-1] - f[0]), rtol=0, atol=SAME)


def require_map(model, x, found):
    eye = torch.eye(x.numel(), dtype=D)[:, None]
    ahead = evaluated(model, [x + 1e-7 * e for e in eye])
    behind = evaluated(model, [x - 1e-7 * e for e in eye])
    differences = ((ahead - behind) / 2e-7).mT
    assert torch.allclose(found.matrix.dense(), differences, rtol=0, atol=1e-5)
    here = found.matrix.dense() @ x[0] + found.offset
    assert torch.allclose(here, evaluated(model, [x])[0], rtol=0, atol=SAME)


def require_distance(model, x, found):
    g = torch.Generator().manual_seed(0)
    for _ in range(12):
        d = torch.randn(x.shape, generator=g, dtype=D)
        step = 0.999 * min(found, 30.0) * d / d.norm()
        assert is_affine(model, x - step, x + step)


def require_crossings(model, x, y, found):
    assert found.count == len(found.at) + 1
    ends = [0.0, *found.at, 1.0]
    for low, high in pairwise(ends):
        if high - low > 1e-6:
            edge = 1e-3 * (high - low)
            assert is_affine(model, x + (low + edge) * (y - x), x + (high - edge) * (y - x))


def require_polygons(model, axes, found):
    areas = [Polygon(p.numpy(), p.numpy()).area for p in found.polygons]
    assert sum(areas) == pytest.approx(4.0, rel=1e-9)
    centre, across, along = axes
    at = lambda p: centre + p[0] * across + p[1] * along
    for i in sorted(range(len(areas)), key=lambda i: -areas[i])[:20]:
        middle = found.polygons[i].mean(0)
        near = middle + 0.999 * (found.polygons[i] - middle)
        for a, b in zip(near, near.roll(1, 0), strict=True):
            assert is_affine(model, at(a), at(b))
        assert is_affine(model, at(near[0]), at(middle))


def require_truth(names, seed):
    """Compare all answers with brute force; how many there were."""
    model, x, y = through(*(EVERYTHING[name] for name in names), seed=seed)
    axes = x, 2 * torch.eye(4, dtype=D)[:1], 2 * torch.eye(4, dtype=D)[1:2]
    answers = (
        (asked(local_affine, model, x), lambda a: require_map(model, x, a)),
        (asked(region_distance, model, x), lambda a: require_distance(model, x, a)),
        (asked(regions_along, model, x, y), lambda a: require_crossings(model, x, y, a)),
        (asked(partition, model, *axes), lambda a: require_polygons(model, axes, a)),
    )
    for answer, confirm in answers:
        if answer is not None:
            confirm(answer)
    return sum(answer is not None for answer, _ in answers)


@pytest.mark.parametrize("name", PIECEWISE)
def test_the_pieces_of_every_spelling_are_those_of_the_network(name):
    assert require_truth([name], seed=1) >= 3
    model, x, y = through(PIECEWISE[name])
    assert regions_along(model, x, y).count > 1 or name == "branch"


@given(st.lists(st.sampled_from(sorted(EVERYTHING)), min_size=1, max_size=3), st.integers(0, 99))
@settings(max_examples=15)
def test_no_composition_gets_a_wrong_number(names, seed):
    require_truth(names, seed)


@given(st.lists(st.sampled_from(sorted(EVERYTHING)), min_size=1, max_size=3), st.integers(0, 99))
@settings(max_examples=400)
@pytest.mark.slow
def test_no_composition_gets_a_wrong_number_at_length(names, seed):
    require_truth(names, seed)


@given(st.lists(st.sampled_from(sorted(PIECEWISE)), min_size=2, max_size=3), st.integers(0, 99))
@settings(max_examples=200)
@pytest.mark.slow
def test_pieces_of_pieces_are_those_of_the_network(names, seed):
    require_truth(names, seed)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_to_be_affine_is_refused_by_name(name):
    f, says = REFUSED[name]
    model, x, y = through(f, seed=1)
    for question in (local_affine, region_distance):
        with pytest.raises(Refusal, match=says):
            question(model, x)
    with pytest.raises(Refusal, match=says):
        regions_along(model, x, y)


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_boundaries_are_not_known_there_is_still_a_map(name):
    model, x, y = through(UNKNOWN[name], seed=1)
    require_map(model, x, local_affine(model, x))
    with pytest.raises(Refusal, match=r"boundaries of the regions must be known, got .*exchange"):
        region_distance(model, x)
    with pytest.raises(Refusal, match="boundaries of the regions must be known"):
        regions_along(model, x, y)


@pytest.mark.parametrize(("size", "ceil"), [(2, False), (2, True), (3, False)])
def test_windows_of_dead_units_have_no_winner_by_chance(size, ceil):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Pooled(size, side=7, ceil=ceil).double()
        axes = [torch.randn(1, 1, 7, 7, dtype=D) for _ in range(3)]
    require_polygons(model, axes, partition(model, *axes))


def test_a_recurrent_layer_has_the_kinks_of_its_units():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.RNN(3, 5, nonlinearity="relu", batch_first=True)

        def forward(self, x):
            return self.layer(x)[0][:, -1]

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Last().double()
        x, y = torch.randn(2, 1, 4, 3, dtype=D)
    require_distance(model, x, region_distance(model, x))
    require_crossings(model, x, y, regions_along(model, x, y))


def test_the_zoo_of_the_house_keeps_its_answers():
    model = networks.mlp(inputs=5, outputs=3, depth=3, width=7)
    x = torch.randn(1, 5)
    assert region_distance(model, x) > 0
    assert local_affine(model, x).matrix.shape == (3, 5)
