"""Sums of squares over the units of a network, for one step."""

import pytest
import torch
from torch import nn

from sigmascope.theory.le2022.conservation import invariants
from sigmascope.theory.symmetry import StepSums, StillSum


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_they_are_the_products_of_the_parts_with_themselves(dtype):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3, groups=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(6 * 4, 5), nn.ReLU(), nn.Linear(5, 3),
    )  # fmt: skip
    found = [
        i for i in invariants(net, torch.randn(7, 2, 6, 6)) if not isinstance(i.what, StillSum)
    ]
    tensors = {n: p.detach().to(dtype) for n, p in net.named_parameters()}
    sums = StepSums(tensors)
    assert len(found) >= 3
    for invariant in found:
        for part in invariant.what.parts:
            exact = part.dots(tensors[part.tensor], tensors[part.tensor])
            torch.testing.assert_close(sums.of(part).double(), exact, rtol=1e-5, atol=1e-9)
    only = StepSums({n: t for n, t in tensors.items() if n.startswith("7")})
    for invariant in found:
        alone = invariant.alone()
        here = {n: t for n, t in tensors.items() if n in only.tensors}
        whole = alone.form(here, here)
        torch.testing.assert_close(alone.squares(only), whole, rtol=1e-5, atol=1e-9)
        assert alone.reach(sums) == pytest.approx(alone.size(tensors, tensors), rel=1e-5)
