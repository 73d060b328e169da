from itertools import pairwise

import pytest
import torch
from affine_zoo import (
    NETWORKS,
    PIECEWISE,
    REFUSED,
    UNKNOWN,
    D,
    Doubled,
    Pooled,
    Reversed,
    built,
    hooked,
    through,
)
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.models import Subject
from sigmascope.theory.piecewise_affine import (
    activation_patterns,
    jacobian,
    local_affine,
    partition,
    region_distance,
    regions_along,
    sample_affine,
)
from sigmascope.theory.piecewise_affine.regions import Polygon
from sigmascope.theory.piecewise_affine.segments import (
    _kink_of,
    allowed,
    between,
    handwritten,
    tracing,
)
from tests.models_zoo import Net


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 50), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", NETWORKS)
def test_the_map_is_the_network_inside_its_region(kind, seeds):
    for seed in seeds:
        model, x, y = built(kind, seed)
        found = local_affine(model, x)
        reach = region_distance(model, x)
        inside = min(reach, 1.0) * 0.999 * (y - x) / (y - x).norm()
        for at in (x, x + inside, x - inside):
            mapped = found.matrix.apply(at.flatten()[:, None])[:, 0] + found.offset
            assert torch.allclose(mapped, model(at).flatten(), rtol=0, atol=1e-12)
            here = local_affine(model, at).regions
            assert all(torch.equal(a, b) for a, b in zip(here, found.regions, strict=True))


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (nn.GELU(), "got `Gelu`"),
        (nn.Tanh(), "got `Tanh`"),
        (nn.LayerNorm(6), "got `NativeLayerNorm`"),
        (nn.Softmax(1), "got `Softmax`"),
    ],
)
def test_smooth_parts_are_refused_by_name_and_have_a_jacobian(module, says):
    model = nn.Sequential(nn.Linear(5, 6), module, nn.Linear(6, 2)).double()
    x = torch.randn(1, 5, dtype=D)
    with pytest.raises(Refusal, match=says + r".*theory\.piecewise_affine\.jacobian"):
        local_affine(model, x)
    with pytest.raises(Refusal, match="boundaries of the regions must be known"):
        region_distance(model, x)
    J = jacobian(model, x)
    reference = torch.func.jacrev(model)(x).reshape(2, 5)
    assert torch.allclose(J.dense(), reference, atol=1e-14)


def product(how):
    return Net(lambda net, x: how(net.layer(x), x), layer=nn.Linear(4, 4)).double()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda a, b: a * b, "a product"),
        (lambda a, b: a @ b.mT, "a product"),
        (lambda a, b: 1 / a, "Reciprocal|division"),
    ],
)
def test_products_of_two_things_that_depend_on_the_input_are_refused(how, says):
    with pytest.raises(Refusal, match=says):
        local_affine(product(how), torch.randn(1, 4, dtype=D))


def test_products_with_constants_are_affine():
    model = product(lambda a, b: 2 * a / 3 - b)
    x = torch.randn(1, 4, dtype=D)
    expected = 2 / 3 * model.layer.weight - torch.eye(4, dtype=D)
    assert torch.allclose(local_affine(model, x).matrix.dense(), expected)


def test_batch_statistics_unknown_kinks_and_shapes_are_refused(as_users_see_it):
    norm = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).double()
    x = torch.randn(1, 3, dtype=D)
    with pytest.raises(Refusal, match="got `1`, which takes those of the batch"):
        local_affine(norm, x)
    with pytest.raises(Refusal, match="one sample with its batch dimension"):
        local_affine(norm.eval(), torch.randn(2, 3, dtype=D))
    with pytest.raises(Refusal, match="There is no module 'nowhere'"):
        local_affine(norm, x, start="nowhere")
    with pytest.raises(Refusal, match="must have the same shape"):
        regions_along(norm, x, x[:, :2])
    top = product(lambda a, b: (a + b).sort(1)[0])
    with pytest.raises(Refusal, match="got sort"):
        region_distance(top, torch.randn(1, 4, dtype=D))


def test_the_model_is_left_as_it_was():
    model, x, _ = built("batch norm")
    model.train()
    model.eval()
    modes = [m.training for m in model.modules()]
    local_affine(model, x, start="hidden.1", stop="hidden.2")
    assert [m.training for m in model.modules()] == modes
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_the_map_of_a_subject_is_that_of_its_sample():
    model, x, y = built("relu")
    s = Subject(model, torch.cat([x, y]))
    assert torch.equal(sample_affine(s, 1).matrix.dense(), local_affine(model, y).matrix.dense())
    with pytest.raises(Refusal, match="got sample 2 of 2 in a Tensor"):
        sample_affine(s, 2)


class Mine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, *grads):
        return 2 * grads[0]


def names(nodes):
    return [type(n).__name__ for n in nodes]


def test_the_nodes_that_lie_between_come_in_the_order_of_computation():
    z, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    h = z.sin()
    aside = w.exp()
    out = h.cos() * (aside + h)
    found = between([out.grad_fn], z)
    assert names(found) == ["AccumulateGrad", "SinBackward0", *names(found)[2:]]
    assert sorted(names(found)[2:4]) == ["AddBackward0", "CosBackward0"]
    assert names(found)[4:] == ["MulBackward0"]
    assert aside.grad_fn not in found


def test_nothing_lies_between_what_is_not_connected():
    z, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    assert between([w.exp().grad_fn, None], z) == {}
    assert between([], z) == {}
    assert names(between([w.exp().grad_fn, z.exp().grad_fn], z)) == [
        "AccumulateGrad",
        "ExpBackward0",
    ]


def test_a_deep_graph_is_walked_without_recursion():
    z = torch.ones(1, requires_grad=True)
    out = z
    for _ in range(3000):
        out = out + 1
    assert len(between([out.grad_fn], z)) == 3001


def test_functions_and_hooks_of_the_users_are_named():
    z = torch.ones(1, 2, requires_grad=True)
    assert handwritten(between([Mine.apply(z).exp().grad_fn], z)) == "Mine"
    assert handwritten(between([z.exp().grad_fn], z)) == ""
    net = nn.Linear(2, 2)
    net.register_full_backward_hook(lambda *_: None)
    out = net(z)  # kept: without it, an old torch forgets what its node was computed from
    assert handwritten(between([out.grad_fn], z)) == "BackwardHookFunction"


def test_the_winners_of_large_windows_are_told_apart():
    model = Pooled(17, side=19, relu=False).double()
    x = torch.randn(1, 1, 19, 19, dtype=D)
    (winners,) = local_affine(model, x).regions
    assert torch.equal(winners.flatten(), model.conv(x).flatten(2).argmax(2).flatten())
    other = x + 0
    first = int(winners.flatten()[0])
    seen = set()
    for place in (first, (first + 256) % 289):
        big = nn.functional.one_hot(torch.tensor(place), 289).reshape(1, 1, 17, 17)
        other = nn.functional.pad(100.0 * big.double(), (1, 1, 1, 1))
        with torch.no_grad():
            model.conv.weight.fill_(0)[:, :, 1, 1] = 1
        (winners,) = local_affine(model, other).regions
        seen.add(int(winners.flatten()[0]))
    assert len(seen) == 2


def kink(name, x, **more):
    return _kink_of(name, {"self": x, **more})


X = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0], dtype=D)
# what is called, which piece each entry is on, and where it would change it
POINTS = [
    ("relu", {}, [0, 0, 0, 1, 1], [0.0], False),
    ("sign", {}, [-1, -1, 0, 1, 1], [0.0], True),
    ("hardtanh", {}, [0, 1, 1, 1, 2], [-1.0, 1.0], False),
    ("clamp", {"min": None, "max": 0.25}, [0, 0, 0, 1, 1], [0.25], False),
    ("threshold", {"threshold": 0.25, "value": 0.0}, [0, 0, 0, 1, 1], [0.25], True),
    ("threshold", {"threshold": 0.5, "value": 0.5}, [0, 0, 0, 0, 1], [0.5], False),
    ("softshrink", {"lambd": 0.5}, [0, 0, 1, 1, 2], [-0.5, 0.5], False),
    ("hardshrink", {"lambd": 0.5}, [0, 0, 1, 1, 2], [-0.5, 0.5], True),
    ("gt", {"other": 0.5}, [-1, -1, -1, 0, 1], [0.5], True),
]


@pytest.mark.parametrize(("name", "more", "sides", "ends", "jumps"), POINTS)
def test_pieces_and_heights_of_what_bends_at_points(name, more, sides, ends, jumps):
    found = kink(name, X.clone().requires_grad_(), **more)
    assert found.side.tolist() == sides
    heights = found.heights.detach().reshape(5, -1)
    assert torch.equal(heights, X[:, None] - torch.tensor(ends, dtype=D))
    assert (found.known, found.jumps) == (True, jumps)


def test_what_has_no_kink_has_none():
    assert kink("mul", X, other=X) is None
    assert kink("median", X) is None  # which of them it was is not told
    assert kink("_to_copy", X, dtype=torch.float32) is None
    whether = kink("_to_copy", X.clone().requires_grad_(), dtype=torch.bool)
    assert whether.name == "bool"
    assert whether.side.tolist() == [-1, -1, 0, 1, 1]


def test_off_the_tape_heights_are_not_known():
    x = X.clone().requires_grad_()
    with tracing() as trace:
        trace.source(x)
        x.relu()
        with torch.no_grad():
            x.relu()
        x.detach().relu()
    kinks = [s.kink for s in trace.steps if s.kink is not None]
    assert [k.known for k in kinks] == [True, True, False]


@pytest.mark.parametrize("name", ["amax", "amin", "argmax"])
def test_the_largest_wins_and_others_lie_behind(name):
    x = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], dtype=D, requires_grad=True)
    found = kink(name, x, dim=[1] if name != "argmax" else 1)
    assert found.side.tolist() == ([1, 0] if name == "amin" else [0, 1])
    behind = [2, 1, 5, 4] if name == "amin" else [2, 1, 5, 1]
    assert found.heights.tolist() == behind
    assert found.jumps == (name == "argmax")
    whole = kink("max", x.detach().clone().requires_grad_())
    assert whole.side.tolist() == 4


@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": [2, 2]},
        {"kernel_size": [3], "stride": [2], "padding": [1]},
        {"kernel_size": [2, 3], "stride": [1, 2], "dilation": [2, 1]},
        {"kernel_size": [3], "stride": [2], "ceil_mode": True},
        {"kernel_size": [3], "stride": [3], "padding": [1], "ceil_mode": True},
    ],
    ids=str,
)
def test_windows_are_those_of_max_pooling(how):
    x = torch.randn(2, 3, 8, 7, generator=torch.Generator().manual_seed(0), dtype=D)
    found = kink("max_pool2d_with_indices", x.clone().requires_grad_(), **how)
    size = {k: tuple(v) if isinstance(v, list) and len(v) > 1 else v for k, v in how.items()}
    size = {k: v[0] if isinstance(v, list) else v for k, v in size.items()}
    pooled = F.max_pool2d(x, **size)
    assert torch.equal(found.windows.detach().amax(-1), pooled)
    winners = found.windows.gather(-1, found.side[..., None])[..., 0]
    assert torch.equal(winners.detach(), pooled)
    real = int(found.windows.isfinite().sum())
    assert len(found.heights) == real - pooled.numel()
    assert (found.heights > 0).all()


def test_what_sorts_tells_its_pieces_by_places_only():
    found = kink("sort", X.flip(0).clone().requires_grad_(), dim=0)
    assert found.side.tolist() == [4, 3, 2, 1, 0]
    assert not found.known


def test_what_may_vary():
    assert allowed({}, {"self", "min"})
    assert not allowed({}, {"self", "threshold"})
    assert not allowed({"training": True}, {"self"})


def test_a_function_with_its_own_derivative_is_tried_by_differences():
    model, x, _ = through(Doubled.apply)
    J = 2 * model.last.weight @ model.first.weight
    assert torch.allclose(jacobian(model, x).dense(), J)
    with pytest.raises(Refusal, match="got other differences with `Reversed`"):
        jacobian(through(Reversed.apply)[0], x)


def test_hooks_on_gradients_do_not_pass_for_slopes():
    model, x, y = through(hooked)
    with pytest.raises(Refusal, match="evaluated again, got other numbers"):
        local_affine(model, x)
    with pytest.raises(Refusal, match="evaluated again, got other numbers"):
        regions_along(model, x, y)


@pytest.mark.parametrize("units", [1, 6])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_sample_on_a_boundary_has_no_map(units, sign):
    """On one of its sides nothing changes: a unit that is off stays off."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, units, bias=False), nn.ReLU(), nn.Linear(units, 2)).double()
    model[0].weight.data = sign * model[0].weight.data.abs()
    zero = torch.zeros(1, 4, dtype=D)
    with pytest.raises(Refusal, match=r"must lie inside a region, got one where `relu`.*Move it"):
        local_affine(model, zero)
    assert region_distance(model, zero) == 0


@pytest.mark.parametrize("f", [lambda h: h * h.detach(), REFUSED["numpy"][0], lambda h: h * h.data])
def test_a_derivative_of_a_part_is_refused(f):
    model, x, _ = through(f)
    with pytest.raises(Refusal, match=r"must follow everything.*got other .*measure a"):
        jacobian(model, x)


def test_branches_that_do_not_reach_the_output_count_for_nothing():
    kept = []

    def aside(net, x):
        h = net.layer(x)
        kept.append(h.detach().tanh())
        return h.relu(), h.exp()

    x = torch.randn(1, 4, dtype=D)
    model = Net(aside, layer=nn.Linear(4, 3)).double()
    found = local_affine(model, x)
    on = (model.layer(x) > 0).double()
    assert torch.equal(found.matrix.dense(), on.mT * model.layer.weight)


def followed(f, z=None):
    """The steps behind what a function computes, by name."""
    z = torch.tensor([-1.0, 2.0, 3.0], dtype=torch.float64) if z is None else z
    z = z.requires_grad_()
    with tracing() as trace:
        trace.source(z)
        out = f(z.clone())
    return trace, out, trace.behind(out)


def test_steps_are_known_by_their_dispatched_names_however_they_are_spelled():
    for f in (lambda x: x.clip(min=0), lambda x: torch.clamp(x, 0), lambda x: x.clamp_(0)):
        steps = followed(f)[2]
        assert [s.name for s in steps if s.kink is not None] == ["clamp"]
        assert not any(s.why for s in steps)


def test_what_does_not_reach_a_tensor_is_not_behind_it():
    def f(x):
        x.exp()
        return 2 * x

    trace, out, steps = followed(f)
    assert "exp" in {s.name for s in trace.steps}
    assert {s.name for s in steps} == {"input", "clone", "mul"}
    assert trace.behind(torch.ones(3)) is None
    assert not trace.constant(out)


def test_comparisons_are_the_same_throughout_a_region():
    trace, out, steps = followed(lambda x: (x > 0).double())
    assert trace.constant(out)
    assert next(s.name for s in steps if s.constant) == "gt"
    assert not any(s.why for s in steps)


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (lambda x: x * x, "a product (`Mul`) of two things that both depend on the input"),
        (lambda x: x * torch.rand(3), "random numbers (`Rand`)"),
        (lambda x: x + torch.rand_like(x), "random numbers (`RandLike`)"),
        (lambda x: x.round(), "`Round`"),
        (lambda x: x + x.detach().exp(), "cut off from the derivative (`detach`, `.data`"),
        (lambda x: torch.view_as_complex(x[:2].clone()).real * 1, "complex numbers or bits"),
        (lambda x: x.long().double(), "numbers that are rounded to integers (`ToCopy`)"),
        (lambda x: x * float(x[0].detach()), "numbers that leave PyTorch (`item`)"),
        (lambda x: x + torch.tensor(x.detach().numpy() * 2), "leave PyTorch (`numpy`)"),
    ],
)
def test_what_keeps_a_network_from_pieces_is_named(f, says):
    with torch.random.fork_rng(devices=[]):
        steps = followed(f)[2]
    told = [s.why for s in steps if s.why]
    assert any(says in why for why in told)


def test_the_least_precise_and_the_largest_numbers_are_noted():
    trace, _, _ = followed(lambda x: x * 100)
    assert (trace.eps, trace.size) == (2.0**-52, 300.0)
    trace, _, _ = followed(lambda x: x.float() / 0 * 0 + x)
    assert trace.eps == 2.0**-23


def test_a_number_that_python_reads_is_behind_everything():
    def f(x):
        return 2 * torch.ones(3) if bool((x > 0).any()) else torch.ones(3)

    trace, _, steps = followed(f)
    assert trace.read
    assert any(s.name == "_local_scalar_dense" for s in steps)


def test_nothing_is_followed_while_deaf():
    z = torch.ones(3, requires_grad=True)
    with tracing() as trace:
        trace.source(z)
        with trace.deaf():
            z.exp()
        z.isnan()
    assert [s.name for s in trace.steps] == ["input"]


EVERYTHING = {**PIECEWISE, **UNKNOWN, **{name: f for name, (f, _) in REFUSED.items()}}
SAME = 1e-9  # of numbers of order one


def asked(question, *args):
    try:
        return question(*args)
    except Refusal:
        return None


def evaluated(model, points):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.cat([model(p).detach() for p in points])


def is_affine(model, a, b):
    """By values alone, at points between two that are in one region."""
    t = torch.tensor([0.0, 0.27, 0.5, 0.81, 1.0], dtype=D)
    f = evaluated(model, [a + s * (b - a) for s in t])
    return torch.allclose(f, f[0] + t[:, None] * (f[-1] - f[0]), rtol=0, atol=SAME)


def require_map(model, x, found):
    eye = torch.eye(x.numel(), dtype=D)[:, None]
    ahead = evaluated(model, [x + 1e-7 * e for e in eye])
    behind = evaluated(model, [x - 1e-7 * e for e in eye])
    differences = ((ahead - behind) / 2e-7).mT
    assert torch.allclose(found.matrix.dense(), differences, rtol=0, atol=1e-5)
    here = found.matrix.dense() @ x[0] + found.offset
    assert torch.allclose(here, evaluated(model, [x])[0], rtol=0, atol=SAME)


def require_distance(model, x, found):
    g = torch.Generator().manual_seed(0)
    for _ in range(12):
        d = torch.randn(x.shape, generator=g, dtype=D)
        step = 0.999 * min(found, 30.0) * d / d.norm()
        assert is_affine(model, x - step, x + step)


def require_crossings(model, x, y, found):
    assert found.count == len(found.at) + 1
    ends = [0.0, *found.at, 1.0]
    for low, high in pairwise(ends):
        if high - low > 1e-6:
            edge = 1e-3 * (high - low)
            assert is_affine(model, x + (low + edge) * (y - x), x + (high - edge) * (y - x))


def require_polygons(model, axes, found):
    areas = [Polygon(p.numpy(), p.numpy()).area for p in found.polygons]
    assert sum(areas) == pytest.approx(4.0, rel=1e-9)
    centre, across, along = axes
    at = lambda p: centre + p[0] * across + p[1] * along
    for i in sorted(range(len(areas)), key=lambda i: -areas[i])[:8]:
        middle = found.polygons[i].mean(0)
        near = middle + 0.999 * (found.polygons[i] - middle)
        for a, b in zip(near, near.roll(1, 0), strict=True):
            assert is_affine(model, at(a), at(b))
        assert is_affine(model, at(near[0]), at(middle))


def require_truth(names, seed):
    """Compare all answers with brute force; how many there were."""
    model, x, y = through(*(EVERYTHING[name] for name in names), seed=seed)
    axes = x, 2 * torch.eye(4, dtype=D)[:1], 2 * torch.eye(4, dtype=D)[1:2]
    answers = (
        (asked(local_affine, model, x), lambda a: require_map(model, x, a)),
        (asked(region_distance, model, x), lambda a: require_distance(model, x, a)),
        (asked(regions_along, model, x, y), lambda a: require_crossings(model, x, y, a)),
        (asked(partition, model, *axes), lambda a: require_polygons(model, axes, a)),
    )
    for answer, confirm in answers:
        if answer is not None:
            confirm(answer)
    return sum(answer is not None for answer, _ in answers)


@pytest.mark.parametrize("name", PIECEWISE)
def test_the_pieces_of_every_spelling_are_those_of_the_network(name):
    assert require_truth([name], seed=1) >= 3
    model, x, y = through(PIECEWISE[name])
    assert regions_along(model, x, y).count > 1 or name == "branch"


@given(st.lists(st.sampled_from(sorted(EVERYTHING)), min_size=1, max_size=3), st.integers(0, 99))
@settings(max_examples=15)
def test_no_composition_gets_a_wrong_number(names, seed):
    require_truth(names, seed)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [EVERYTHING, PIECEWISE], ids=["everything", "piecewise"])
@given(st.data(), st.integers(0, 99))
@settings(max_examples=400)
def test_no_composition_gets_a_wrong_number_at_length(kinds, data, seed):
    names = st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=3)
    require_truth(data.draw(names), seed)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_to_be_affine_is_refused_by_name(name):
    f, says = REFUSED[name]
    model, x, y = through(f, seed=1)
    for question in (local_affine, region_distance):
        with pytest.raises(Refusal, match=says):
            question(model, x)
    with pytest.raises(Refusal, match=says):
        regions_along(model, x, y)


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_boundaries_are_not_known_there_is_still_a_map(name):
    model, x, y = through(UNKNOWN[name], seed=1)
    require_map(model, x, local_affine(model, x))
    with pytest.raises(Refusal, match=r"boundaries of the regions must be known, got .*exchange"):
        region_distance(model, x)
    with pytest.raises(Refusal, match="boundaries of the regions must be known"):
        regions_along(model, x, y)


@pytest.mark.parametrize(("size", "ceil"), [(2, False), (2, True), (3, False)])
def test_windows_of_dead_units_have_no_winner_by_chance(size, ceil):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Pooled(size, side=5, ceil=ceil).double()
        axes = [torch.randn(1, 1, 5, 5, dtype=D) for _ in range(3)]
    require_polygons(model, axes, partition(model, *axes))


def test_a_recurrent_layer_has_the_kinks_of_its_units():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = nn.RNN(3, 5, nonlinearity="relu", batch_first=True)
        model = Net(lambda net, x: net.layer(x)[0][:, -1], layer=layer).double()
        x, y = torch.randn(2, 1, 4, 3, dtype=D)
    require_distance(model, x, region_distance(model, x))
    require_crossings(model, x, y, regions_along(model, x, y))


def test_a_part_of_a_network():
    model, x, _ = built("relu")
    found = local_affine(model, x, start="hidden.1", stop="hidden.2.linear")
    z = model.hidden[0](x)
    assert found.matrix.shape == (7, 7)
    assert torch.allclose(found.output, model.hidden[2].linear(model.hidden[1](z)).flatten())
    W1, W2 = model.hidden[1].linear.weight, model.hidden[2].linear.weight
    on = (model.hidden[1].linear(z) > 0).double()
    assert torch.allclose(found.matrix.dense(), W2 @ (on.T * W1), atol=1e-14)


def test_large_maps_are_products_and_agree(monkeypatch):
    from sigmascope.theory.piecewise_affine import segments

    model, x, _ = built("max-pooling")
    dense = local_affine(model, x).matrix.dense()
    monkeypatch.setattr(segments, "DENSE", 0)
    free = local_affine(model, x).matrix
    v, y = torch.randn(200, 3, dtype=D), torch.randn(4, 2, dtype=D)
    assert torch.allclose(free.apply(v), dense @ v, atol=1e-13)
    assert torch.allclose(free.adjoint(y), dense.mT @ y, atol=1e-13)


def test_an_output_is_taken_before_it_is_changed_in_place():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)).double()
    x = torch.randn(1, 4, dtype=D)
    found = local_affine(model, x, stop="0")
    assert torch.equal(found.matrix.dense(), model[0].weight)
    assert torch.allclose(found.output, model[0](x)[0])
    inner = local_affine(model, x, start="1")
    assert inner.matrix.shape == (2, 6)


def test_float32_is_answered_as_the_same_network_in_float64():
    model, x, y = through(F.relu, PIECEWISE["clip"])
    wide = region_distance(model, x), regions_along(model, x, y).at
    J = local_affine(model, x).matrix.dense()
    narrow = model.float()
    state = torch.get_rng_state()
    found = local_affine(narrow, x.float())
    assert found.matrix.like.dtype == found.offset.dtype == found.output.dtype == torch.float32
    assert torch.allclose(found.matrix.dense().double(), J, atol=1e-6)
    assert region_distance(narrow, x.float()) == pytest.approx(wide[0], rel=1e-5)
    assert regions_along(narrow, x.float(), y.float()).at == pytest.approx(wide[1], rel=1e-4)
    assert torch.equal(torch.get_rng_state(), state)
    assert next(narrow.parameters()).dtype == torch.float32


def test_patterns_are_seen_in_every_spelling():
    model, x, _ = through(PIECEWISE["where"], PIECEWISE["mask"], F.relu)
    found = activation_patterns(model, x)
    assert list(found) == ["gt #1", "gt #2", "relu #3"]
    hidden = model.first(x)
    assert torch.equal(found["gt #1"], hidden.sign().to(torch.int8))
