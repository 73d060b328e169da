"""What the operations of a run tell: branches, saturated units, what comes last."""

from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F, utils
from torch.nn.utils import parametrizations, prune

from sigmascope.models import Subject
from sigmascope.models.samples import prepared
from sigmascope.models.state import still
from sigmascope.models.structure import Stack, branches
from sigmascope.models.structure.operations import FINE, SIZES, planted
from tests.fingerprints import differences, fingerprint, process
from tests.models_zoo import MODELS, Net, subject_of
from tests.theory.jacot2023.stacks import stack

RESIDUAL = {
    "inplace-residual": 1,
    "attention-batch-first": 1,
    "attention-sequence-first": 1,
    "transformer-encoder-train": 4,
    "transformer-pre-norm": 4,
    "vision-transformer": 4,
    "small-resnet": 3,
    "transformers-gpt2": 4,
    "transformers-t5": 10,
}


@pytest.mark.parametrize("name", RESIDUAL)
def test_branches_of_the_zoo_end_in_a_weight(name):
    model, batch = MODELS[name]()
    found = branches(model, prepared(model, batch))
    assert len(found) == RESIDUAL[name]
    own = dict(model.named_parameters())
    assert all(b.scales and set(b.scales) <= set(own) for b in found)


class SharedBias(nn.Module):
    """Two layers of attention by hand, with one bias of positions for both, as T5's decoder."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(5, 5)
        self.q, self.k, self.v, self.o = (
            nn.ModuleList(nn.Linear(8, 8) for _ in range(2)) for _ in range(4)
        )

    def forward(self, x):
        bias = self.bias(torch.arange(5)).expand(len(x), 5, 5) + torch.zeros(len(x), 5, 5)
        for q, k, v, o in zip(self.q, self.k, self.v, self.o, strict=True):
            scores = q(x) @ k(x).mT
            scores += bias
            x = x + o(F.dropout(scores.softmax(-1), 0.1, self.training) @ v(x))
        return x


@pytest.mark.parametrize("training", [True, False])
def test_a_bias_that_attention_shares_is_no_stream(training):
    model = SharedBias().train(training)
    found = branches(model, torch.randn(3, 5, 8))
    assert [b.site for b in found] == ["o.0", "o.1"]


def test_a_stream_that_ends_in_probabilities_has_its_branch():
    assert [
        b.site
        for b in branches(
            Net(
                lambda m, x: (x + m.down(m.up(x).relu())).softmax(-1),
                up=nn.Linear(8, 16),
                down=nn.Linear(16, 8),
            ),
            torch.randn(3, 8),
        )
    ] == ["down"]


@pytest.mark.parametrize("name", [n for n in MODELS if "conv" in n or n in ("lstm", "unet")])
def test_models_without_branches_have_none(name):
    model, batch = MODELS[name]()
    assert branches(model, prepared(model, batch)) == ()


@pytest.mark.parametrize("name", RESIDUAL)
def test_scaling_what_is_named_scales_the_branch(name):
    """Half the parameters, half the strength of the first branch; the stream there is the same."""
    model, batch = MODELS[name]()
    before = branches(model, prepared(model, batch))
    with torch.no_grad():
        for scale in before[0].scales:
            model.get_parameter(scale).mul_(0.5)
    after = branches(model, prepared(model, batch))
    assert after[0].strength == pytest.approx(0.5 * before[0].strength, rel=1e-4)


def one(forward, **parts):
    torch.default_generator.manual_seed(0)
    (found,) = branches(Net(forward, **parts), torch.randn(5, 4))
    return found


def test_strength_is_measured():
    layer = nn.Linear(4, 4, bias=False)
    nn.init.eye_(layer.weight)
    found = one(lambda self, x: x + 3 * self.layer(x), layer=layer)
    assert (found.site, found.scales, found.linear) == ("layer", ("layer.weight",), True)
    assert found.strength == pytest.approx(3.0)


def test_a_learned_factor_is_the_scale():
    scale = nn.Parameter(torch.full((4,), 0.1))
    found = one(lambda self, x: x + self.g * self.layer(x), layer=nn.Linear(4, 4), g=scale)
    assert found.scales == ("g",)


class NormedFirst(nn.Linear):
    """A layer with a normaliser inside, whose scale would count once more."""

    def __init__(self):
        super().__init__(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return super().forward(self.norm(x))


MADE = {  # layers, and whether their own parameters multiply what they write
    "linear": (nn.Linear, True),
    "with a norm inside": (lambda *_: NormedFirst(), True),
    "weight norm": (lambda *sizes: parametrizations.weight_norm(nn.Linear(*sizes)), False),
    "spectral norm": (lambda *sizes: parametrizations.spectral_norm(nn.Linear(*sizes)), False),
    "older norm": (lambda *sizes: utils.spectral_norm(nn.Linear(*sizes)), False),
    "mask": (lambda *sizes: prune.l1_unstructured(nn.Linear(*sizes), "weight", 0.5), False),
}


@pytest.mark.parametrize("name", MADE)
def test_a_weight_that_is_made_of_others_is_no_factor(name):
    """Of what is named, half as much makes the branch half as strong."""
    make, scaled = MADE[name]
    torch.default_generator.manual_seed(0)
    net, x = Net(lambda m, x: x + m.layer(x), layer=make(4, 4)).eval(), torch.randn(5, 4)
    (before,) = branches(net, x)
    assert (before.site, bool(before.scales)) == ("layer", scaled)
    if scaled:
        with torch.no_grad():
            for scale in before.scales:
                net.get_parameter(scale).mul_(0.5)
        assert branches(net, x)[0].strength == pytest.approx(before.strength / 2)


def test_relu_goes_through_but_would_not_start_from_zero():
    found = one(lambda self, x: x + F.relu(self.layer(x)), layer=nn.Linear(4, 4))
    assert found.scales == ("layer.weight", "layer.bias")
    assert not found.linear


def test_curved_ends_have_no_scale():
    found = one(lambda self, x: x + self.layer(x).tanh(), layer=nn.Linear(4, 4))
    assert (found.site, found.scales) == ("", ())


def test_two_ways_with_weights_of_their_own_are_no_branch():
    net = Net(lambda self, x: self.a(x) + self.b(x), a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    assert branches(net, torch.randn(5, 4)) == ()


@pytest.mark.parametrize(
    ("last", "name"),
    [
        (nn.Softmax(-1), "Softmax"),
        (nn.Sigmoid(), "Sigmoid"),
        (nn.Tanh(), "Tanh"),
        (nn.ReLU(), "Relu"),
        (nn.Sequential(nn.ReLU(), nn.Unflatten(1, (1, 3))), "Relu"),
        (nn.Identity(), "Addmm"),
    ],
)
def test_the_last_operation_is_named(last, name):
    model = nn.Sequential(nn.Linear(4, 3), last)
    assert Subject(model, torch.randn(5, 4)).closing_operation == name


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_zoo_has_one(name):
    subject = subject_of(name)
    trained = any(p.requires_grad for p in subject.model.parameters())
    assert subject.closing_operation or not trained


SIGMOIDS = [nn.Sigmoid(), torch.sigmoid, F.sigmoid, torch.Tensor.sigmoid]


def found(act, scale=1.0):
    torch.default_generator.manual_seed(0)
    parts = {"a": nn.Linear(4, 6), "b": nn.Linear(6, 2)}
    if isinstance(act, nn.Module):
        parts["act"] = act
    model = Net(lambda self, x: self.b(act(scale * self.a(x))), **parts)
    return Subject(model, torch.randn(40, 4)).squashes


@pytest.mark.parametrize("act", SIGMOIDS, ids=["module", "torch", "functional", "method"])
def test_sigmoids_are_seen_however_they_are_called(act):
    (one,) = found(act)
    assert (one.site, one.kind) == ("b", "sigmoid")
    assert one.saturated == 0.0


@pytest.mark.parametrize("act", [torch.tanh, F.hardtanh, torch.sigmoid])
def test_large_signals_saturate(act):
    assert found(act, 0.3)[0].saturated < 0.1
    assert found(act, 1000.0)[0].saturated > 0.9


@pytest.mark.parametrize("act", [F.relu, F.gelu, F.leaky_relu])
def test_others_do_not_squash(act):
    assert found(act) == ()


def test_a_gate_is_not_what_a_layer_reads():
    net = Net(
        lambda self, x: self.b(x * torch.sigmoid(self.a(x))), a=nn.Linear(4, 4), b=nn.Linear(4, 2)
    )
    assert Subject(net, torch.randn(5, 4)).squashes == ()


@pytest.mark.parametrize("name", RESIDUAL)
def test_the_common_run_finds_the_same_branches(name):
    model, batch = MODELS[name]()
    assert Subject(model, batch).branches == branches(model, prepared(model, batch))


# ------------------------------------------------------------------------------
# Numbers in the place of what layers write show what lies between them.


def runs_of(model, x, **options):
    calls = Subject(model, x).calls
    with still(model):
        return calls, planted(model, x, calls, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_layers_pass_on_both_signs_and_all_sizes_and_no_two_the_same(dtype):
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(2 * FINE))).to(dtype)
    x = torch.ones(3, 8, dtype=dtype)
    _, run = runs_of(model, x)
    assert all(torch.equal(a.output, b.input) for a, b in pairwise(run))
    for call in run:
        assert call.output.shape == (3, 8)
        assert call.output.dtype == dtype
        assert float(call.output.abs().min()) > 0.009
        assert max(SIZES) <= float(call.output.abs().max()) < 2 * max(SIZES)
        assert float(call.output.min()) < 0 < float(call.output.max())
    assert len({tuple(c.output.flatten().tolist()) for c in run}) == len(run)


def test_signs_and_shifts_show_a_single_unit_four_numbers():
    model, x = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)), torch.ones(1, 1)
    seen = {
        float(runs_of(model, x, shift=shift, sign=sign)[1][0].output)
        for shift in (0, 1)
        for sign in (1, -1)
    }
    assert len(seen) == 4
    assert {-1.0, 1.0} < seen


@pytest.mark.parametrize(
    ("look", "name"), [(branches, "small-resnet"), (runs_of, "batchnorm-train")]
)
def test_the_model_is_left_as_it_was(look, name):
    model, batch = MODELS[name]()
    before, around = fingerprint(model=model, batch=batch), process()
    assert look(model, batch)[-1]
    assert not differences(before, fingerprint(model=model, batch=batch))
    assert process() == around


def test_nothing_is_told_of_a_model_that_goes_another_way():
    class Turns(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            h = self.a(x)
            return h if float(h.detach().abs().max()) > 100 else self.b(h)

    assert runs_of(Turns(), torch.rand(3, 4))[1] is None


# ------------------------------------------------------------------------------
# Bounds of rounding against the same products in exact fractions.


def fractions(t):
    return [[Fraction(v) for v in row] for row in t.tolist()]


def times(A, B):
    columns = list(zip(*B, strict=True))
    return [[sum(a * b for a, b in zip(row, col, strict=True)) for col in columns] for row in A]


def gated(z, A, slope):
    return [[(1 if v > 0 else slope) * a for a in row] for (v,), row in zip(z, A, strict=True)]


def off(found, exact):
    """Frobenius norm of the error."""
    rows = zip(fractions(found), exact, strict=True)
    return float(sum((a - b) ** 2 for f, e in rows for a, b in zip(f, e, strict=True))) ** 0.5


def exactly(net, x):
    """Pre-activations, chains and what layers read, and the Jacobian, without rounding."""
    slope = Fraction(net.slope)
    a, F = [[Fraction(v)] for v in x.tolist()], fractions(torch.eye(len(x)))
    zs, chains, forwards = [], [], []
    for W, b in zip(map(fractions, net.weights), net.biases, strict=True):
        forwards.append(F)
        z = [[v + Fraction(c)] for (v,), c in zip(times(W, a), b.tolist(), strict=True)]
        zs.append(z)
        chains.append(times(W, F))
        a, F = gated(z, z, slope), gated(z, chains[-1], slope)
    return zs, chains, forwards


@pytest.mark.parametrize("seed", range(8))
def test_no_error_exceeds_its_bound(seed):
    net, x, _ = stack(seed, depth=4, width=5)
    point = net.at(x)
    errors = point.errors
    assert errors.decided
    zs, chains, forwards = exactly(net, x)
    for k in range(net.depth):
        z = point.preactivations[k]
        exact = torch.tensor(
            [float(Fraction(v) - e) for v, (e,) in zip(z.tolist(), zs[k], strict=True)]
        )
        assert (exact.abs() <= errors.preactivations[k]).all()
        assert off(net.weights[k] @ point.forwards[k], chains[k]) <= errors.chains[k]
        assert off(point.forwards[k], forwards[k]) <= errors.forwards[k]
    assert off(point.jacobian, chains[-1]) <= errors.jacobian
    # and they are of the order of rounding
    assert errors.jacobian <= 1e-12 * (1 + float(point.jacobian.norm()) + net.norm)


def two_layers(*weights, slope=0.0):
    layers = tuple(torch.tensor(w, dtype=torch.float64) for w in weights)
    zeros = tuple(torch.zeros(len(W), dtype=torch.float64) for W in layers)
    return Stack(tuple("ab"), layers, zeros, slope, biased=False)


def test_a_unit_whose_side_rounding_may_decide_counts_as_both():
    net = two_layers([[1.0, -1.0]], [[2.0]])
    near = net.at(torch.tensor([1.0, 1.0 - 2.0**-53]).double())
    assert not near.errors.decided
    # the Jacobian may be 0 or [2, -2], whichever was found
    assert near.errors.jacobian >= 8**0.5 * (1 - 1e-12)
    far = net.at(torch.tensor([1.0, 0.5]).double())
    assert far.errors.decided
    assert far.errors.jacobian < 1e-14


def test_a_unit_exactly_at_its_kink_is_decided():
    assert two_layers([[1.0]], [[1.0]]).at(torch.zeros(1).double()).errors.decided


def test_a_linear_network_has_no_kinks_to_be_unsure_of():
    near = two_layers([[1.0, -1.0]], [[2.0]], slope=1.0).at(
        torch.tensor([1.0, 1.0 - 2.0**-53]).double()
    )
    assert near.errors.jacobian < 1e-14


def test_a_unit_that_is_off_passes_no_error_on():
    net = two_layers([[1.0], [1.0]], [[1e9, 1.0]])
    off_first = Stack(
        net.sites, net.weights, (torch.tensor([-2.0, 0.0]).double(), net.biases[1]), 0.0
    )
    x = torch.ones(1).double()
    assert off_first.at(x).errors.preactivations[1] < 1e-14
    assert net.at(x).errors.preactivations[1] > 1e-8
