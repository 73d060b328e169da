"""Adjoints and NTK shares against per-sample Jacobians over parameters, one sample at a time."""

import pytest
import torch
from torch import nn

from sigmascope.probes import Subject
from tests.probes.jacobian.cases import build


@pytest.mark.parametrize("case", ["mlp", "conv", "tokens"])
def test_singular_values_equal_those_of_the_jacobian(case):
    model, batch = build(case)
    swept = Subject(model, batch).adjoints
    first = next(s for s, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d))
    module, kept = model.get_submodule(first), {}
    for i in range(len(batch)):
        with torch.no_grad():
            handle = module.register_forward_hook(lambda _m, _i, y: kept.update(y=y))
            model(batch[i : i + 1])
            handle.remove()

        def rest(z, i=i):
            handle = module.register_forward_hook(lambda _m, _i, _y: z)
            out = model(batch[i : i + 1])[0]
            handle.remove()
            return out

        J = torch.autograd.functional.jacobian(rest, kept["y"]).flatten(1)
        sigma = torch.linalg.svdvals(J)
        torch.testing.assert_close(swept.adjoints[first].sigma[i], sigma, rtol=1e-8, atol=1e-8)
