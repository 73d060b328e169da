"""One residual layer between activations, measured."""

import math

import pytest
import torch

from sigmascope.theory.riedi2022.random_weights import ResidualLayer, weight_spread


def test_sizes_are_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`W` must be square"):
        ResidualLayer.of(torch.eye(3), torch.ones(2), torch.ones(3), r=2.0)


def layer(inner, outer, W=None, **options):
    slopes = [torch.tensor(s, dtype=torch.float64) for s in (inner, outer)]
    W = 0.1 * torch.eye(len(inner), dtype=torch.float64) if W is None else W
    return ResidualLayer.of(W, *slopes, r=20.0, **options)


def test_what_two_activations_take_together_by_hand():
    """Of four units two are off before and one after: 2 + 1 - 2/4, and three values count."""
    facts = layer([1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0])
    assert (facts.n, facts.off, facts.nu, facts.rank) == (4, (2, 1), 2.5, 3)
    assert facts.top == pytest.approx(0.1)
    # (D₁ W + Id) D = diag(1.1, 1.1, 1, 0), and D₁ W D = diag(0.1, 0.1, 0, 0)
    assert facts.skipped.sigma.tolist() == pytest.approx([1.1, 1.1, 1.0, 0.0])
    assert facts.plain.sigma.tolist() == pytest.approx([0.1, 0.1, 0.0, 0.0])
    assert facts.condition(facts.skipped).value == pytest.approx(1.1)  # without the zero
    assert facts.condition(facts.plain).high == math.inf
    assert facts.slopes_are(0.0, 1.0)
    assert not facts.slopes_are(1.0, 0.5)


def test_rows_are_scaled_by_the_first_activation_and_columns_by_the_second():
    W = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inner, outer = [1.0, 0.5, -1.0, 0.0, 1.0], [0.2, 1.0, 1.0, -1.0, 1.0]
    D1, D = (torch.diag(torch.tensor(s, dtype=torch.float64)) for s in (inner, outer))
    facts = layer(inner, outer, W)
    for found, A in ((facts.plain, D1 @ W @ D), (facts.skipped, (D1 @ W + torch.eye(5)) @ D)):
        assert torch.allclose(found.sigma, torch.linalg.svdvals(A), atol=1e-14)


def test_of_a_given_matrix_the_gaussian_law_is_refuted_and_never_proved():
    n = 30
    g = torch.Generator().manual_seed(0)
    W = weight_spread(n, 20.0) * torch.randn(n, n, generator=g, dtype=torch.float64)
    ones = [1.0] * n
    assert layer(ones, ones, W).gaussian().met is None
    assert layer(ones, ones, W, drawn=True).gaussian().met is True
    for scale in (0.8, 1.25):  # of 900 squares, whose mean is known to some 5 %
        assert layer(ones, ones, scale * W).gaussian().met is False
