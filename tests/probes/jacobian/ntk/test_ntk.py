"""The tangent kernel as an operator, against Jacobians over parameters."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap

from sigmascope.gate import Refusal
from sigmascope.linalg.krylov import extreme_eigenvalues
from sigmascope.probes import Subject
from tests.models_zoo import MODELS

UNREADABLE = {
    "inplace-residual": "changed in place",
    "all-frozen": "parameters that require gradients",
    "bag-of-words": "embedding_bag",
}


def reference(model, x):
    """`J Jᵀ`, with J formed."""
    parameters = dict(model.named_parameters())
    one = jacrev(lambda p, v: functional_call(model, p, (v[None],))[0])
    found = vmap(one, (None, 0))(parameters, x)
    J = torch.cat([j.flatten(2).flatten(0, 1) for j in found.values()], dim=1)
    return (J @ J.mT).detach()


def network():
    torch.default_generator.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    ).double()


def test_it_is_the_gram_matrix_of_the_jacobian_over_several_pieces():
    model, x = network(), torch.randn(70, 1, 6, 6, dtype=torch.float64)  # 64 and 6
    kernel = Subject(model, x).tangent_kernel().dense()
    z = model[0](x).detach()
    with torch.no_grad():
        model[1].running_mean.copy_(z.mean((0, 2, 3)))
        model[1].running_var.copy_(z.var((0, 2, 3), unbiased=False))
    expected = reference(model.eval(), x)
    assert torch.allclose(kernel, expected, atol=1e-10 * float(expected.max()))


def test_its_top_is_found_by_lanczos():
    model, x = network().eval(), torch.randn(12, 1, 6, 6, dtype=torch.float64)
    kernel = Subject(model, x).tangent_kernel()
    g = torch.Generator().manual_seed(0)
    (top,) = extreme_eigenvalues(kernel, sides="top", steps=30, generator=g).top
    exact = float(torch.linalg.eigvalsh(reference(model, x))[-1])
    assert top.low <= exact * (1 + 1e-12)
    assert exact <= top.high * (1 + 1e-12)
    assert top.value == pytest.approx(exact, rel=1e-8)


def test_its_trace_is_that_of_every_sample():
    model, x = network().eval(), torch.randn(7, 1, 6, 6, dtype=torch.float64)
    exact = reference(model, x).diagonal().reshape(7, 3).sum(1)
    assert torch.allclose(Subject(model, x).ntk_trace, exact, rtol=1e-12)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("name", ["language-model-tied", "lstm", "shared-layer"])
def test_the_exact_trace_refuses_what_it_does_not_know(name):
    if name == "shared-layer":
        layer = nn.Linear(3, 3)
        model, batch = nn.Sequential(layer, nn.Tanh(), layer), torch.randn(4, 3)
    else:
        model, batch = MODELS[name]()
    with pytest.raises(Refusal, match="known and used once"):
        _ = Subject(model, batch).ntk_trace


def test_some_layers_alone_add_up_to_all():
    model, x = network().eval(), torch.randn(5, 1, 6, 6, dtype=torch.float64)
    subject = Subject(model, x)
    parts = [subject.tangent_kernel(layers=[name]).dense() for name in ("0", "1", "4")]
    assert torch.allclose(sum(parts), subject.tangent_kernel().dense())


@pytest.mark.parametrize("name", MODELS)
def test_on_the_zoo_it_is_symmetric_and_leaves_models_as_found(name):
    model, batch = MODELS[name]()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    if name in UNREADABLE:
        with pytest.raises(Refusal, match=UNREADABLE[name]):
            Subject(model, batch).tangent_kernel().dense()
    else:
        kernel = Subject(model, batch).tangent_kernel()
        g = torch.Generator().manual_seed(0)
        like = torch.randn(kernel.shape[1], 2, generator=g, dtype=torch.float64)
        image = kernel.apply(like)
        products = like.mT @ image
        size = float(products.diagonal().abs().max())
        rough = 2e-2 if kernel.like.dtype in (torch.bfloat16, torch.float16) else 1e-4
        assert float((products - products.mT).abs().max()) <= rough * size + 1e-30
        assert float(products.diagonal().min()) >= -rough * size
    for k, v in model.state_dict().items():
        assert torch.equal(v, before[k])
    assert all(p.grad is None for p in model.parameters())
