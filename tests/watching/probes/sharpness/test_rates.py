"""Learning rates as they are applied, against quadratics that diverge or not."""

import pytest
import torch
from torch import nn

from sigmascope.watching.probes.sharpness import rate_of


def grows(make, curvature, steps=400):
    """Whether descent on `c x² / 2` runs away."""
    x = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = make([x])
    for _ in range(steps):
        optimizer.zero_grad()
        (0.5 * curvature * x.square()).sum().backward()
        optimizer.step()
        if not abs(float(x.detach())) < 1e6:
            return True
    return abs(float(x.detach())) > 1.0


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_descent_diverges_just_beyond_what_is_borne(momentum):
    def make(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=momentum)

    x = nn.Parameter(torch.ones(1))
    optimizer = make([x])
    rate = rate_of(optimizer, optimizer.param_groups[0], x)
    limit = rate.borne / float(rate.roots) ** 2
    assert not grows(make, 0.99 * limit, 4000)
    assert grows(make, 1.01 * limit, 4000)


def test_adam_is_scaled_by_its_second_moments():
    x = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.Adam([x], lr=0.01, betas=(0.9, 0.99), eps=0.0)
    (x * torch.tensor([3.0, 5.0])).sum().backward()
    assert rate_of(optimizer, optimizer.param_groups[0], x) is None  # no moments yet
    optimizer.step()
    rate = rate_of(optimizer, optimizer.param_groups[0], x)
    torch.testing.assert_close(rate.roots.square(), 0.01 / torch.tensor([3.0, 5.0]))
    assert rate.borne == pytest.approx(38.0)


def test_of_other_optimizers_nothing_is_said():
    x = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.RMSprop([x])
    assert rate_of(optimizer, optimizer.param_groups[0], x) is None
