"""Small parts of probes, each where one step more or less would show."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.probes import as_matrix
from sigmascope.probes.execution.hooks import _last_state
from sigmascope.probes.execution.layers import channel_dim
from sigmascope.probes.execution.refusals import require_finite_batch
from sigmascope.probes.piecewise_affine.polygons import Polygon
from sigmascope.probes.samples.matrices import spectra_of


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize(
    ("first", "both", "batched"), list(itertools.product([True, False], repeat=3))
)
def test_the_last_state_is_read_off_the_sequence(kind, first, both, batched):
    """Whichever axis is time, and from both ends where it is read both ways."""
    net = kind(3, 4, num_layers=2, batch_first=first, bidirectional=both)
    g = torch.Generator().manual_seed(0)
    sequence, state = net(torch.randn(*((5, 7, 3) if batched else (7, 3)), generator=g))
    found = _last_state(net, 2 * sequence, state)
    h, last = (s[0] if isinstance(s, tuple) else s for s in (state, found))
    ends = 2 if both else 1
    assert torch.equal(last[:-ends], h[:-ends])
    assert torch.allclose(last[-ends:], 2 * h[-ends:])


def test_a_function_that_is_largest_on_an_edge_only_wins_no_part():
    """`x` and `-x` on the triangle `x ≥ 0`: they tie on one edge."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    triangle = Polygon(corners, np.column_stack([corners[:, 0], -corners[:, 0]]))
    (part,) = triangle.won_by(np.array([0, 1]))
    assert part.area == pytest.approx(0.5)
    # x and 1/2 - x share it along x = 1/4: (3/4)² / 2 is left to the right
    values = np.column_stack([corners[:, 0], 0.5 - corners[:, 0]])
    areas = [p.area for p in Polygon(corners, values).won_by(np.array([0, 1]))]
    assert areas == pytest.approx([9 / 32, 7 / 32])


def test_squares_of_a_representation_neither_overflow_nor_vanish():
    wide = torch.tensor([[1e150, 1e-150]], dtype=torch.float64)
    assert spectra_of(wide).mean_square == pytest.approx(5e299)
    assert spectra_of(torch.tensor([[3.0, 4.0]])).mean_square == pytest.approx(12.5)
    assert spectra_of(torch.zeros(2, 2)).mean_square == 0


def test_the_centred_spectrum_is_that_of_rows_less_their_mean():
    rows = torch.tensor([[1.0, 5.0], [3.0, 5.0]]).double()
    found = spectra_of(rows)
    assert found.centred.sigma.tolist() == pytest.approx([2**0.5, 0], abs=1e-7)
    assert found.raw.sigma.square().sum().item() == pytest.approx(60)
    assert found.precision == 2.0**-52


def test_weights_as_maps_of_one_patch(as_users_see_it):
    assert as_matrix(torch.ones(3)).shape == (1, 3)
    assert as_matrix(torch.ones(3, 2)).shape == (3, 2)
    assert as_matrix(torch.ones(3, 2, 5, 5)).shape == (3, 50)


@pytest.mark.parametrize(
    ("module", "shape", "dim"),
    [
        (nn.Conv2d(3, 4, 1), (2, 3, 5, 5), 1),
        (nn.BatchNorm1d(3), (2, 3), 1),
        (nn.BatchNorm1d(3), (2, 3, 7), 1),
        (nn.GroupNorm(1, 3), (2, 3, 7), 1),
        (nn.Linear(3, 4), (2, 7, 3), 2),
        (nn.LayerNorm(3), (2, 7, 3), 2),
    ],
)
def test_where_channels_stand(module, shape, dim):
    assert channel_dim(module, torch.ones(shape)) == dim


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_one_value_that_is_not_finite_is_enough_to_refuse_a_batch(bad):
    x = torch.ones(3, 4)
    x[1, 2] = bad
    with pytest.raises(
        Refusal, match=r"`batch` must be finite, got a value that is not at \(1, 2\)"
    ):
        require_finite_batch(iter([torch.ones(2), x]))
    require_finite_batch(iter([torch.ones(2, 3)]))
