"""Whether a network is one affine map is told by its operations, whatever the samples."""

import pytest
import torch
from torch import nn
from torch.func import jacrev
from torch.nn import functional as F

from sigmascope.models import Subject
from sigmascope.models.structure import Stack
from sigmascope.models.structure.linear import _coarsest
from tests.models_zoo import Net
from tests.theory.jacot2023.stacks import stack

X = torch.rand(6, 4, generator=torch.Generator().manual_seed(0)) + 0.5


def off_tape(through):
    """A ReLU network that the tape knows nothing of, and layers behind it."""
    a = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4))
    run = lambda m, x: m.c(m.b(through(m.a(x), x)))
    return Net(run, a=a, b=nn.Linear(4, 4, bias=False), c=nn.Linear(4, 3))


AFFINE = [
    nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)),
    nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2)),
    nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2), nn.Softmax(-1)),
    Net(lambda m, x: m.b(F.batch_norm(m.a(x), torch.ones(4), torch.full((4,), 2.0))),
        a=nn.Linear(4, 4), b=nn.Linear(4, 3)),
    nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(6, 1)),
]  # fmt: skip
BENT = [
    nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
    nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2)),
    Net(lambda m, x: m.b(m.a(x) * x), a=nn.Linear(4, 4), b=nn.Linear(4, 3)),
    Net(lambda m, x: m.b(F.batch_norm(m.a(x), None, None, training=True)),
        a=nn.Linear(4, 4), b=nn.Linear(4, 3)),
    Net(lambda m, x: m.b(F.batch_norm(h := m.a(x), torch.ones(4), torch.ones(4), h.mean(0))),
        a=nn.Linear(4, 4), b=nn.Linear(4, 3)),
    # a ReLU that is written as a product
    Net(lambda m, x: m.b((z := m.a(x)) * (z > 0).float()), a=nn.Linear(4, 4), b=nn.Linear(4, 3)),
    off_tape(lambda h, x: h.detach()),
    off_tape(lambda h, x: torch.tensor(h.detach().numpy())),
    off_tape(lambda h, x: torch.cat([h.detach()[:, :2], x[:, :2]], 1)),
    nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.MaxPool1d(3), nn.Flatten(),
                  nn.Linear(2, 1)),
]  # fmt: skip


@pytest.mark.parametrize("model", AFFINE)
def test_affine(model):
    assert Subject(model, X).is_affine


@pytest.mark.parametrize("model", BENT)
def test_not_affine(model):
    assert not Subject(model, X).is_affine


def test_units_that_are_never_off_do_not_make_it_affine():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():
        model[0].weight.abs_()
        model[0].bias.fill_(1.0)
    assert not Subject(model, X).is_affine


# ------------------------------------------------------------------------------
# Which models are plain stacks, which slope they have, and why others are none.


def drawn(*shape, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)


def stack_of(*parts, x=None):
    net = nn.Sequential(*parts).double()
    return Subject(net, drawn(6, 3) if x is None else x).stack


@pytest.mark.parametrize(
    ("act", "slope"),
    [(nn.ReLU(), 0.0), (nn.LeakyReLU(), 0.01), (nn.LeakyReLU(-0.3), -0.3), (nn.Identity(), 1.0)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_slope_below_zero_is_read_off_the_batch(act, slope, dtype):
    net = nn.Sequential(nn.Linear(3, 5), act, nn.Linear(5, 4, bias=False), act, nn.Linear(4, 2))
    found = Subject(net.to(dtype), drawn(6, 3, dtype=dtype)).stack
    assert found.slope == slope  # to the digit
    assert found.sites == ("0", "2", "4")
    assert torch.equal(found.weights[1], net[2].weight.detach().double())
    assert [bool(b.any()) for b in found.biases] == [True, False, True]
    assert found.biased


def test_a_stack_of_convolutions_computes_what_the_model_does():
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2)
    ).double()
    x = drawn(4, 2, 5, 5)
    found = Subject(net, x).stack
    assert [tuple(W.shape) for W in found.weights] == [(27, 50), (2, 27)]
    for sample, out in zip(x, net(x), strict=True):
        torch.testing.assert_close(found.at(sample.flatten()).preactivations[-1], out.detach())


def reads(run):
    return Net(run, a=nn.Linear(3, 4), b=nn.Linear(4, 2))


NONE = {
    "after a": (lambda n, x: n.b(n.a(2 * x).relu()), "a does not read the input as it is"),
    "at the end": (lambda n, x: n.b(n.a(x).relu()) + 1, "the output is not what b writes"),
    "curved": (lambda n, x: n.b(n.a(x).tanh()), "between a and b lies something else than one"),
    "two slopes": (
        lambda n, x: n.b(nn.functional.leaky_relu(n.a(x), 0.1) * torch.tensor([1.0, 1, 1, 2])),
        "between a and b lies something else",
    ),
    "shuffled": (lambda n, x: n.b(n.a(x).relu().flip(1)), "between a and b lies something else"),
    "twice": (lambda n, x: n.b(n.a(n.a(x)[:, :3])), "a layer is applied more than once"),
    "infinite": (lambda n, x: n.b(n.a(x).relu()), "a writes numbers that are not finite"),
}


@pytest.mark.parametrize("name", NONE)
def test_why_a_model_is_no_stack(name):
    run, says = NONE[name]
    net = reads(run).double()
    with torch.no_grad():
        net.a.weight.copy_(drawn(4, 3))
        if name == "infinite":  # below zero, where the activation hides it
            net.a.weight.fill_(-1e308)
    assert says in Subject(net, drawn(6, 3, seed=1).abs() + 2).stack


def test_other_kinds_of_layers_are_named():
    words = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2))
    found = Subject(words, torch.arange(6).view(3, 2) % 5).stack
    assert found == "0 is neither a linear layer nor a convolution"
    tokens = stack_of(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), x=drawn(5, 7, 3))
    assert tokens == "0 is applied to more than one position of each sample"


def test_a_layer_that_computes_something_else_is_named():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    found = stack_of(nn.Linear(3, 4), nn.ReLU(), Doubled(4, 2))
    assert found == "2 computes something else than its weight and its bias"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [16, 256, 1024])
def test_wide_layers_in_half_precision_are_compared_too(dtype, width):
    class Halved(nn.Linear):
        def forward(self, x):
            return super().forward(x) / 2

    for last, same in ((nn.Linear, True), (Halved, False)):
        net = nn.Sequential(nn.Linear(8, width), nn.ReLU(), last(width, 8)).to(dtype)
        found = Subject(net, drawn(9, 8, dtype=dtype)).stack
        assert (found != "2 computes something else than its weight and its bias") == same


@pytest.mark.parametrize(
    ("ends", "said"), [((5000, 2), "5000 inputs"), ((2, 5000), "5000 outputs")]
)
def test_derivatives_by_very_many_ends_are_not_taken(ends, said):
    net = nn.Sequential(nn.Linear(ends[0], 3), nn.ReLU(), nn.Linear(3, ends[1]))
    found = Subject(net, drawn(4, ends[0], dtype=torch.float32)).stack
    assert found == f"it has {said}, and derivatives by all are taken of 4096 at most"


def test_a_convolution_that_is_too_large_is_not_written_out(monkeypatch):
    monkeypatch.setattr("sigmascope.models.structure.linear.MOST", 100)
    found = stack_of(nn.Conv1d(1, 2, 3, padding=1), x=drawn(3, 1, 9))
    assert found == "the matrix of a convolution is too large"


# what leaves every number as it is between 0 and 1, and what is like a ReLU far from zero
CURVED = [nn.Hardtanh(), nn.ReLU6(), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Softplus(), nn.ELU()]


@pytest.mark.parametrize("act", CURVED, ids=lambda act: type(act).__name__)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0, 30.0, 1e3, 1e8])
def test_no_scale_of_the_inputs_makes_two_slopes_of_an_activation(act, dtype, scale):
    net = nn.Sequential(nn.Linear(3, 9, bias=False), act, nn.Linear(9, 2)).to(dtype)
    scale = min(scale, torch.finfo(dtype).max / 100)
    says = Subject(net, (scale * drawn(6, 3)).to(dtype)).stack
    assert says == "between 0 and 2 lies something else than one activation with two slopes"


@pytest.mark.parametrize("act", [nn.ReLU(), nn.LeakyReLU(0.25), nn.LeakyReLU(-0.5), nn.Identity()])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("count", [1, 6])
def test_the_slope_is_known_where_no_unit_is_below_zero(act, dtype, width, count):
    net = nn.Sequential(nn.Linear(3, width), act, nn.Linear(width, 2)).to(dtype)
    with torch.no_grad():
        net[0].weight.abs_()
    slope = {nn.ReLU: 0.0, nn.Identity: 1.0}.get(type(act), getattr(act, "negative_slope", None))
    x = (1 + drawn(count, 3).abs()).to(dtype)
    assert Subject(net, x).stack.slope == slope


def test_a_model_that_does_not_run_on_other_numbers_says_so():
    def forward(net, x):
        h = net.a(x).relu()
        assert float(h.detach().max()) < 100
        return net.b(h)

    assert "does not run on other numbers" in Subject(reads(forward).double(), drawn(6, 3)).stack


def test_of_two_formats_the_coarsest_tells_how_near_numbers_must_be():
    half, single = torch.ones(1, dtype=torch.float16), torch.ones(1)
    short = torch.ones(1, dtype=torch.bfloat16)
    kept = torch.finfo(torch.float16)
    assert _coarsest(half, single) == _coarsest(single, half) == (kept.eps, kept.tiny)
    assert _coarsest(short, half) == (torch.finfo(torch.bfloat16).eps, kept.tiny)


# ------------------------------------------------------------------------------
# Neighbours without an activation between are seen by their numbers.


def pairs(*parts, x=None):
    torch.manual_seed(0)
    x = torch.randn(12, 8) if x is None else x
    found = Subject(nn.Sequential(*parts), x).linear_pairs
    return [(p.first, p.second, p.spare) for p in found]


def lin(a, b):
    return nn.Linear(a, b)


def conv(a, b, **options):
    return nn.Conv2d(a, b, 3, padding=1, **options)


def test_inputs_that_are_alike_at_first_tell_where_they_came_from_behind():
    images = torch.zeros(4, 1, 12, 12)
    images[:, :, 9:, 9:] = torch.randn(4, 1, 3, 3)  # behind a border as wide
    first, second = conv(1, 1, bias=False), conv(1, 2)
    assert [p[:2] for p in pairs(first, second, x=images)] == [("0", "1")]
    assert not pairs(first, second, x=torch.zeros(4, 1, 12, 12))


IMAGES = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def test_two_linear_layers_are_one():
    assert pairs(lin(8, 16), lin(16, 4)) == [("0", "1", 4.0)]
    assert pairs(lin(8, 2), lin(2, 8)) == [("0", "1", 0.25)]  # narrow on purpose


@pytest.mark.parametrize("part", [nn.ReLU(), nn.GELU(), nn.Tanh(), nn.LayerNorm(16), nn.PReLU()])
def test_an_activation_makes_two_of_them(part):
    assert pairs(lin(8, 16), part, lin(16, 4)) == []


@pytest.mark.parametrize("part", [nn.Dropout(0.5), nn.Identity(), nn.BatchNorm1d(16)])
def test_what_is_linear_between_does_not(part):
    assert pairs(lin(8, 16), part, lin(16, 4)) == [("0", "2", 4.0)]


def test_a_normaliser_with_an_activation_inside():
    class Acts(nn.BatchNorm1d):
        def forward(self, x):
            return super().forward(x).relu()

    assert pairs(lin(8, 16), Acts(16), lin(16, 4)) == []


def test_convolutions_and_what_flattens_them():
    assert pairs(conv(3, 8), nn.BatchNorm2d(8), conv(8, 4), x=IMAGES) == [("0", "2", 8 / 3)]
    found = pairs(conv(3, 8), nn.Flatten(), lin(8 * 36, 4), x=IMAGES)
    assert [f[:2] for f in found] == [("0", "2")]


def test_factors_by_design_are_left_out():
    assert pairs(conv(3, 6, groups=3), nn.Conv2d(6, 8, 1), x=IMAGES) == []
    ids = torch.randint(9, (12, 5))
    assert pairs(nn.Embedding(9, 8), lin(8, 8), x=ids) == []
    assert pairs(nn.ConvTranspose2d(3, 8, 2, 2), conv(8, 4), x=IMAGES) == []


def test_equal_numbers_tell_nothing():
    """A layer that writes zeros, and another that reads zeros, have nothing to do with another."""
    off = lin(8, 16)
    nn.init.zeros_(off.weight)
    nn.init.zeros_(off.bias)
    assert pairs(off, nn.ReLU(), lin(16, 4)) == []


def test_residual_sums_are_no_pairs():
    assert pairs(Net(lambda m, x: m.b(x + m.a(x)), a=lin(8, 8), b=lin(8, 8))) == []


def test_a_shortcut_beside_an_activation_is_no_pair():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = lin(8, 16), nn.LayerNorm(16)
            self.inner, self.short = lin(16, 16), lin(16, 16)

        def forward(self, x):
            h = self.first(x)
            return self.short(h) + self.inner(self.norm(h).relu())

    assert pairs(Block()) == []


BENDS = [
    nn.ReLU(), nn.LeakyReLU(0.2), nn.ReLU6(), nn.Hardtanh(0, 60), nn.ELU(), nn.CELU(), nn.PReLU(),
    nn.Threshold(0.0, 0.0), nn.Hardswish(), nn.RReLU(),
]  # fmt: skip


@pytest.mark.parametrize("part", BENDS, ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("normed", [False, True])
def test_an_activation_that_does_nothing_on_this_batch_is_one(part, normed):
    first, x = lin(8, 16), torch.rand(12, 8)
    with torch.no_grad():  # all units between 0 and 6, where these leave numbers as they are
        first.weight.abs_().mul_(0.3)
        first.bias.fill_(3.5)
    norm = [nn.BatchNorm1d(16).eval()] if normed else []
    assert pairs(first, *norm, part, lin(16, 4), x=x) == []
    assert len(pairs(first, *norm, lin(16, 4), x=x)) == 1


def test_a_model_that_refuses_other_numbers_has_no_pairs():
    class Checks(nn.Module):
        def forward(self, x):
            assert float(x.detach().abs().max()) < 100
            return x

    assert pairs(lin(8, 16), Checks(), lin(16, 4)) == []


# ------------------------------------------------------------------------------
# Everything that a stack knows at an input is that of autograd.


def run(net, x, upto=None):
    """What a layer writes, by a plain loop; the last one by default."""
    a = x
    for i, (W, b) in enumerate(zip(net.weights, net.biases, strict=True)):
        z = W @ a + b
        if i == upto:
            return z
        a = torch.where(z > 0, z, net.slope * z)
    return z


@pytest.mark.parametrize("seed", range(12))
def test_everything_at_an_input_is_that_of_autograd(seed):
    net, x, _ = stack(seed)
    point = net.at(x)
    close = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    for k, (z, a) in enumerate(zip(point.preactivations, point.activations, strict=True)):
        close(z, run(net, x, k))
        close(net.weights[k] @ a + net.biases[k], z)
        close(net.weights[k] @ point.forwards[k], jacrev(lambda v, k=k: run(net, v, k))(x))
        # what follows the layer is a stack of its own
        rest = Stack(net.sites[k:], net.weights[k:], net.biases[k:], net.slope)
        close(point.backwards[k] @ net.weights[k], jacrev(lambda v, r=rest: run(r, v))(a))
    close(point.jacobian, jacrev(lambda v: run(net, v))(x))
    sigma = torch.linalg.svdvals(jacrev(lambda v: run(net, v))(x))
    s = point.spectrum
    assert (s.low <= sigma + 1e-12).all()
    assert (sigma <= s.high + 1e-12).all()


def matrices(*rows):
    weights = tuple(torch.tensor(r, dtype=torch.float64) for r in rows)
    biases = tuple(torch.zeros(len(W), dtype=torch.float64) for W in weights)
    return Stack(tuple("abc"[: len(rows)]), weights, biases, 0.0, biased=False)


def test_norms_and_balance_by_hand():
    net = matrices([[3.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]])
    assert (net.depth, net.weight_norm, net.norm) == (2, 11, 11)
    assert [e.value for e in net.sizes] == [10, 1]
    assert net.spectral_norms == pytest.approx((3, 1))
    assert net.spectral_norms[0] >= 3
    # unit 0 reads 9 and is read by 0; unit 1 reads 1 and is read by 1: the largest norm is 9
    assert net.balance_defect() == 1
    biased = Stack(("a", "b"), net.weights, (torch.tensor([0.0, 2.0]).double(), net.biases[1]), 0.0)
    assert biased.norm == 15
    assert matrices([[1.0, 2.0]], [[5**0.5]]).balance_defect() == pytest.approx(0, abs=1e-15)
    assert matrices([[0.0]], [[0.0]]).balance_defect() == 0


def test_a_unit_at_its_kink_is_on_the_lower_side():
    point = matrices([[1.0], [-1.0]], [[1.0, 1.0]]).at(torch.zeros(1).double())
    assert point.slopes[0].tolist() == [0, 0]
    assert point.jacobian.tolist() == [[0]]


def test_layers_that_do_not_meet_are_refused():
    with pytest.raises(ValueError, match=r"what the one below writes, got \(1, 3\) after"):
        matrices([[1.0], [2.0]], [[1.0, 2.0, 3.0]])


def test_a_weight_that_is_too_large_has_its_frobenius_norm(monkeypatch):
    monkeypatch.setattr("sigmascope.models.structure.linear.SOLVED", 3)
    net = matrices([[3.0, 0.0], [0.0, 4.0]])
    assert net.spectral_norms == pytest.approx((5,))
