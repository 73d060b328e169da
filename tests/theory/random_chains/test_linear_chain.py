import math

import pytest
import torch

from sigmascope.theory.random_chains import LinearChain


def test_the_second_direction_dies_at_the_rate_of_the_gap():
    """Mean of log(σ₂/σ₁) after 400 layers against (μ₁ - μ₂) * 400, over 64 chains."""
    g = torch.Generator().manual_seed(11)
    first, second = LinearChain(8, 0.5, chains=16, generator=g).exponents(1500, count=2)
    chain = LinearChain(8, 0.5, chains=64, generator=g)
    for _ in range(400):
        chain.step()
    sigma = chain.singular_values()
    logs = (sigma[:, 1] / sigma[:, 0]).log()
    expected = (second.value - first.value) * 400
    error = float(logs.std()) / 8 + 400 * (first.high - first.low)
    assert abs(float(logs.mean()) - expected) < 3 * error
    assert float(logs.mean()) < -20


@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
def test_nothing_overflows_over_many_layers(weights):
    chain = LinearChain(4, math.inf, weights=weights, generator=torch.Generator().manual_seed(0))
    for _ in range(3000):
        chain.step()
    assert bool(chain.state.isfinite().all())
    assert float(chain.state.norm()) == pytest.approx(1)
    assert chain.age == 3000
