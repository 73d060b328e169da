"""Ranks that are tried on a network, and the threshold that is shared by its layers."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from sigmascope.diagnosis.compression import (
    TruncationTrial,
    directions_of,
    factored,
    largest,
    replaceable,
)
from sigmascope.gate import Refusal
from sigmascope.probes import Subject


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def trial(*widths, bias=True):
    """A linear network, tried on the samples that its directions are from."""
    model = nn.Sequential(*(nn.Linear(a, b, bias=bias) for a, b in pairwise(widths))).double()
    with torch.no_grad():
        for i, layer in enumerate(model):
            layer.weight.copy_(drawn(*layer.weight.shape, seed=i))
    subject = Subject(model, drawn(40, widths[0]))
    return TruncationTrial(model, directions_of(subject), subject)


@pytest.mark.parametrize("goal", [1e-7, 3e-4, 0.02, 0.7])
def test_the_threshold_is_found_to_a_hundredth_and_never_beyond(goal):
    asked = []
    found = largest(lambda t: asked.append(t) or t, goal)
    assert 0.99 * goal <= found <= goal
    assert len(asked) == 14


def test_the_threshold_ends_where_all_or_nothing_is_kept():
    assert largest(lambda t: 0.0, 0.1) == 1.0
    assert largest(lambda t: 1.0, 0.1) == 0.0
    assert largest(lambda t: t, 1.0) == 1.0


def test_a_last_layer_changes_the_output_by_what_it_loses():
    """On the samples of its directions the loss is exact."""
    tried = trial(6, 9)
    (layer,) = tried.layers
    for rank in (1, 2, 4):
        found = tried.truncation(layer, rank)
        # of all columns together: the spread of the output is that of the layer
        assert found.change.value == pytest.approx(found.error.value, rel=1e-9)
        assert found.elsewhere.value == pytest.approx(found.error.value, rel=1e-9)
        assert (found.site, found.rank, found.full) == ("0", rank, 6)
        assert found.parameters == (6 * 9 + 9, rank * 15 + 9)
    assert tried.distance(tried.before) == 0
    assert tried.distance(tried.before + tried.spread) == pytest.approx(1)


def test_ranks_are_of_layers_that_get_smaller_by_them():
    """A square layer of 8 is smaller as two of rank 3 (48 weights), and not of rank 4 (64)."""
    tried = trial(8, 8, bias=False)
    (layer,) = tried.layers
    for rank, smaller in ((3, True), (4, False)):
        threshold = layer.error(rank) * (1 + 1e-9)
        assert layer.rank_for(threshold) == rank
        assert tried.ranks(threshold) == ({"0": rank} if smaller else {})
    assert tried.ranks(1.0) == {"0": 1}


def test_an_output_that_does_not_vary_is_refused():
    model = nn.Linear(3, 2).double()
    subject = Subject(model, torch.ones(5, 3).double())
    with pytest.raises(Refusal, match="must vary between samples, got one value"):
        _ = TruncationTrial(model, (), subject).spread


class Peeking(nn.Module):
    """Looks inside a layer that it does not call."""

    def __init__(self):
        super().__init__()
        self.called, self.looked = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.called(x) @ self.looked.weight + self.looked(x)


def test_a_layer_that_the_model_looks_inside_is_not_replaced():
    model, x = Peeking().double(), drawn(9, 4)
    layers = {layer.site: layer for layer in directions_of(Subject(model, x))}
    assert replaceable(model, layers["called"], x)
    assert not replaceable(model, layers["looked"], x)
    with pytest.raises(AttributeError):
        factored(model, [layers["looked"]], {"looked": 1})(x)
