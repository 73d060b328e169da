import math

import pytest
import torch

from sigmascope import theory


@pytest.mark.parametrize("depth", [4, 10, 24])
@pytest.mark.parametrize("slope", [1.0, 0.3, 2.5])
def test_it_computes_the_bent_map(depth, slope):
    net = theory.random_chains.lipschitz_counterexample(depth, slope)
    x = torch.rand(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = x.clone()
    expected[:, 2] += slope * (x[:, 0] - x[:, 1]).clamp(min=0)
    assert torch.allclose(net(x), expected, rtol=1e-12, atol=1e-12)
    assert sum(isinstance(m, torch.nn.Linear) for m in net) == depth


@pytest.mark.parametrize("eps", [0.01, 0.1, 0.5])
def test_its_norm_is_the_formula(eps):
    for depth in (4, 12, 40):
        net = theory.random_chains.lipschitz_counterexample(depth, eps=eps)
        norm = sum(float(p.detach().square().sum()) for p in net.parameters())
        assert norm - 3 * depth == pytest.approx(
            theory.random_chains.counterexample_excess(depth, eps), rel=1e-9, abs=1e-9
        )


def test_the_excess_vanishes_for_exponents_between_a_half_and_one():
    known = {0.4: 478, 0.5: 12.0, 0.6: 0.301, 0.75: 0.0012, 0.9: 0.0037, 1.0: 0.871, 1.2: 2.90}
    for gamma, excess in known.items():
        found = theory.random_chains.counterexample_excess(10**8, 10 ** (-8 * gamma))
        assert found == pytest.approx(excess, rel=0.05), gamma
    for depth, excess in ((100, 0.75), (1000, 0.206), (10**4, 0.043), (10**5, 0.0077)):
        best = min(
            theory.random_chains.counterexample_excess(depth, c * math.log(depth) / depth)
            for c in torch.linspace(0.05, 1.5, 400).tolist()
        )
        assert best == pytest.approx(excess, rel=0.03)


@pytest.mark.parametrize(
    ("words", "says"), [((5,), "must be even"), ((2,), "at least 4"), ((6, -1.0), "above 0")]
)
def test_refusals(words, says):
    with pytest.raises(ValueError, match=says):
        theory.random_chains.lipschitz_counterexample(*words)


def test_building_draws_no_random_numbers():
    before = torch.get_rng_state()
    theory.random_chains.lipschitz_counterexample(6)
    assert torch.equal(torch.get_rng_state(), before)
