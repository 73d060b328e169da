"""Which models are plain stacks, which slope they have, and why others are none."""

import pytest
import torch
from torch import nn

from sigmascope.probes import Subject
from sigmascope.probes.structure.linear import _coarsest


def drawn(*shape, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)


def stack(*parts, x=None):
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


class Reads(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.a, self.b, self.run = nn.Linear(3, 4), nn.Linear(4, 2), run

    def forward(self, x):
        return self.run(self, x)


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
    net = Reads(run).double()
    with torch.no_grad():
        net.a.weight.copy_(drawn(4, 3))
        if name == "infinite":  # below zero, where the activation hides it
            net.a.weight.fill_(-1e308)
    assert says in Subject(net, drawn(6, 3, seed=1).abs() + 2).stack


def test_other_kinds_of_layers_are_named():
    words = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2))
    found = Subject(words, torch.arange(6).view(3, 2) % 5).stack
    assert found == "0 is neither a linear layer nor a convolution"
    tokens = stack(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), x=drawn(5, 7, 3))
    assert tokens == "0 is applied to more than one position of each sample"


def test_a_layer_that_computes_something_else_is_named():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    found = stack(nn.Linear(3, 4), nn.ReLU(), Doubled(4, 2))
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
    monkeypatch.setattr("sigmascope.probes.structure.linear.MOST", 100)
    found = stack(nn.Conv1d(1, 2, 3, padding=1), x=drawn(3, 1, 9))
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

    assert "does not run on other numbers" in Subject(Reads(forward).double(), drawn(6, 3)).stack


def test_of_two_formats_the_coarsest_tells_how_near_numbers_must_be():
    half, single = torch.ones(1, dtype=torch.float16), torch.ones(1)
    short = torch.ones(1, dtype=torch.bfloat16)
    kept = torch.finfo(torch.float16)
    assert _coarsest(half, single) == _coarsest(single, half) == (kept.eps, kept.tiny)
    assert _coarsest(short, half) == (torch.finfo(torch.bfloat16).eps, kept.tiny)
