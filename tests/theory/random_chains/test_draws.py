import torch

from sigmascope.theory.random_chains import product, random_numbers


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_narrow_gaussian_has_the_law_of_the_whole_product():
    """Second moments of W H, with the shortcut (few directions) and without it."""
    H = torch.randn(1, 12, 3, generator=seeded(5), dtype=torch.float64).expand(4000, -1, -1)
    drawn = product(H.contiguous(), "gaussian", random_numbers(seeded(6)))
    covariance = (drawn.mT @ drawn).mean(0) / 12
    exact = H[0].mT @ H[0]
    assert torch.allclose(covariance, exact, atol=0.1 * float(exact.abs().max()))
    mixed = (drawn[:, 0, 0] * drawn[:, 1, 0]).mean()
    assert abs(float(mixed)) < 0.1 * float(exact.abs().max())  # rows are independent
