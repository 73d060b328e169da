"""The quadratic form of the loss in one layer's weights, by hand."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.models import Subject
from sigmascope.theory.riedi2022 import loss_curvature, neuron_limit
from sigmascope.theory.riedi2022.curvature import CurvatureFactors
from tests.theory.riedi2022.told import gaussian


def test_the_quadratic_form_of_two_samples_by_hand():
    """`M₁ = 2`, `M₂ = 1`, `z₁ = (3, 0)`, `z₂ = (0, 1)`: eigenvalues 36/2 and 1/2."""
    Ms, Z = [torch.tensor([[2.0]]), torch.tensor([[1.0]])], torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    found = loss_curvature(Ms, Z)
    assert found.lam.tolist() == pytest.approx([18, 0.5])
    assert found.condition == pytest.approx(6)
    assert (found.layer_factor, found.data_factor) == pytest.approx((2, 3))
    assert found.limit == pytest.approx(6)
    assert found.printed_block_diagonal is None


@pytest.mark.parametrize("outputs", [3, 5])
def test_the_factors_of_a_network_are_those_that_numpy_finds(outputs):
    """A layer of three units that as many outputs or more see through tanh, on seven samples."""
    torch.default_generator.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, outputs)).double()
    x = 2 * torch.randn(7, 2).double()
    fact = next(f for f in CurvatureFactors.facts(Subject(net, x)) if f.site == "0")
    W, h = net[2].weight.detach().numpy(), net[:2](x).detach().numpy()
    MD = W * (1 - h**2)[:, None]
    Z = np.column_stack((x, np.ones(7)))
    sigma = np.linalg.svd(MD, compute_uv=False)
    data = np.linalg.svd(Z, compute_uv=False)
    root = np.linalg.svd(np.einsum("gkn,gq->gknq", MD, Z).reshape(-1, 9), compute_uv=False)
    layer = sigma.max() / sigma.min()
    for found, wanted in (
        (fact.layer, layer),
        (fact.limit(), layer * data[0] / data[-1]),
        (fact.measured(), root[0] / root[-1]),
    ):
        assert found.low <= wanted <= found.high
        assert found.value == pytest.approx(wanted, rel=1e-6)
    assert (fact.units, fact.known) == (3, 3)


def test_the_limit_of_units_by_hand():
    """Unit 0 is on at samples of singular values 4 and 2, unit 1 at one of 3; `C/c` is 5."""
    Ms = [torch.diag(torch.tensor([5.0, 1.0])), torch.eye(2)]
    Z = torch.tensor([[4.0, 0.0], [0.0, 2.0]])
    on = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    assert neuron_limit(Ms, on, Z) == pytest.approx(5 * 4 / 2)
    # of a unit that is on at the first alone, and one that is never on
    assert neuron_limit(Ms, torch.tensor([[1.0, 0.0], [0.0, 0.0]]), Z) == pytest.approx(5)
    assert neuron_limit(Ms, torch.zeros(2, 2), Z) == math.inf
    small = 0.1 * Z  # below one, and of a scale that falls out
    assert neuron_limit(Ms, on, small) == pytest.approx(10)


@pytest.mark.parametrize("M", [torch.diag(torch.tensor([1.0, 0.0])), torch.ones(1, 2)])
def test_matrices_that_drop_a_direction_bound_nothing(M):
    assert neuron_limit([M], torch.ones(1, 2), torch.ones(1, 2)) == math.inf
    assert loss_curvature([M], torch.ones(1, 2)).layer_factor == math.inf


# rho: quantities of the network of Fig. 8 as in the text, and with the skip around all of it
FIGURE_8 = {
    0.0: ((3.844, 8306, 9.184, 0.039), (3.844, 8306, 9.184, 0.039)),
    0.25: ((3.951, 5364, 8.779, 0.038), (3.890, 439, 6.250, 0.030)),
    0.5: ((4.116, 2908, 8.155, 0.037), (3.965, 221, 5.526, 0.029)),
    0.75: ((4.353, 2068, 7.839, 0.037), (4.054, 140, 5.102, 0.029)),
    1.0: ((4.674, 1690, 7.614, 0.036), (4.168, 102, 4.786, 0.028)),
}


@pytest.mark.slow
@pytest.mark.parametrize("around", ["the first layer", "everything"])
def test_table_7(around):
    """A toy network of width 6: `f = D2 W2 (D1 W1 + rho Id) D0 W0 x` and its variant."""
    n, eta, draws = 6, 0.1, 2000
    W0, W1, W2 = (
        gaussian(draws, n, 2, seed=1),
        gaussian(draws, n, n, seed=2),
        gaussian(draws, n, n, seed=3),
    )
    b0, b1, b2 = (gaussian(draws, n, seed=4 + k) for k in range(3))
    x = gaussian(draws, 2, seed=7)
    slopes = lambda p: torch.where(p > 0, 1.0, eta)
    p0 = (W0 @ x[:, :, None])[:, :, 0] + b0
    z0, D0 = F.leaky_relu(p0, eta), slopes(p0)
    p1 = (W1 @ z0[:, :, None])[:, :, 0] + b1
    eye = torch.eye(n, dtype=torch.float64)
    for rho, tables in FIGURE_8.items():
        first = slopes(p1)[:, :, None] * W1
        if around == "the first layer":
            z1 = F.leaky_relu(p1, eta) + rho * z0
            p2 = (W2 @ z1[:, :, None])[:, :, 0] + b2
            M = slopes(p2)[:, :, None] * (W2 @ (first + rho * eye))
        else:
            p2 = (W2 @ F.leaky_relu(p1, eta)[:, :, None])[:, :, 0] + b2
            M = slopes(p2)[:, :, None] * (W2 @ first) + rho * eye
        s = torch.linalg.svdvals(M * D0[:, None])
        top, kappa, log, error = tables[around == "everything"]
        logs = (s[:, 0] / s[:, -1]).log()
        mine = logs.std().item() / math.sqrt(draws)
        assert abs(logs.mean().item() - log) <= 3 * math.hypot(mine, error)
        assert s[:, 0].median().item() == pytest.approx(top, rel=0.06)
        assert logs.median().item() == pytest.approx(math.log(kappa), abs=0.2)
        # the condition number of the quadratic form is that of the matrix, whatever is read
        one = loss_curvature([(M * D0[:, None])[0]], z0[:1])
        assert one.condition == pytest.approx((s[0, 0] / s[0, -1]).item(), rel=1e-6)
