import torch
from models_zoo import MODELS

from sigmascope.probes import Subject


def smooth(output, targets):
    """Neither quadratic nor separable into columns."""
    return (output - targets).square().mean() + (output.exp().sum(-1) + 1).log().mean()


def subject(name, loss=smooth):
    module, batch = MODELS[name]()
    module = module.double()
    output = Subject(module, batch).output
    targets = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
    return Subject(module, batch, targets, loss)


def test_weight_normalisation_is_differentiated_by_its_parts():
    s = subject("weight-norm")
    H = s.curvature("hessian").operator.dense()
    assert torch.allclose(H, H.mT, atol=1e-13)
    assert s.self_check.gap < 1e-6
