import pytest
import torch

from sigmascope.theory.random_chains import BatchNormChain, forgetting, measures_of


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_measures_are_their_definitions():
    chain = BatchNormChain(7, 0.3, samples=5, generator=seeded(3))
    chain.step()
    M = chain.state[0] @ chain.state[0].mT
    assert torch.allclose(M.diagonal(), torch.ones(7, dtype=torch.float64), atol=1e-14)
    ratio, rank, size, regular, cube = measures_of(chain.state, 0.5)[:, 0].tolist()
    assert ratio == pytest.approx(49 / float(M.square().sum()), rel=1e-13)
    assert rank == int((torch.linalg.eigvalsh(M) >= 0.5).sum())
    assert size == pytest.approx(float(M.square().sum()), rel=1e-13)
    assert regular == pytest.approx(float((M @ M).diagonal().square().sum()), rel=1e-13)
    assert cube == pytest.approx(float(torch.trace(M @ M @ M)), rel=1e-13)


def test_a_start_that_is_nearly_collinear_takes_longer_to_forget():
    g = seeded(5)
    X = torch.randn(1, 6, generator=g, dtype=torch.float64).expand(9, 6)
    X = X + 1e-9 * torch.randn(9, 6, generator=g, dtype=torch.float64)
    chain = BatchNormChain(6, 0.5, inputs=X, generator=g)
    assert chain.rank == 6
    assert chain.spread < 1e-8
    assert chain.run(60).burn_in > forgetting(6, 0.5) + 50
