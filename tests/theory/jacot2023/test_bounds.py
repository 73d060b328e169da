"""Every bound on random networks; each catches its false versions."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope.networks import mlp
from sigmascope.probes import Subject
from sigmascope.probes.structure import Stack
from sigmascope.records import Estimate, Verdict
from sigmascope.theory import check, jacot2023
from sigmascope.theory.jacot2023.facts import log_volume, singular_values
from tests.models_zoo import MODELS
from tests.theory.jacot2023.stacks import stack

COUNT = 300  # the adversary draws many more
GOOD = (Verdict.HOLDS, Verdict.CONSISTENT)
ONE_POINT = {
    jacot2023.JacobianCost: None,
    jacot2023.JacobianRank: None,
    jacot2023.BottleneckFrames: None,
    jacot2023.OneFrame: 0.0,
    jacot2023.TangentCurvature: 0.0,
}


def points(slope=None, count=COUNT, **options):
    """Points at which the Jacobian has a direction."""
    found = seed = 0
    while found < count:
        net, x, y = stack(seed, slope=slope, **options)
        seed += 1
        if singular_values(net.at(x).spectrum):
            found += 1
            yield net, net.at(x), net.at(y)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("theorem", ONE_POINT, ids=lambda t: t.name)
def test_it_holds_on_random_networks(theorem):
    for _, point, _ in points(ONE_POINT[theorem]):
        found = theorem("here", point).check()
        assert found.verdict in GOOD, found
        assert any(a.met is not None for a in found.assumptions)


def chain(*factors, slope=0.0):
    """Layers of one unit."""
    weights = tuple(torch.full((1, 1), f, dtype=torch.float64) for f in factors)
    zeros = (torch.zeros(1, dtype=torch.float64),) * len(weights)
    return Stack(tuple(f"layer {i}" for i in range(len(weights))), weights, zeros, slope, False)


def at_equality(theorem):
    """A network and an input at which a theorem is an equality."""
    if theorem in (jacot2023.JacobianCost, jacot2023.TangentCurvature):
        return chain(1.3, 1.3, 1.3, 1.3).at(torch.ones(1).double())
    return chain(1.0, 1.0, 1.0, 1.0).at(torch.ones(1).double())


@pytest.mark.parametrize("theorem", ONE_POINT, ids=lambda t: t.name)
def test_it_has_teeth(theorem):
    """At equality nothing is proved; a Jacobian that is a part in a million off decides."""
    point = at_equality(theorem)
    found = theorem("here", point).check()
    assert found.verdict in GOOD
    assert found.measured.value == pytest.approx(found.limit.value, abs=1e-12)
    for factor, verdict in ((1 + 1e-6, Verdict.VIOLATED), (1 - 1e-6, Verdict.HOLDS)):
        fake = _with(point, jacobian=factor * point.jacobian)
        assert theorem("here", fake).check().verdict == verdict


def _with(point, **changes):
    """A point whose facts do not fit together."""
    fake = replace(point, stack=changes.pop("stack", point.stack))
    for name in ("jacobian", "slopes", "preactivations", "forwards", "backwards", "errors"):
        fake.__dict__[name] = changes.get(name, getattr(point, name))
    return fake


@pytest.mark.usefixtures("as_users_see_it")
def test_truncated_ranks_hold_too():
    for _, point, _ in points():
        s, depth = singular_values(point.spectrum), point.stack.depth
        for k in range(1, len(s) + 1):
            frames = jacot2023.bottleneck_frames(point, k)
            assert frames.distance.low <= frames.bound.high
            assert point.stack.weight_norm >= (k * depth + 2 * log_volume(s[:k])).low


def test_frames_are_orthonormal_and_the_printed_ones_violate_the_bound():
    for _, point, _ in points(count=100):
        found = jacot2023.bottleneck_frames(point)
        for frame in (*found.into, *found.out):
            eye = torch.eye(frame.shape[1], dtype=torch.float64)
            assert torch.allclose(frame.mT @ frame, eye, atol=1e-9)
    # linear, L = 2, unit W_1 = u and W_2 = v' at an angle of .5
    u = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    v = torch.tensor([[math.cos(0.5), math.sin(0.5)]], dtype=torch.float64)
    zeros = (torch.zeros(2).double(), torch.zeros(1).double())
    point = Stack(("a", "b"), (u, v), zeros, 1.0, False).at(torch.ones(1).double())
    bound = jacot2023.bottleneck_frames(point).bound.value
    assert bound == pytest.approx(0.2612, abs=1e-4)
    assert jacot2023.BottleneckFrames("here", point).check().verdict in GOOD
    printed = 2 * (1 - math.cos(0.5)) * 2  # each W_l against the frames of its printed projection
    assert pytest.approx(printed, abs=1e-3) == 0.4897
    assert printed > bound


@pytest.mark.usefixtures("as_users_see_it")
def test_a_balanced_network_of_small_kernel_has_small_representations():
    for net, point, _ in points():
        even = jacot2023.balance(net).at(point.x)
        assert even.stack.balance_defect() < 1e-6
        found = jacot2023.RepresentationSize("here", even).check()
        assert found.verdict in GOOD, found


@pytest.mark.usefixtures("as_users_see_it")
def test_most_representations_of_a_balanced_network_have_few_directions():
    held = seed = 0
    while held < COUNT:
        net, x, y = stack(seed, depth=2 + seed % 4, width=5)
        seed += 1
        even = jacot2023.balance(net, rounds=300)
        for theorem in jacot2023.RepresentationRank.on(even, torch.stack([x, y, (x + y) / 2])):
            found = theorem.check()
            assert found.verdict in (*GOOD, Verdict.INAPPLICABLE), found
            held += found.verdict in GOOD


def test_representation_rank_has_teeth_and_needs_balance():
    both = lambda net, x, y: list(jacot2023.RepresentationRank.on(net, torch.stack([x, y])))
    drawn = (stack(seed, depth=4, biased=False) for seed in range(20))
    net, x, y = next(d for d in drawn if both(*d))
    (theorem,) = both(jacot2023.balance(net), x, y)
    assert theorem.check().verdict in GOOD
    limit = theorem.check().limit
    for factor, verdict in ((1 + 1e-6, Verdict.VIOLATED), (1 - 1e-6, Verdict.HOLDS)):
        moved = (Estimate.exactly(factor * limit.value),) * len(theorem.values)
        assert replace(theorem, values=moved).check().verdict == verdict
    top_heavy = replace(net, weights=(10 * net.weights[0], *net.weights[1:]))
    (uneven,) = both(top_heavy, x, y)
    assert uneven.check().verdict == Verdict.INAPPLICABLE


def test_representation_size_has_teeth():
    """Of units of weight one it is an equality; rising weights let the share of norm be proved."""
    factors = [math.exp(1e-9 * k) for k in range(5)]
    point = chain(*factors, slope=1.0).at(torch.ones(1).double())
    for factor, verdict in ((1 + 1e-6, Verdict.VIOLATED), (1 - 1e-6, Verdict.HOLDS)):
        fake = _with(point, jacobian=factor * point.jacobian)
        assert jacot2023.RepresentationSize("here", fake).check().verdict == verdict


def test_of_balance_only_the_shares_of_the_norm_count():
    falling = chain(*[math.exp(-1e-6 * k) for k in range(5)], slope=1.0)
    for net, verdicts in ((falling, (Verdict.INAPPLICABLE,)), (chain(*[1.0] * 5), GOOD)):
        found = jacot2023.RepresentationSize("here", net.at(torch.ones(1).double())).check()
        assert found.verdict in verdicts
    # a network that is not balanced, and whose first layers are small
    held = 0
    for net, x, _ in (stack(seed, slope=1.0, depth=4) for seed in range(200)):
        weights = tuple(10.0 ** (k / 2) * w for k, w in enumerate(net.weights))
        point = replace(net, weights=weights).at(x)
        if singular_values(point.spectrum):
            found = jacot2023.RepresentationSize("here", point).check()
            assert found.verdict in (*GOOD, Verdict.INAPPLICABLE)
            held += found.verdict == Verdict.HOLDS
    assert held > 50


def test_balancing_keeps_the_function_and_lowers_the_norm():
    for net, point, _ in points(count=100):
        even = jacot2023.balance(net)
        assert even.norm <= net.norm * (1 + 1e-12)
        assert torch.allclose(even.at(point.x).preactivations[-1], point.preactivations[-1])


def test_the_printed_factor_1_over_n_and_missing_balance_are_caught():
    eye = (torch.eye(1, dtype=torch.float64),) * 5
    zeros = (torch.zeros(1, dtype=torch.float64),) * 5
    chain = Stack(tuple("abcde"), eye, zeros, 1.0, False).at(torch.ones(1).double())
    found = jacot2023.RepresentationSize("here", chain).check()
    assert found.measured.value == pytest.approx(5)
    assert found.limit.value == pytest.approx(5)  # with 1/64 before it, 5 > 5/64
    up, down = (math.exp(0.1) * eye[0],) * 20, (math.exp(-0.1) * eye[0],) * 20
    names = tuple(map(str, range(40)))
    uneven = Stack(names, up + down, zeros[:1] * 40, 1.0, False).at(torch.ones(1).double())
    theorem = jacot2023.RepresentationSize("here", uneven)
    assert theorem.check().verdict == Verdict.INAPPLICABLE
    assert theorem.measured().value == pytest.approx(538, rel=0.01)
    assert theorem.limit().value < 100  # 91 without what is allowed for the missing balance


def test_the_printed_2l_is_caught_and_l_is_attained():
    checks = [jacot2023.TangentCurvature("here", p).check() for _, p, _ in points(0.0, 200)]
    assert sum(c.measured.value < 2 * c.limit.value for c in checks) > 60
    one = torch.full((1, 1), 1.3, dtype=torch.float64)
    chain = Stack(tuple("abcd"), (one,) * 4, (torch.zeros(1).double(),) * 4, 0.0, False)
    found = jacot2023.TangentCurvature("here", chain.at(torch.ones(1).double())).check()
    assert found.measured.value == pytest.approx(found.limit.value)


@pytest.mark.usefixtures("as_users_see_it")
def test_jacobians_that_differ_cost_their_difference():
    for _, p, q in points(0.0):
        found = jacot2023.JacobianVariation("here", p, "", q).check()
        assert found.verdict in GOOD, found


@pytest.mark.usefixtures("as_users_see_it")
def test_kernels_on_segments_without_kinks():
    held = 0
    for net, p, q in points(0.0, 3 * COUNT, width=4):
        near = net.at(p.x + 0.05 * (q.x - p.x))
        found = jacot2023.TangentOnSegments("here", p, "", near).check()
        assert found.verdict in (*GOOD, Verdict.INAPPLICABLE), found
        held += found.verdict in GOOD
    assert held >= COUNT


def test_traces_of_the_kernel_are_those_of_autograd():
    for net, point, _ in points(count=20):
        live = [t.clone().requires_grad_() for t in (*net.weights, *net.biases)]
        half = len(net.weights)
        a = point.x
        for i, (W, b) in enumerate(zip(live[:half], live[half:], strict=True)):
            z = W @ a + b
            a = torch.where(z > 0, z, net.slope * z) if i + 1 < half else z
        total = [0.0, 0.0]
        for out in a:
            grads = torch.autograd.grad(out, live, retain_graph=True)
            for k in (0, 1):
                total[k] += sum(float(g.square().sum()) for g in grads[k * half :][:half])
        weights, biases = jacot2023.ntk_trace(point)
        assert weights == pytest.approx(total[0], rel=1e-10)
        if net.biased:
            assert biases == pytest.approx(total[1], rel=1e-10)
        trace = float(jacot2023.ntk_kernel(point).trace())
        assert trace == pytest.approx(weights + biases)


# On models


def model(**options):
    g = torch.Generator().manual_seed(0)
    return mlp(inputs=6, outputs=3, depth=3, width=10, init="he", generator=g, **options).double()


X = torch.randn(9, 6, generator=torch.Generator().manual_seed(1)).double()
NAMES = [t.name for t in jacot2023.THEOREMS]


def test_models_are_checked():
    found = list(check(Subject(model(), X), only=NAMES))
    straight = list(check(Subject(model(activation="linear"), X), only=NAMES))
    said = {c.theorem for c in found + straight}
    assert said >= set(NAMES) - {"representation-rank"}
    assert Verdict.VIOLATED not in {c.verdict for c in found}
    assert Verdict.HOLDS in {c.verdict for c in found if c.theorem == "bottleneck-frames"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"norm": "batch"}, "something else than one activation"),
        ({"activation": "tanh"}, "something else than one activation"),
        ({"residual": 0.5}, "something else than one activation"),
    ],
)
def test_other_networks_are_declined_with_the_reason(options, says):
    found = list(check(Subject(model(**options), X), only=NAMES))
    assert {c.verdict for c in found} == {Verdict.INAPPLICABLE}
    assert all(says in c.assumptions[0].says for c in found)


def test_a_convolution_is_unfolded():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(32, 3)
    ).double()
    x = torch.randn(4, 1, 4, 4).double()
    found = Subject(net, x).stack
    assert found.slope == 0.2
    assert [tuple(w.shape) for w in found.weights] == [(32, 16), (3, 32)]
    for i in range(4):
        assert torch.allclose(found.at(x[i].flatten()).preactivations[-1], net(x)[i])


@pytest.mark.parametrize("name", MODELS)
def test_stacks_of_the_zoo_compute_what_the_model_does_or_say_why_not(name):
    net, batch = MODELS[name]()
    subject = Subject(net, batch)
    found = subject.stack
    if isinstance(found, str):
        assert len(found) > 10
        return
    out, rows = subject.output.flatten(1).double(), subject.batch.flatten(1).double()
    for i in range(3):
        got = found.at(rows[i]).preactivations[-1]
        assert torch.allclose(got, out[i], rtol=1e-2, atol=1e-3)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("k", [0, 2, -1])
def test_more_or_fewer_frames_than_there_are_directions_are_refused(k):
    point = chain(1.0, 1.0).at(torch.ones(1).double())
    assert len(jacot2023.bottleneck_frames(point, 1).into) == 2
    with pytest.raises(ValueError, match=f"between 1 and the rank 1 of the Jacobian here, got {k}"):
        jacot2023.bottleneck_frames(point, k)
