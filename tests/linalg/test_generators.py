"""All that is drawn comes from the generator that is passed, and nothing touches torch's own."""

import pytest
import torch
from zoo import MATRICES, fresh

from sigmascope.linalg import krylov, random_matrix, spectral_norm
from sigmascope.linalg.krylov import Operator
from sigmascope.linalg.krylov.singular_values import largest
from tests.linalg.random_matrix.planted import LAWS, of, planted

A = torch.randn(60, 50, generator=fresh())
S = Operator.of((A[:50] + A[:50].mT).double())
TAIL = torch.rand(300, generator=fresh(), dtype=torch.float64) ** (-1 / 1.5)
SPIKED = planted(LAWS["sparse"](fresh(), 60, 50), [1.4])
DRAWN = {
    "leading": lambda g: krylov.leading(MATRICES["square"], block=2, steps=2, generator=g).spectrum,
    "largest": lambda g: largest(A, steps=5, generator=g),
    "golub-kahan": lambda g: spectral_norm(MATRICES["square"], route="free", steps=3, generator=g),
    "trace": lambda g: krylov.trace(S, samples=4, generator=g),
    "eigenvalues": lambda g: krylov.extreme_eigenvalues(S, steps=9, generator=g).top,
    "a power law": lambda g: random_matrix.power_law(TAIL, generator=g),
    "signs": lambda g: of(SPIKED, int(g.initial_seed())),
}


@pytest.mark.parametrize("name", DRAWN)
def test_all_randomness_is_the_generators(name):
    state = torch.random.get_rng_state()
    one, two, other = (DRAWN[name](fresh(seed)) for seed in (5, 5, 6))
    assert one == two != other
    assert torch.equal(torch.random.get_rng_state(), state)
