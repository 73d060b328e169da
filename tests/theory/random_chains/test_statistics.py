import pytest
import torch

from sigmascope.theory.random_chains import BatchNormChain


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_those_of_one_layer_are_their_definitions():
    chain = BatchNormChain(5, 0.4, samples=7, generator=seeded())
    found = chain.run(1, burn_in=3, tau=0.3)
    M = chain.state[0] @ chain.state[0].mT
    square, cube = float(M.square().sum()), float((M @ M @ M).trace())
    regular = float((M @ M).diagonal().square().sum())
    assert found.participation_ratio.value == pytest.approx(25 / square)
    assert found.soft_rank.value == int((torch.linalg.eigvalsh(M) >= 0.3).sum())
    assert found.frobenius_sq.value == pytest.approx(square)
    assert found.regularity.value == pytest.approx(regular / cube)
    assert found.drift.value == pytest.approx(2 * 25 - 2 * square - 8 * cube + 8 * regular)
    assert (found.width, found.gamma, found.weights, found.samples) == (5, 0.4, "gaussian", 7)
    assert (found.tau, found.chains, found.layers, found.burn_in) == (0.3, 1, 1, 3)
    assert (found.rank, found.settled) == (5, False)


def test_the_drift_is_what_a_layer_adds_to_first_order():
    """Over many draws of the next weights, each with its opposite, so that odd orders cancel."""
    gamma = 0.02
    chain = BatchNormChain(3, gamma, samples=4, generator=seeded(1))
    drift = chain.run(1, burn_in=0).drift.value
    H = chain.state[0]
    W = torch.randn(20_000, 3, 3, generator=seeded(2), dtype=torch.float64)

    def size(H):
        H = H / H.norm(dim=-1, keepdim=True)
        return (H @ H.mT).square().sum((-2, -1))

    added = ((size(H + gamma * W @ H) + size(H - gamma * W @ H)) / 2 - size(H)) / gamma**2
    error = float(added.std()) / len(W) ** 0.5
    assert error < 0.05 * abs(drift)
    assert abs(float(added.mean()) - drift) < 4 * error + 10 * gamma**2 * abs(drift)
