"""Jacobians by the input against one sample at a time."""

import pytest
import torch
from torch import nn
from torch.func import jacrev

from sigmascope.gate import Refusal
from sigmascope.probes import OUTPUT, Subject
from tests.models_zoo import MODELS, call, subject_of

UNREADABLE = {"inplace-residual": "changed in place"}


def reference(model, x):
    """Singular values of `∂f(x_i)/∂x_i`, one sample after the other."""
    found = []
    for one in x:
        J = jacrev(lambda v: model(v[None])[0].flatten())(one)
        found.append(torch.linalg.svdvals(J.reshape(len(J), -1)))
    return torch.stack(found)


def images():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 4)), (2, 6, 6)


def plain():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), (5,)


@pytest.mark.parametrize("build", [images, plain])
def test_they_agree_with_each_sample_alone(build):
    torch.default_generator.manual_seed(0)
    model, shape = build()
    model = model.double()
    x = torch.randn(7, *shape, dtype=torch.float64)
    found = Subject(model, x).jacobians
    assert found.by == "the input"
    assert found.mixtures is None
    assert torch.allclose(found.sigma, reference(model, x), atol=1e-12)


def test_batch_statistics_are_held_constant():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2)).double()
    x = torch.randn(9, 4, dtype=torch.float64)
    found = Subject(model, x).jacobians.sigma
    z = model[0](x).detach()
    with torch.no_grad():
        model[1].running_mean.copy_(z.mean(0))
        model[1].running_var.copy_(z.var(0, unbiased=False))
    assert torch.allclose(found, reference(model.eval(), x), atol=1e-12)


def test_many_outputs_are_mixed_without_losing_the_rank():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 300)).double()
    found = Subject(model, torch.randn(3, 6, dtype=torch.float64)).jacobians
    assert found.mixtures == 64
    assert bool((found.sigma[:, 1] > 1e-3).all())
    assert float(found.sigma[:, 2].max()) < 1e-12
    whole = torch.linalg.svdvals((model[1].weight @ model[0].weight).detach())[0]
    assert 0.5 < float(found.sigma[0, 0] / whole) < 2


def test_token_ids_are_replaced_by_what_the_first_layer_writes():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2))
    found = Subject(model, torch.randint(0, 9, (5, 3))).jacobians
    assert found.by == "what 0 writes"
    expected = torch.linalg.svdvals(model[2].weight.double())
    assert torch.allclose(found.sigma, expected.expand(5, 2), atol=1e-6)


@pytest.mark.usefixtures("as_users_see_it")
def test_an_output_that_ignores_the_input_is_refused():
    model = nn.Sequential(nn.Linear(3, 3))
    model.register_forward_hook(lambda *_: torch.zeros(4, 2))
    with pytest.raises(Refusal, match="must depend on the input"):
        _ = Subject(model, torch.randn(4, 3)).jacobians


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_zoo_is_read_or_refused(name):
    subject, (model, batch) = subject_of(name), MODELS[name]()
    if name in UNREADABLE:
        with pytest.raises(Refusal, match=UNREADABLE[name]):
            _ = subject.jacobians
    else:
        found = subject.jacobians.sigma
        assert len(found) == subject.count
        assert bool(found.isfinite().all())
        assert subject.output.numel() // subject.count >= 1
        assert OUTPUT in subject.activations
    for k, v in model.state_dict().items():
        assert torch.equal(v, subject.model.state_dict()[k])
    call(subject.model, batch)
