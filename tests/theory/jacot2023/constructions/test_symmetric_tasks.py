"""The symmetry task of Section 5."""

import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.theory import jacot2023


def task(**of):
    g = torch.Generator().manual_seed(3)
    return jacot2023.constructions.symmetry_task(7, samples=50, generator=g, **of)


def test_costs_are_those_of_gradient_descent_on_the_matrix():
    found = task(steps=4)
    v = found.starts[0].clone().requires_grad_()
    target = torch.outer(found.axis, found.axis) + found.noise
    for t in range(4):
        cost = (torch.outer(v, v) - target).square().sum()
        (slope,) = torch.autograd.grad(cost, v)
        v = (v - found.rate * slope).detach().requires_grad_()
        after = (torch.outer(v, v) - target).square().sum()
        assert float(after.detach()) == pytest.approx(float(found.costs[0, t]), rel=1e-12)


def test_without_noise_the_statistics_close():
    found = task(noise=0.0)
    u, v = found.statistics(found.starts), found.starts
    for _ in range(20):
        u, v = jacot2023.constructions.statistics_moved(u, found.rate), found.moved(v)
        assert torch.allclose(u, found.statistics(v), atol=1e-12)
    size = u.sum(1)
    assert torch.allclose(found.costs[:, -1], size.square() - 2 * u[:, 0] + 1)


def test_the_map_to_costs_has_rank_two_without_noise():
    found = task(noise=0.0)

    def costs(v):
        out, v = [], v[None]
        for _ in range(20):
            v = found.moved(v)
            out.append(found.cost(v)[0])
        return torch.stack(out)

    s = torch.linalg.svdvals(torch.autograd.functional.jacobian(costs, found.starts[1]))
    assert float(s[1]) > 1e-2
    assert float(s[2]) < 1e-9


def test_orbits_keep_the_statistics():
    found = task()
    orbits = found.orbits(found.starts, 6, generator=torch.Generator().manual_seed(0))
    assert orbits.shape == (50, 6, 7)
    same = found.statistics(orbits.flatten(0, 1)).unflatten(0, (50, 6))
    assert torch.allclose(same, found.statistics(found.starts)[:, None].expand(-1, 6, -1))
    assert float((orbits[:, 0] - orbits[:, 1]).norm(dim=1).median()) > 0.3


@pytest.mark.usefixtures("as_users_see_it")
def test_an_axis_needs_something_around_it():
    with pytest.raises(Refusal, match="`dimension` must be 2 or more"):
        jacot2023.constructions.symmetry_task(1)
