"""Curvature against dense second derivatives, row by row, and against finite differences."""

import pytest
import torch
from fingerprints import differences, fingerprint, process
from models_zoo import MODELS, call
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from sigmascope.core.guard import Refusal
from sigmascope.linalg.krylov import (
    Operator,
    extreme_eigenvalues,
    krylov_space,
    spectral_density,
    symmetric_moments,
)
from sigmascope.models import Subject
from sigmascope.models.curvature.hessian import moved
from sigmascope.models.networks import mlp
from sigmascope.models.samples import as_tensor
from sigmascope.models.state import still

NOT_TWICE = {"inplace-residual", "bag-of-words", "all-frozen"}
IN_FLOAT32 = {"transformers-t5", "transformers-llama"}  # they compute their norms in float32
TWICE = sorted(set(MODELS) - NOT_TWICE - {"bfloat16", "float16"})
WRONG_IN_TORCH = {"weight-norm"}  # its fused form, 2.13


def smooth(output, targets):
    """Neither quadratic nor separable into columns."""
    return (output - targets).square().mean() + (output.exp().sum(-1) + 1).log().mean()


def subject(name, loss=smooth, *, smoothed=False):
    module, batch = MODELS[name]()
    module = module.double()
    if smoothed:  # steps that are too small to cross a kink of T5's are lost in float32
        for block in [m for m in module.modules() if isinstance(getattr(m, "act", None), nn.ReLU)]:
            block.act = nn.GELU()
    output = Subject(module, batch).output
    targets = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
    return Subject(module, batch, targets, loss)


def slopes(s):
    """The gradient on the tape, in the mode that measurements hold models in."""
    for m in s.model.modules():
        m.training = m.training and isinstance(m, nn.modules.batchnorm._BatchNorm)
    params = [p for p in s.model.parameters() if p.requires_grad]
    with sdpa_kernel(SDPBackend.MATH):
        value = s.loss(as_tensor(call(s.model, s.batch))[0], s.targets)
    grads = torch.autograd.grad(value, params, create_graph=True, allow_unused=True)
    flat = [torch.zeros_like(p) if g is None else g for p, g in zip(params, grads, strict=True)]
    return params, torch.cat([g.flatten() for g in flat])


def one_product(name):
    operator = subject(name).curvature().operator
    return operator.apply(torch.ones(operator.shape[0], 1, dtype=torch.float64))


def some_rows(size):
    return torch.randperm(size, generator=torch.Generator().manual_seed(size))[:8]


def dense_rows(of, params, places):
    found = []
    for i in places.tolist():
        grads = torch.autograd.grad(of[i], params, retain_graph=True, allow_unused=True)
        pairs = zip(params, grads, strict=True)
        rows = [torch.zeros_like(p) if g is None else g for p, g in pairs]
        found.append(torch.cat([r.flatten() for r in rows]))
    return torch.stack(found)


@pytest.mark.parametrize("name", [n for n in TWICE if n not in WRONG_IN_TORCH | IN_FLOAT32])
def test_the_hessian_equals_dense_double_backward(name):
    s = subject(name)
    operator = s.curvature("hessian").operator
    places = some_rows(operator.shape[0])
    eye = torch.zeros(operator.shape[0], len(places), dtype=torch.float64)
    eye[places, torch.arange(len(places))] = 1
    columns = operator.apply(eye)
    params, gradient = slopes(s)
    rows = dense_rows(gradient, params, places)
    assert float((columns.T - rows).abs().max()) <= 1e-9 * float(rows.abs().max())
    assert float((columns.T[:, places] - columns[places]).abs().max()) <= 1e-12 * float(
        columns.abs().max()
    )
    assert s.self_check.gap < 1e-5


def test_weight_normalisation_is_differentiated_by_its_parts():
    s = subject("weight-norm")
    H = s.curvature("hessian").operator.dense()
    assert torch.allclose(H, H.mT, atol=1e-13)
    assert s.self_check.gap < 1e-6


@pytest.mark.parametrize("name", sorted(IN_FLOAT32))  # others: above
def test_second_derivatives_agree_with_finite_differences(name):
    assert subject(name, smoothed=True).self_check.gap < 1e-3


@pytest.mark.parametrize("name", [n for n in TWICE if n not in IN_FLOAT32])
def test_gauss_newton_is_the_derivative_of_the_outputs_sandwiched(name):
    s = subject(name)
    operator = s.curvature("gauss-newton").operator
    v = torch.randn(
        operator.shape[0], 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    frozen = s.output.detach().requires_grad_()
    (by_output,) = torch.autograd.grad(smooth(frozen, s.targets), frozen, create_graph=True)
    # with the slope by the output held fixed, the Hessian of ⟨slope, f⟩ is what Gauss-Newton omits
    held = by_output.detach()
    whole = s.curvature("hessian").operator.apply(v)
    omitted = Subject(s.model, s.batch, s.targets, lambda o, _: (held * o).sum())
    left_out = omitted.curvature("hessian").operator.apply(v)
    got = operator.apply(v)
    assert float((whole - left_out - got).abs().max()) <= 1e-9 * float(whole.abs().max())
    assert float(v.T @ got) >= 0 or name in IN_FLOAT32


def test_fisher_is_the_mean_of_outer_products_of_gradients():
    g = torch.Generator().manual_seed(3)
    net = mlp(inputs=5, outputs=3, depth=2, width=6).double()
    x = torch.randn(7, 5, generator=g, dtype=torch.float64)
    y = torch.randint(3, (7,), generator=g)
    s = Subject(net, x, y, F.cross_entropy)
    each = []
    for i in range(7):
        loss = F.cross_entropy(net(x[i : i + 1]), y[i : i + 1])
        grads = torch.autograd.grad(loss, list(net.parameters()))
        each.append(torch.cat([t.flatten() for t in grads]))
    G = torch.stack(each)
    found = s.curvature("fisher").operator.dense()
    assert torch.allclose(found, G.mT @ G / 7, atol=1e-14)


def test_layers_are_diagonal_blocks():
    s = subject("conv")
    whole, names = s.curvature("hessian"), dict(s.model.named_parameters())
    H = whole.operator.dense()
    at = 0
    for module in s.modules:
        block = s.curvature("hessian", layers=[module])
        n = block.operator.shape[0]
        assert torch.allclose(block.operator.dense(), H[at : at + n, at : at + n], atol=1e-13)
        at += n
    assert at == len(H) == sum(names[p].numel() for p in whole.parameters)


def test_without_targets_gauss_newton_is_that_of_squared_error():
    net = nn.Linear(4, 2, bias=False).double()
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = Subject(net, x).curvature("gauss-newton").operator.dense()
    want = torch.kron(torch.eye(2, dtype=x.dtype), 2 * x.mT @ x / 6)
    assert torch.allclose(found, want, atol=1e-14)


def test_the_model_is_left_as_found_and_products_outlive_the_call(as_users_see_it):
    for name in ("batchnorm-train", "dropout", "gradient-checkpointing", "transformers-bert"):
        s = subject(name)
        s.model.train()
        before, around = fingerprint(model=s.model), process()
        versions = [p._version for p in s.model.parameters()]
        operator = s.curvature("hessian").operator
        v = torch.ones(operator.shape[0], 1, dtype=torch.float64)
        first = operator.apply(v)
        assert torch.equal(first, operator.apply(v))
        assert s.self_check.gap < 1e-5
        assert not differences(before, fingerprint(model=s.model))
        assert process() == around
        assert [p._version for p in s.model.parameters()] == versions


def test_float32_models_give_float32_products():
    module, batch = MODELS["conv"]()
    targets = torch.zeros(Subject(module, batch).output.shape)
    operator = Subject(module, batch, targets, F.mse_loss).curvature().operator
    assert operator.apply(torch.ones(operator.shape[0], 1)).dtype == torch.float32


def test_sampled_moments_and_densities_of_a_network_are_covered():
    g = torch.Generator().manual_seed(5)
    net = mlp(inputs=6, outputs=3, depth=3, width=8, norm="none", generator=g).double()
    x = torch.randn(20, 6, generator=g, dtype=torch.float64)
    y = torch.randint(3, (20,), generator=g)
    dense = Subject(net, x, y, F.cross_entropy).curvature().operator.dense()
    lam = torch.linalg.eigvalsh((dense + dense.mT) / 2)
    A = Operator.of(dense)  # the same products, sooner
    true = lam.sum().item(), lam.norm().item()
    thresholds = [-0.01, 0.001, 0.02, 0.2]
    missed = [0] * 6
    for seed in range(60):
        g = torch.Generator().manual_seed(seed)
        space = krylov_space(A, steps=12, generator=g)
        found = [*symmetric_moments(A, within=space, samples=10, generator=g)]
        density = spectral_density(A, samples=4, steps=12, generator=g)
        found += [density.below(t) for t in thresholds]
        want = [*true, *((lam <= t).double().mean().item() for t in thresholds)]
        for i, (e, w) in enumerate(zip(found, want, strict=True)):
            missed[i] += not e.low <= w <= e.high
        top = extreme_eigenvalues(space).top[0]
        assert top.low <= lam[-1].item() + 1e-12
        assert lam[-1].item() <= top.high
    assert max(missed) <= 3, missed


def test_refusals(as_users_see_it):
    net, x, y = nn.Linear(3, 2), torch.ones(4, 3), torch.zeros(4, 2)
    s = Subject(net, x, y, F.mse_loss)
    with pytest.raises(Refusal, match="`kind` must be one of hessian, gauss-newton, fisher"):
        s.curvature("newton")
    with pytest.raises(Refusal, match="`layers` must name modules, got 'head'"):
        Subject(nn.Sequential(net), x, y, F.mse_loss).curvature(layers=["head"])
    for kind in ("hessian", "fisher"):
        with pytest.raises(Refusal, match="depends on targets and a loss, got none"):
            Subject(net, x).curvature(kind)
    with pytest.raises(Refusal, match="needs one loss per sample"):
        Subject(net, x, 1.0, lambda o, t: (o - t).square().mean()).curvature("fisher")
    with pytest.raises(Refusal, match="must return a scalar"):
        Subject(net, x, y, lambda o, t: o - t).curvature()
    for name in ("inplace-residual", "bag-of-words"):
        with pytest.raises(Refusal, match=r"stay as it was|must be differentiable"):
            one_product(name)
    with pytest.raises(Refusal, match="There must be parameters that require gradients"):
        subject("all-frozen").curvature()
    taken = Subject(mlp(inputs=3, outputs=2, depth=2, width=4), x, y, F.mse_loss)
    operator = taken.curvature().operator
    with torch.no_grad():
        list(taken.model.parameters())[-2].add_(1)
    with pytest.raises(Refusal, match="take the curvature again"):
        operator.apply(torch.ones(operator.shape[0], 1))


@pytest.mark.parametrize("name", ["batchnorm-train", "dropout", "layernorm"])
def test_held_once_for_all_products_are_the_same_and_nothing_is_lost(name, monkeypatch):
    s = subject(name)
    times = []

    def counted(model, **more):
        times.append(model)
        return still(model, **more)

    monkeypatch.setattr("sigmascope.models.gradients.still", counted)
    curved = s.curvature()
    v = torch.ones(curved.operator.shape[0], 1, dtype=torch.float64)
    alone = curved.operator.apply(v)
    before, taken = fingerprint(model=s.model), len(times)
    with curved.held():
        held = [curved.operator.apply(v) for _ in range(3)]
        assert len(times) == taken + 1
    assert all(torch.equal(alone, one) for one in held)
    with pytest.raises(KeyError), curved.held():
        raise KeyError
    assert not differences(before, fingerprint(model=s.model))
    assert torch.equal(curved.operator.apply(v), alone)
    assert len(times) == taken + 3


# ------------------------------------------------------------------------------
# Parameters and buffers moved for a while.


def test_what_is_moved_comes_back_also_after_an_error():
    net = mlp(inputs=3, outputs=2, depth=1, width=4)
    before = [(p.data_ptr(), p._version, p.clone()) for p in net.parameters()]
    with moved(net, {"readout.bias": torch.ones(2)}):
        assert not torch.equal(net.readout.bias, before[-1][2])
    with pytest.raises(RuntimeError), moved(net, {"readout.bias": torch.ones(2)}):
        net(torch.ones(1, 7))
    for p, (at, version, value) in zip(net.parameters(), before, strict=True):
        assert (p.data_ptr(), p._version) == (at, version)
        assert torch.equal(p, value)


def test_steps_are_added_in_the_precision_of_what_is_moved():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    weight, mean = net[0].weight.clone(), net[1].running_mean.clone()
    step = {"0.weight": torch.full((3, 2), 0.5, dtype=torch.float64), "1.running_mean": mean + 2}
    with moved(net, step):
        assert net[0].weight.dtype == torch.float32
        assert torch.equal(net[0].weight, weight + 0.5)
        assert net[1].running_mean.tolist() == [2, 2, 2]
    assert net[1].running_mean.tolist() == [0, 0, 0]


def test_what_there_is_not_cannot_be_moved():
    net = torch.nn.Linear(2, 3)
    with pytest.raises(KeyError, match="wieght"), moved(net, {"wieght": torch.ones(3, 2)}):
        raise AssertionError


# ------------------------------------------------------------------------------
# Finite differences, next to second derivatives by autograd.


def test_the_self_check_finds_a_wrong_second_derivative():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, *grads):
            (x,) = ctx.saved_tensors
            return grads[0] * x.cos().detach()  # a constant to the second derivative

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.second(Wrong.apply(self.first(x)))

    net, x = Net().double(), torch.randn(5, 3, dtype=torch.float64)
    found = Subject(net, x, torch.zeros(5, 2, dtype=torch.float64), F.mse_loss).self_check
    assert found.gap > 1e-3


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_quadratic_loss_agrees_at_once():
    net, x = nn.Linear(3, 2).double(), torch.randn(5, 3, generator=generator(), dtype=torch.float64)
    found = Subject(net, x, torch.zeros(5, 2, dtype=torch.float64), F.mse_loss).self_check
    assert found.gap < 1e-9
    assert found.step == 1e-4  # the first that is tried


def test_without_a_loss_the_outputs_are_differenced():
    x = torch.randn(5, 3, generator=generator(), dtype=torch.float64)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    assert Subject(net, x).self_check.gap < 1e-6

    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, *grads):
            return grads[0] / 2

    net[0].register_forward_hook(lambda m, args, out: Halved.apply(out))
    assert Subject(net, x).self_check.gap > 0.1


def test_a_model_in_float32_is_checked_on_a_copy():
    net, x = nn.Linear(3, 2), torch.randn(5, 3, generator=generator())
    before = net.weight.clone()
    assert Subject(net, x, torch.zeros(5, 2), F.mse_loss).self_check.gap < 1e-9
    assert net.weight.dtype == torch.float32
    assert torch.equal(net.weight, before)


def test_rows_that_stand_for_padding_do_not_move():
    net = nn.Sequential(nn.Embedding(5, 3, padding_idx=0), nn.Flatten(), nn.Linear(6, 2)).double()
    with torch.no_grad():
        net[0].weight[0] = 1.0  # which autograd takes for constants, and differences would not
    tokens = torch.tensor([[0, 1], [2, 0], [3, 4]])
    found = Subject(net, tokens, torch.zeros(3, 2, dtype=torch.float64), F.mse_loss).self_check
    assert found.gap < 1e-6
