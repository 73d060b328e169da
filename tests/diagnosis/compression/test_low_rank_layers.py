"""Layers along the principal directions of what they write, as two thinner ones."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope.diagnosis.compression import (
    Directions,
    directions_of,
    factored,
    loss_on,
    truncated,
)
from sigmascope.probes import Subject
from tests.diagnosis.compression.images import images


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_loss_of_every_layer_is_what_is_measured_at_every_rank(trained):
    cases = [
        (trained[0].double(), trained[1][:300].double()),
        (images(), drawn(40, 2, 8, 8)),
    ]
    for model, x in cases:
        subject = Subject(model, x)
        for layer in directions_of(subject):
            call = next(c for c in subject.calls if c.site == layer.site)
            for rank in (1, 3, len(layer.energies)):
                thin = truncated(model, [layer], {layer.site: rank}).get_submodule(layer.site)
                lost = (thin(call.input) - call.output).detach()
                around = call.output.detach()
                if layer.module.bias is not None:
                    dims = [0] if lost.ndim == 2 else [0, 2, 3]
                    around = around - around.mean(dims, keepdim=True)
                measured = float(lost.square().sum().sqrt() / around.square().sum().sqrt())
                assert measured == pytest.approx(layer.error(rank), rel=1e-6, abs=1e-7)


def test_no_other_map_of_that_rank_loses_less():
    model, x = images(), drawn(40, 2, 8, 8)
    layer = directions_of(Subject(model, x))[0]
    rows = model[0](x).movedim(1, -1).reshape(-1, 12).detach()
    rest = rows - rows.mean(0)
    g = torch.Generator().manual_seed(0)
    for _ in range(50):
        Q = torch.linalg.qr(torch.randn(12, 3, generator=g, dtype=torch.float64))[0]
        lost = float((rest - rest @ Q @ Q.mT).norm() / rest.norm())
        assert lost >= layer.error(3) - 1e-12


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Odd(nn.Module):
    """Layers of which one alone can be taken apart."""

    def __init__(self):
        super().__init__()
        self.plain, self.twice, self.other = (nn.Linear(6, 6) for _ in range(3))
        self.tied, self.doubled = nn.Linear(6, 6), Doubled(6, 6)
        self.tied.weight = self.other.weight
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))
        self.grouped = nn.Conv1d(2, 2, 3, padding=1, groups=2)

    def forward(self, x):
        for part in (self.twice, self.plain, self.twice, self.other, self.tied, self.normed):
            x = part(x)
        return self.grouped(self.doubled(x).unflatten(1, (2, 3))).flatten(1)


def test_only_plain_layers_that_are_called_once_are_taken_apart():
    found = directions_of(Subject(Odd().double(), drawn(9, 6)))
    assert [layer.site for layer in found] == ["plain"]


def test_a_layer_whose_rows_are_not_finite_or_are_one_is_left():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)).double()
    assert len(directions_of(Subject(model, drawn(5, 3)))) == 2
    assert directions_of(Subject(model, drawn(1, 3))) == ()


def test_of_two_rows_a_layer_writes_along_one_direction():
    (one,) = directions_of(Subject(nn.Linear(3, 4), drawn(2, 3)))
    assert one.error(1) == pytest.approx(0, abs=1e-9)


def test_ranks_and_sizes_by_hand():
    """Energies 16, 9 and 0 of 25: one direction loses 3/5, two lose nothing."""
    layer = Directions(
        "a",
        nn.Linear(8, 3),
        torch.zeros(3).double(),
        torch.eye(3).double(),
        torch.tensor([16.0, 9.0, 0.0]).double(),
    )
    assert [layer.error(rank) for rank in (0, 1, 2, 3)] == pytest.approx([1, 0.6, 0, 0])
    assert [layer.rank_for(t) for t in (1.0, 0.6 + 1e-9, 0.6 - 1e-9, 0.0)] == [1, 1, 2, 2]
    assert layer.own == 8 * 3 + 3
    assert [layer.parameters(rank) for rank in (1, 2)] == [8 + 3 + 3, 2 * (8 + 3) + 3]
    silent = replace(layer, energies=torch.zeros(3).double())
    assert (silent.error(1), silent.rank_for(0.0)) == (0.0, 1)


@pytest.mark.parametrize("rank", [1, 3])
def test_two_thinner_layers_are_the_truncated_one(rank):
    model, x = images(), drawn(20, 2, 8, 8)
    layers = directions_of(Subject(model, x))
    ranks = {layer.site: rank for layer in layers}
    one, two = truncated(model, layers, ranks), factored(model, layers, ranks)
    assert torch.allclose(one(x), two(x), rtol=1e-10, atol=1e-12)
    for layer in layers:
        pair = two.get_submodule(layer.site)
        assert sum(p.numel() for p in pair.parameters()) == layer.parameters(rank)
        assert torch.linalg.matrix_rank(one.get_submodule(layer.site).weight.flatten(1)) == rank
    assert torch.equal(model(x), images()(x))  # which is left as it is


def test_the_mean_of_what_a_layer_with_a_bias_writes_is_kept():
    model, x = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 2)).double(), drawn(30, 5) + 3
    (layer, _) = directions_of(Subject(model, x))
    thin = truncated(model, [layer], {layer.site: 1})
    assert torch.allclose(thin[0](x).mean(0), model[0](x).mean(0), rtol=1e-12)


def test_losses_elsewhere_are_those_of_the_truncated_layer():
    model, x, y = nn.Sequential(nn.Linear(5, 4)).double(), drawn(30, 5), drawn(20, 5, seed=1)
    (layer,) = directions_of(Subject(model, x))
    call = Subject(model, y).calls[0]
    written = model(y).detach()
    lost = truncated(model, [layer], {"0": 2})(y).detach() - written
    expected = float(lost.norm() / (written - model(x).detach().mean(0)).norm())
    assert loss_on(layer, 2, call) == pytest.approx(expected, rel=1e-12)
    assert loss_on(layer, 4, call) == pytest.approx(0, abs=1e-12)
