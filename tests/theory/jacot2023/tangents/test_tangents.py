"""The tangent kernel of a stack: its trace, how it bends, and balance."""

import pytest
import torch

from sigmascope.probes.structure import Stack
from sigmascope.theory import jacot2023
from sigmascope.theory.jacot2023 import TangentCurvature
from tests.theory.jacot2023.stacks import points
from tests.theory.jacot2023.units import at, sides


def test_balancing_keeps_the_function_and_lowers_the_norm():
    for net, point, _ in points(count=100):
        even = jacot2023.balance(net)
        assert even.norm <= net.norm * (1 + 1e-12)
        assert torch.allclose(even.at(point.x).preactivations[-1], point.preactivations[-1])


def test_the_printed_2l_is_caught_and_l_is_attained():
    checks = [jacot2023.TangentCurvature("here", p).check() for _, p, _ in points(0.0, 200)]
    assert sum(c.measured.value < 2 * c.limit.value for c in checks) > 60
    one = torch.full((1, 1), 1.3, dtype=torch.float64)
    chain = Stack(tuple("abcd"), (one,) * 4, (torch.zeros(1).double(),) * 4, 0.0, False)
    found = jacot2023.TangentCurvature("here", chain.at(torch.ones(1).double())).check()
    assert found.measured.value == pytest.approx(found.limit.value)


def test_traces_of_the_kernel_are_those_of_autograd():
    for net, point, _ in points(count=20):
        live = [t.clone().requires_grad_() for t in (*net.weights, *net.biases)]
        half = len(net.weights)
        a = point.x
        for i, (W, b) in enumerate(zip(live[:half], live[half:], strict=True)):
            z = W @ a + b
            a = torch.where(z > 0, z, net.slope * z) if i + 1 < half else z
        total = [0.0, 0.0]
        for out in a:
            grads = torch.autograd.grad(out, live, retain_graph=True)
            for k in (0, 1):
                total[k] += sum(float(g.square().sum()) for g in grads[k * half :][:half])
        weights, biases = jacot2023.ntk_trace(point)
        assert weights == pytest.approx(total[0], rel=1e-10)
        if net.biased:
            assert biases == pytest.approx(total[1], rel=1e-10)
        trace = float(jacot2023.ntk_kernel(point).trace())
        assert trace == pytest.approx(weights + biases)


def test_how_much_the_tangent_kernel_bends():
    """`Σ_l ‖∂α_{l-1}/∂x‖² ‖∂f/∂z_l‖² = 9 + 4`, against `L ‖Jf‖^{2 - 2/L}`."""
    assert sides(TangentCurvature, at(1.0, 2.0, 3.0)) == pytest.approx((13, 2 * 6))
