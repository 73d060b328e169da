import re
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import random_states
from sigmascope.models.gradients import trial_gradients
from sigmascope.models.networks import resnet
from sigmascope.theory.le2022 import conservation
from sigmascope.theory.le2022.conservation.invariants import formula, reason
from sigmascope.theory.symmetry import Symmetry
from tests.theory.le2022.conservation.two_layers import X, Y, balances, dense
from tests.theory.le2022.networks import KINDS

EXACT = 1e-12  # relative rate of what is conserved
SEEDS = range(3)
# what each kind of network must be found to conserve: kind, units, blocks of units that mix
EXPECTED = {
    "linear": ["matrix 6/1", "matrix 7/1", "matrix 4/1"],
    "absolute": ["neuron 6/6", "neuron 4/4"],
    "conv_conv": ["matrix 4/1"],
    "conv_reflect": ["matrix 4/1"],
    "conv_groups": ["matrix 12/4"],
    "conv_depthwise": ["neuron 4/4", "neuron 4/4"],
    "conv_pool_dense": ["matrix 4/1"],
    "conv_relu_pool_dense": ["neuron 4/4"],
    "global_pool": ["matrix 4/1"],
    "transposed_conv": ["matrix 3/1", "neuron 4/4"],
    "resnet_free": ["matrix 6/1", "matrix 7/1", "matrix 4/1", "matrix 6/1"],
    "conv_resnet_free": ["matrix 3/1", "matrix 4/1", "matrix 5/1"],
    "resnet_diagonal": ["neuron 4/4", "neuron 5/5", "neuron 4/4", "neuron 5/5"],
    "concat": ["matrix 4/1", "matrix 3/1"],
    "batch_norm": ["norm 4/4", "norm 5/5", "neuron 4/4", "neuron 5/5", *2 * ["no gradient"]],
    "layer_norm": ["norm 1/1", "matrix 4/1", "neuron 6/6", "column sum", "column sum"],
    "rms_norm": ["norm 1/1", "neuron 6/6"],
    "group_norm": ["norm 3/3", "neuron 6/6"],
    "weight_norm": ["norm 6/6", "norm 4/4", "layer 1/1", "neuron 4/4"],
    "dropout": ["neuron 8/8"],
    "pre_norm_block": ["matrix 8/2", "neuron 8/8", "matrix 8/2", "no gradient"],
    "rope": ["neuron 4/4", "neuron 8/8", "matrix 8/2"],
    "grouped_queries": ["matrix 4/2", "neuron 8/8", "matrix 4/2", "no gradient"],
    "qk_norm": ["norm 2/2", "neuron 8/8", "norm 2/2", "matrix 8/2"],
    "swiglu": ["neuron 6/6"],
    "reglu": ["neuron 6/6", "neuron 6/6"],
    "tied_autoencoder": [],
    "tied_embedding": ["matrix 5/1"],
    "lora": ["matrix 3/1"],
}  # fmt: skip
# a block with ReLU between its weights: pairs of equal patterns come and go with the seed
HALF = {"relu", "leaky", "few_samples", "resnet_free_relu", "resnet_free_outer_relu",
        "resnet_identity", "layer_scale", "residual_norm", "relu_rnn", "bert", "gpt2"}  # fmt: skip


def in_words(invariant):
    what = invariant.what
    if not isinstance(what, Symmetry):
        return invariant.kind
    if invariant.kind == "pair":  # as many as the seed gives
        return f"neuron {what.units}/{what.units}"
    return f"{invariant.kind} {what.units}/{len(set(what.blocks.tolist()))}"


def test_every_kind_is_expected():
    assert set(KINDS) == set(EXPECTED) | HALF


@pytest.mark.parametrize("seeds", [SEEDS[:1], pytest.param(SEEDS, marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("name", KINDS)
def test_what_is_claimed_is_conserved_and_what_is_not_claimed_is_not(name, seeds):
    with random_states(0):  # of dropout, which else draws what other tests left
        require_exact_claims(name, seeds)


@pytest.mark.slow
@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("name", KINDS)
def test_the_same_on_two_hundred_networks_of_every_kind(name):
    require_exact_claims(name, range(200))


def require_exact_claims(name, seeds):
    outside = []
    for seed in seeds:
        model, batch = KINDS[name](seed)
        found = conservation.conserved(model, batch)
        assert not found.broken
        parameters = dict(model.named_parameters())
        for s in range(2):  # two losses
            g = torch.Generator().manual_seed(100 + s)
            gradients = dict(trial_gradients(model, batch, generator=g))
            for invariant in found.invariants:
                change = invariant.change(parameters, gradients).abs().max()
                size = 1e-300 + largest(invariant, parameters, gradients)
                assert change <= EXACT * size, (seed, invariant.kind, invariant.tensors)
            scalings = [i.what for i in found.invariants if isinstance(i.what, Symmetry)]
            outside += [rates_outside(what, parameters, gradients) for what in scalings]
    rates = torch.cat([r for r in outside if r is not None] or [torch.ones(0)])
    assert not len(rates) or (rates > EXACT).double().mean() > 0.85  # dead units have no rate


def largest(invariant, parameters, gradients):
    """Size of the terms that cancel."""
    if not isinstance(invariant.what, Symmetry):
        return max(float(g.abs().max()) for g in gradients.values()) * invariant.what.terms
    return invariant.size(parameters, gradients)


def rates_outside(what, parameters, gradients):
    """`d/dt` of every entry outside the mask, relative to the largest product of slabs."""
    total, size = 0.0, 1e-300
    for part in what.parts:
        a, b = (part.slabs(t[part.tensor].detach()) for t in (parameters, gradients))
        total = total + part.factor * (a @ b.mT + b @ a.mT)
        size = max(size, float((a.norm(dim=1)[:, None] * b.norm(dim=1)).max()))
    return (total / size).abs()[~what.mask] if isinstance(total, torch.Tensor) else None


@pytest.mark.parametrize("name", EXPECTED)
def test_nothing_that_the_theory_conserves_is_missed(name):
    for seed in SEEDS:
        model, batch = KINDS[name](seed)
        found = conservation.invariants(model, batch)
        block = hasattr(model, "o")  # of a transformer; its neurons are those of "relu"
        counted = [i for i in found if not block or i.tensors[0] != "down.weight"]
        assert len(found) - len(counted) == block
        assert sorted(map(in_words, counted)) == sorted(EXPECTED[name]), seed


def test_pairs_of_neurons_are_those_of_equal_patterns():
    for seed in range(20):
        model, (x,) = KINDS["few_samples"](seed)
        (found,) = conservation.invariants(model, x)
        h = model[0](x).detach()
        active = h > 0
        assert torch.equal(found.what.mask, (active[:, :, None] == active[:, None]).all(0))
        clear = conservation.equal_pattern_mask(h)
        assert torch.equal(found.what.mask & clear.diagonal()[:, None], clear)


def test_the_rate_outside_the_mask_is_the_closed_form():
    """d/dt(...)_uv = Σ_i (d_iv - d_iu)(z_iu δ_iv - δ_iu z_iv), the sheet's section 5."""
    for seed in range(30):
        g = torch.Generator().manual_seed(seed)
        draw = lambda *s, g=g: torch.randn(*s, generator=g, dtype=torch.float64, requires_grad=True)
        W1, b1, W2, x = draw(6, 4), draw(6), draw(3, 6), draw(5, 4).detach()
        z = x @ W1.T + b1
        a = F.relu(z)
        delta, *grads = torch.autograd.grad((a @ W2.T).pow(3).sum(), (a, W1, b1, W2))
        d = (z > 0).double()
        expected = torch.einsum("iuv,iu,iv->uv", d[:, None] - d[:, :, None], z, delta)
        expected = expected - torch.einsum("iuv,iu,iv->uv", d[:, None] - d[:, :, None], delta, z)
        net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3, bias=False)).double()
        (found,) = conservation.invariants(net, x)
        names = {"0.weight": W1, "0.bias": b1, "2.weight": W2}
        slopes = dict(zip(names, grads, strict=True))
        got = 0.0
        for part in found.what.parts:
            p, q = (part.slabs(t[part.tensor].detach()) for t in (names, slopes))
            got = got - part.factor * (p @ q.mT + q @ p.mT)
        assert torch.allclose(
            got, expected.detach(), rtol=1e-12, atol=1e-12 * float(got.abs().max())
        )


def test_values_are_the_formulas_of_the_theory():
    model, (x,) = KINDS["linear"](0)
    parameters = dict(model.named_parameters())
    first = conservation.invariants(model, x)[0]
    W1, b1, W2 = (parameters[n] for n in ("0.weight", "0.bias", "2.weight"))
    expected = W2.T @ W2 - W1 @ W1.T - torch.outer(b1, b1)
    assert torch.allclose(first.value(parameters), expected)
    assert first.count == 21


def test_values_of_convolutions_use_the_flattenings_of_the_theory():
    model, (x,) = KINDS["conv_pool_dense"](0)
    parameters = dict(model.named_parameters())
    (found,) = conservation.invariants(model, x)
    K, b, W = (parameters[n].detach() for n in ("0.weight", "0.bias", "3.weight"))
    out = torch.cat([K.reshape(4, -1), b[:, None]], 1)
    inner = W.reshape(3, 4, 9).permute(0, 2, 1).reshape(27, 4)
    assert torch.allclose(found.value(parameters), inner.T @ inner - out @ out.T)
    naive = W.reshape(27, 4)
    assert not torch.allclose(found.value(parameters), naive.T @ naive - out @ out.T)


def test_a_resnet_with_batch_normalisation_has_a_balance_at_every_norm():
    net = resnet(inputs=(3, 16, 16), outputs=4, width=4)
    kinds = [i.kind for i in conservation.invariants(net, torch.randn(2, 3, 16, 16))]
    assert kinds.count("norm") == sum(isinstance(m, nn.BatchNorm2d) for m in net.modules())
    assert kinds.count("neuron") > 9


@pytest.mark.parametrize("act", [nn.Identity, nn.ReLU])
def test_the_rate_is_the_derivative_along_the_flow(act):
    """`Q` is quadratic: its central difference along any direction is exact."""
    net = dense(4, 5, 3, act=act)
    weights = {n: p.detach() for n, p in net.named_parameters()}
    g = torch.Generator().manual_seed(2)
    pull = {n: torch.randn(p.shape, generator=g, dtype=torch.float64) for n, p in weights.items()}
    for found in balances(net):
        ends = [
            found.value({n: p - side * 0.1 * pull[n] for n, p in weights.items()})
            for side in (1, -1)
        ]
        assert torch.allclose(found.change(weights, pull), (ends[0] - ends[1]) / 0.2)


def test_the_rate_of_a_sum_is_the_sum_of_the_gradient():
    net = dense(4, 5, 3)
    found = conservation.invariants(net, X, targets=Y, loss=F.cross_entropy)
    (sums, *_) = [i for i in found if i.kind == "column sum"]
    tensor = sums.tensors[0]
    weights = dict(net.named_parameters())
    pull = {n: torch.ones_like(p) for n, p in weights.items()}
    assert torch.equal(sums.change(weights, pull), -pull[tensor].sum(sums.what.axes))


def test_formulas_show_every_sign():
    (found,) = balances(dense(4, 5, 3))
    assert formula(found).startswith("W₂ᵀW₂ - W₁W₁ᵀ - bbᵀ with ")
    parts = tuple(replace(p, factor=-p.factor) for p in found.what.parts)
    turned = replace(found, what=replace(found.what, parts=parts))
    assert formula(turned).startswith("-W₂ᵀW₂ + W₁W₁ᵀ + bbᵀ with ")


@pytest.mark.parametrize("name", KINDS)
def test_no_two_terms_of_a_balance_read_alike(name):
    for found in conservation.conserved(*KINDS[name](0)).invariants:
        if isinstance(found.what, Symmetry):
            terms, _, places = formula(found).partition(" with ")
            shown = re.split(r" [+-] ", terms.removeprefix("-"))
            assert len({*shown}) == len(found.what.parts)
            named = [n.replace("'", "") for n in re.split(r", (?=[Wb])", places) if n]
            assert len({*named}) == (len(shown) if places else 0)


def test_rows_of_queries_keys_and_values_are_named():
    found = conservation.conserved(*KINDS["gpt2"](0)).invariants
    said = " ".join(formula(i) for i in found if isinstance(i.what, Symmetry))
    for rows in ("[:, 0:8]", "[:, 8:16]", "[:, 16:24]"):
        assert f"h.0.attn.c_attn.weight{rows}" in said


def test_reasons_name_what_stands_between():
    (linear,) = balances(dense(4, 5, 3))
    assert (
        reason(linear) == "only linear maps between: any mixing of units passes to the next weights"
    )
    bent = [reason(i) for i in balances(dense(4, 5, 3, act=nn.ReLU))]
    assert all(said.startswith("an activation with two slopes between: ") for said in bent)
    normed = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double()
    said = {i.kind: reason(i) for i in balances(normed)}
    assert said["norm"] == "a common factor is divided out again; up to the eps of a normaliser"
    assert said["neuron"] == (
        "an activation with two slopes and a gain of each unit between: a factor of each unit "
        "passes to the next weights"
    )
    sums = conservation.invariants(dense(4, 3), X, targets=Y, loss=F.cross_entropy)
    assert {reason(i) for i in sums} == {
        "what is added along these axes is subtracted again by a softmax or a mean"
    }


def test_a_still_sum_is_as_large_as_the_largest_entry_it_is_of():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
    x, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])
    found = conservation.invariants(net, x, targets=y, loss=F.cross_entropy)
    still = [i for i in found if i.kind == "column sum"]
    parameters = dict(net.named_parameters())
    assert {i.tensors[0] for i in still} == {"2.weight", "2.bias"}
    for claim in still:
        largest = float(parameters[claim.tensors[0]].detach().abs().max())
        assert claim.size(parameters, parameters) == pytest.approx(largest)
