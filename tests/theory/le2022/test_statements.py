"""What the paper states and no theorem of the catalogue says: both sides, each by itself."""

import math
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope.theory import le2022
from sigmascope.theory.le2022 import conservation
from sigmascope.theory.le2022.ranks import InnerLayer
from sigmascope.theory.neuron_graph import (
    bend,
    dag_forward,
    path_enumeration,
    pull_back,
    signed,
    tree_forward,
    tree_network,
    unroll,
)
from tests.theory.graphs import SLOPES, close, random_dag
from tests.theory.le2022.conservation.two_layers import dense

SEEDS = st.integers(0, 2**32)
real = st.floats(-1e3, 1e3)


def gradient(dag, x, w):
    live = w.clone().requires_grad_()
    (found,) = torch.autograd.grad(dag_forward(dag, x, live), live)
    return found


# ------------------------------------------------------------------------------
# Paths and trees.


@given(st.sampled_from(SLOPES), real, real)
def test_a_weight_above_a_neuron_is_pulled_through_it_up_to_its_sign(slopes, z, c):
    """σ(z) c = sgn(c) σ(|c| z); not for the weight itself where the neuron bends."""
    z, c = torch.tensor([z, c], dtype=torch.float64)
    assert close(bend(z, slopes) * c, c.sign() * bend(c.abs() * z, slopes))
    if slopes[0] != slopes[1] and c < -1e-3 and z > 1e-3:
        assert not close(bend(z, slopes) * c, bend(c * z, slopes))


@given(SEEDS)
def test_the_derivative_by_a_weight_is_a_sum_over_the_paths_through_it(seed):
    """Each path with its slopes, its input and all weights on it but that one."""
    dag, x, w = random_dag(seed)
    tree = unroll(dag)
    h = path_enumeration(dag, x, w).requires_grad_()
    bare = signed(pull_back(tree_network(tree, w)))
    (slopes,) = torch.autograd.grad(tree_forward(bare, h), h)
    found = torch.zeros_like(w)
    for path, at, slope in zip(map(tree.path, tree.leaves), tree.leaves, slopes, strict=True):
        read = x[dag.inputs.index(tree.vertex[at])]
        for e in path:
            rest = [w[other] for other in path if other != e]
            found[e] += slope * read * math.prod(rest)
    assert torch.allclose(found, gradient(dag, x, w), rtol=1e-9, atol=1e-9)


def test_the_output_is_the_sum_over_paths_of_their_values_times_the_slopes_on_them():
    """Eq. (1), with slopes read off the neurons of the network; of ReLU they are 0 or 1."""
    seen = set()
    for seed in range(60):
        dag, x, w = random_dag(seed)
        if not seed % 2:
            dag = replace(dag, slopes=dag.slopes[:3] + ((1.0, 0.0),) * (len(dag.slopes) - 3))
        tree, values = unroll(dag), _sums(dag, x, w)
        words = [_slopes_on(dag, tree, at, values) for at in tree.leaves]
        if None in words:
            continue
        a = [math.prod(word) for word in words]
        h = path_enumeration(dag, x, w)
        assert close((torch.tensor(a, dtype=torch.float64) * h).sum(), dag_forward(dag, x, w))
        if not seed % 2:
            assert [v == 1 for v in a] == [all(word) for word in words]
            seen |= set(a)
    assert seen == {0, 1}


def test_paths_whose_neurons_have_equal_slopes_have_equal_derivatives():
    """Of paths of one length; where a slope differs they differ, but for chance."""
    same = other = 0
    for seed in range(60):
        dag, x, w = random_dag(seed)
        tree = unroll(dag)
        h = path_enumeration(dag, x, w).requires_grad_()
        (slopes,) = torch.autograd.grad(
            tree_forward(signed(pull_back(tree_network(tree, w))), h), h
        )
        values = _sums(dag, x, w)
        words = [_slopes_on(dag, tree, at, values) for at in tree.leaves]
        for i, j in combinations(range(len(words)), 2):
            if words[i] is None or words[j] is None or len(words[i]) != len(words[j]):
                continue
            if words[i] == words[j]:
                assert close(slopes[i], slopes[j])
                same += 1
            elif math.prod(words[i]) != math.prod(words[j]):
                assert not close(slopes[i], slopes[j])
                other += 1
    assert same > 100
    assert other > 100


def _sums(dag, x, w):
    """What every neuron bends."""
    values = dict(zip(dag.inputs, x, strict=True))
    arriving = dag.arriving()
    sums = {}
    for v in dag.order():
        if v in values:
            sums[v] = values[v]
            continue
        sums[v] = sum((w[e] * values[dag.edges[e].tail] for e in arriving.get(v, [])), 0 * x[0])
        values[v] = bend(sums[v], dag.slopes[v])
    return sums


def _slopes_on(dag, tree, leaf, sums):
    """Slopes along a path from the root down; nothing where a neuron is at its kink."""
    found, at = [], leaf
    while True:
        v = tree.vertex[at]
        if v not in dag.inputs:
            if float(sums[v]) == 0:
                return None
            found.append(dag.slopes[v][0 if sums[v] > 0 else 1])
        if at == 0:
            return tuple(reversed(found))
        at = tree.parent[at]


# ------------------------------------------------------------------------------
# Balances of a graph.


@given(SEEDS)
def test_what_arrives_at_a_neuron_is_in_balance_with_what_leaves_it(seed):
    """Σ w ∂f/∂w over the edges in equals that over the edges out, for any slopes and skips."""
    dag, x, w = random_dag(seed)
    share = w * gradient(dag, x, w)
    arriving, leaving = dag.arriving(), dag.leaving()
    for v in {e.head for e in dag.edges} & {e.tail for e in dag.edges}:
        assert close(share[arriving[v]].sum(), share[leaving[v]].sum())


@given(SEEDS, st.integers(0, 2**9 - 1))
def test_sets_of_edges_that_every_path_crosses_once_are_in_balance(seed, side):
    """Any cut of vertices that nothing leads back into; not the edges out of one input alone."""
    dag, x, w = random_dag(seed)
    share = w * gradient(dag, x, w)
    behind = {v for v in dag.order() if side >> v & 1 or v == dag.output} - {*dag.inputs}
    for v in dag.order():  # what reads from behind the cut is behind it
        if any(dag.edges[e].tail in behind for e in dag.arriving().get(v, [])):
            behind.add(v)
    cut = [i for i, e in enumerate(dag.edges) if e.head in behind and e.tail not in behind]
    reached = _reaching(dag)
    cut = [i for i in cut if dag.edges[i].head in reached]
    last = dag.arriving()[dag.output]
    assert close(share[cut].sum(), share[last].sum())


def _reaching(dag):
    found, leaving = {dag.output}, dag.leaving()
    for v in reversed(dag.order()):
        if any(dag.edges[e].head in found for e in leaving.get(v, [])):
            found.add(v)
    return found


# ------------------------------------------------------------------------------
# What is not conserved.

LOSSES = {
    "logistic": lambda out, y: F.softplus(-out[:, 0] * (2.0 * y - 1)).mean(),
    "exponential": lambda out, y: (-out[:, 0] * (2.0 * y - 1)).exp().mean(),
    "squared": lambda out, y: (out[:, 0] - y).square().mean(),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_products_of_two_relus_of_which_one_is_off_are_not_conserved(loss):
    """One sample, unit 0 on and unit 1 off: of the rates that would have to agree one is zero."""
    W1 = torch.tensor([[1.0, 2.0], [-1.0, -1.0]], dtype=torch.float64, requires_grad=True)
    W2 = torch.tensor([[0.5, 1.5]], dtype=torch.float64, requires_grad=True)
    x, y = torch.tensor([[1.0, 1.0]], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    found = LOSSES[loss](F.relu(x @ W1.mT) @ W2.mT, y)
    g1, g2 = torch.autograd.grad(found, (W1, W2))
    above = -(g2.mT @ W2 + W2.mT @ g2).detach()  # d/dt of W₂ᵀW₂
    below = -(g1 @ W1.mT + W1 @ g1.mT).detach()  # d/dt of W₁W₁ᵀ
    assert torch.allclose(above.diagonal(), below.diagonal())
    gap = float((above - below)[0, 1])
    assert abs(gap) > 0.05 * float(above.abs().max())
    # Σ (d_v - d_u)(z_u δ_v - δ_u z_v), with z = (3, -2) and δ = W₂ᵀ times the loss's slope
    slope = float(g2[0, 0].detach()) / 3
    z, d = (3.0, -2.0), (1.0, 0.0)
    delta = tuple(slope * float(w) for w in W2.detach()[0])
    assert gap == pytest.approx((d[1] - d[0]) * (z[0] * delta[1] - delta[0] * z[1]))


def test_with_one_sample_what_is_not_conserved_has_rank_two_on_either_side_and_four_between():
    for samples in (1, 2):
        ranks = []
        for seed in range(20):
            net = dense(6, 12, 10, 1, act=nn.ReLU, seed=seed, bias=False)
            g = torch.Generator().manual_seed(seed)
            x = torch.randn(samples, 6, generator=g, dtype=torch.float64)
            W1, W2 = net[0].weight, net[2].weight
            loss = F.softplus(-net(x)).mean()
            g1, g2 = torch.autograd.grad(loss, (W1, W2))
            above, below = g2.mT @ W2 + W2.mT @ g2, g1 @ W1.mT + W1 @ g1.mT
            ranks.append([int(torch.linalg.matrix_rank(m)) for m in (above, below, above - below)])
        assert [max(r) for r in zip(*ranks, strict=True)] == [
            2 * samples, 2 * samples, 4 * samples
        ]  # fmt: skip


# ------------------------------------------------------------------------------
# Signs and directions.


@given(st.lists(st.floats(-1, 1).filter(lambda v: abs(v) > 1e-3), min_size=1, max_size=8), SEEDS)
def test_a_direction_near_one_without_zeros_has_its_signs(limit, seed):
    """Nearer than its smallest entry; at that distance a sign may be lost."""
    v = torch.tensor(limit, dtype=torch.float64)
    v = v / v.norm()
    least = float(v.abs().min())
    g = torch.Generator().manual_seed(seed)
    off = 2 * torch.rand(len(v), generator=g, dtype=torch.float64) - 1
    near = v + (1 - 1e-6) * least * off / off.abs().max()
    assert torch.equal(near.sign(), v.sign())
    worst = v.clone()
    worst[v.abs().argmin()] -= (1 + 1e-6) * v[v.abs().argmin()]
    assert float((worst - v).abs().max()) <= (1 + 1e-5) * least
    assert not torch.equal(worst.sign(), v.sign())


def test_a_direction_that_converges_may_cross_a_kink_again_and_again():
    """(t, sin t) tends to the first axis in direction, and a ReLU that reads both never settles."""
    path = lambda t: torch.tensor([t, math.sin(t)], dtype=torch.float64)
    record = le2022.SignRecord()
    net = nn.Sequential(nn.Linear(2, 1, bias=False), nn.ReLU()).double()
    x = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    flips = 0
    for step, t in enumerate(math.pi * (k + 0.5) for k in range(200)):
        w = path(t)
        net[0].weight.data.copy_(w)
        assert float((w / w.norm() - torch.tensor([1.0, 0.0])).norm()) <= 1 / t
        found = record.look(net, x, step=step)
        flips += found["0.weight"].flipped > 0
        assert step == 0 or found["0.weight"].since == step
        assert step == 0 or any(s.flipped > 0 for n, s in found.items() if n != "0.weight")
    assert flips == 199


# ------------------------------------------------------------------------------
# Near rank one.


@given(SEEDS, st.integers(1, 6), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3))
def test_two_flattenings_of_a_kernel_have_largest_values_within_a_factor(seed, a, b, k1, k2):
    g = torch.Generator().manual_seed(seed)
    K = torch.randn(b, a, k1, k2, generator=g, dtype=torch.float64)
    out, into = (
        float(torch.linalg.matrix_norm(m, 2)) ** 2
        for m in (K.reshape(b, -1), K.permute(0, 2, 3, 1).reshape(-1, a))
    )
    assert out <= (1 + 1e-9) * min(a, k1 * k2) * into
    assert into <= (1 + 1e-9) * min(b, k1 * k2) * out


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_factor_between_flattenings_is_attained(n):
    """Tap i reads channel i into the one output: one row of norm √n, n columns of norm 1."""
    K = torch.eye(n, dtype=torch.float64).reshape(1, n, n, 1)
    out = float(torch.linalg.matrix_norm(K.reshape(1, -1), 2)) ** 2
    into = float(torch.linalg.matrix_norm(K.permute(0, 2, 3, 1).reshape(-1, n), 2)) ** 2
    assert out == pytest.approx(n * into)


@pytest.mark.parametrize("seed", range(4))
def test_layers_that_grow_in_balance_tend_to_rank_one(seed):
    """Two layers below a row that grows, the balances kept: the ratio tends to 1, from below."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)
    row = draw(1, 5)
    kept = [(lambda m: m @ m.mT)(draw(5, 5)) for _ in range(2)]  # W Wᵀ - above, positive
    ratios = []
    for size in (1.0, 1e1, 1e2, 1e4):
        above = size * row
        weights = []
        for C in kept:
            weights.append(torch.linalg.cholesky(above.mT @ above + C))
            above = weights[-1]
        layers = [InnerLayer(f"{i}", w, w) for i, w in enumerate(reversed(weights))]
        found = le2022.rank_one_bound(layers, size * row)
        assert all(b.S == 1 for b in found)
        assert all(b.ratio >= b.least - 1e-9 for b in found)
        ratios.append(min(b.ratio for b in found))
    assert all(a < b for a, b in pairwise(ratios))
    assert ratios[-1] > 1 - 1e-4


def test_a_relu_network_with_a_linear_tail_aligns_under_the_logistic_loss():
    """Separable points, small start, a hundredth of the loss left: the last weights align."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(40, 8, generator=g, dtype=torch.float64)
    y = x[:, 0].sign()
    x[:, 0] += 0.5 * y
    net = nn.Sequential(
        nn.Linear(8, 10, bias=False), nn.ReLU(), nn.Linear(10, 8, bias=False),
        nn.Linear(8, 8, bias=False), nn.Linear(8, 1, bias=False),
    ).double()  # fmt: skip
    for p in net.parameters():
        start = torch.randn(p.shape, generator=g, dtype=torch.float64)
        p.data.copy_(0.2 * start / p.shape[1] ** 0.5)
    tail = [net[2].weight, net[3].weight, net[4].weight]
    starts = [le2022.alignment(a.detach(), b.detach()).value for a, b in pairwise(tail)]
    balance = lambda: tail[2].mT @ tail[2] - tail[1] @ tail[1].mT
    ratio = lambda w: float(torch.linalg.matrix_norm(w.detach(), 2) / w.detach().norm()) ** 2
    before, spread = balance().detach(), max(map(ratio, tail[:2]))
    for _ in range(3000):
        loss = F.softplus(-y * net(x)[:, 0]).mean()
        gradients = torch.autograd.grad(loss, [*net.parameters()])
        for p, slope in zip(net.parameters(), gradients, strict=True):
            p.data.sub_(0.3 * slope)
    assert float(loss.detach()) < 0.01 * math.log(2)
    assert float((balance().detach() - before).abs().max()) < 0.02
    ends = [le2022.alignment(a.detach(), b.detach()).value for a, b in pairwise(tail)]
    assert min(ends) > 0.99 > min(starts)
    assert min(map(ratio, tail[:2])) > 0.9 > spread


def test_what_a_network_conserves_is_read_off_its_form_and_not_off_its_loss():
    """Any differentiable loss conserves the same: three of them, and one that is not smooth."""
    net = dense(4, 6, 3, 1, act=nn.ReLU)
    g = torch.Generator().manual_seed(1)
    x = torch.randn(12, 4, generator=g, dtype=torch.float64)
    y = (x[:, 0] > 0).double()
    found = conservation.invariants(net, x)
    assert found
    parameters = dict(net.named_parameters())
    for loss in (*LOSSES.values(), lambda out, y: (out[:, 0] - y).abs().mean()):
        slopes = torch.autograd.grad(loss(net(x), y), list(parameters.values()))
        named = dict(zip(parameters, slopes, strict=True))
        for one in found:
            size = 1e-300 + one.size(parameters, named)
            assert float(one.change(parameters, named).abs().max()) <= 1e-12 * size
