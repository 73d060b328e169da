import pytest
import torch
from torch.func import jacrev

from sigmascope.probes.structure import Stack
from tests.theory.jacot2023.stacks import stack


def run(net, x, upto=None):
    """What a layer writes, by a plain loop; the last one by default."""
    a = x
    for i, (W, b) in enumerate(zip(net.weights, net.biases, strict=True)):
        z = W @ a + b
        if i == upto:
            return z
        a = torch.where(z > 0, z, net.slope * z)
    return z


@pytest.mark.parametrize("seed", range(12))
def test_everything_at_an_input_is_that_of_autograd(seed):
    net, x, _ = stack(seed)
    point = net.at(x)
    close = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    for k, (z, a) in enumerate(zip(point.preactivations, point.activations, strict=True)):
        close(z, run(net, x, k))
        close(net.weights[k] @ a + net.biases[k], z)
        close(net.weights[k] @ point.forwards[k], jacrev(lambda v, k=k: run(net, v, k))(x))
        # what follows the layer is a stack of its own
        rest = Stack(net.sites[k:], net.weights[k:], net.biases[k:], net.slope)
        close(point.backwards[k] @ net.weights[k], jacrev(lambda v, r=rest: run(r, v))(a))
    close(point.jacobian, jacrev(lambda v: run(net, v))(x))
    sigma = torch.linalg.svdvals(jacrev(lambda v: run(net, v))(x))
    s = point.spectrum
    assert (s.low <= sigma + 1e-12).all()
    assert (sigma <= s.high + 1e-12).all()


def matrices(*rows):
    weights = tuple(torch.tensor(r, dtype=torch.float64) for r in rows)
    biases = tuple(torch.zeros(len(W), dtype=torch.float64) for W in weights)
    return Stack(tuple("abc"[: len(rows)]), weights, biases, 0.0, biased=False)


def test_norms_and_balance_by_hand():
    net = matrices([[3.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]])
    assert (net.depth, net.weight_norm, net.norm) == (2, 11, 11)
    assert [e.value for e in net.sizes] == [10, 1]
    assert net.spectral_norms == pytest.approx((3, 1))
    assert net.spectral_norms[0] >= 3
    # unit 0 reads 9 and is read by 0; unit 1 reads 1 and is read by 1: the largest norm is 9
    assert net.balance_defect() == 1
    biased = Stack(("a", "b"), net.weights, (torch.tensor([0.0, 2.0]).double(), net.biases[1]), 0.0)
    assert biased.norm == 15
    assert matrices([[1.0, 2.0]], [[5**0.5]]).balance_defect() == pytest.approx(0, abs=1e-15)
    assert matrices([[0.0]], [[0.0]]).balance_defect() == 0


def test_a_unit_at_its_kink_is_on_the_lower_side():
    point = matrices([[1.0], [-1.0]], [[1.0, 1.0]]).at(torch.zeros(1).double())
    assert point.slopes[0].tolist() == [0, 0]
    assert point.jacobian.tolist() == [[0]]


def test_layers_that_do_not_meet_are_refused():
    with pytest.raises(ValueError, match=r"what the one below writes, got \(1, 3\) after"):
        matrices([[1.0], [2.0]], [[1.0, 2.0, 3.0]])


def test_a_weight_that_is_too_large_has_its_frobenius_norm(monkeypatch):
    monkeypatch.setattr("sigmascope.probes.structure.linear.SOLVED", 3)
    net = matrices([[3.0, 0.0], [0.0, 4.0]])
    assert net.spectral_norms == pytest.approx((5,))
