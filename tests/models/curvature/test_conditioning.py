import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

import sigmascope as ss
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Verdict
from sigmascope.models import Subject, networks
from sigmascope.models.curvature.conditioning import feature_rows, root_rows, square_roots
from sigmascope.theory.riedi2022 import CurvatureFactors, loss_curvature, neuron_limit
from tests.fingerprints import differences, fingerprint, process
from tests.models_zoo import Net
from tests.sampling import some


def convolutions(**options):
    return nn.Sequential(nn.Conv2d(2, 4, 3, **options), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))


NETWORKS = {
    "linear": (lambda: nn.Linear(5, 3), (6, 5)),
    "relu": (lambda: networks.mlp(inputs=5, outputs=3, depth=2, width=6), (6, 5)),
    "leaky": (
        lambda: networks.mlp(inputs=5, outputs=3, depth=2, width=4, activation="leaky"),
        (6, 5),
    ),
    "abs": (lambda: networks.mlp(inputs=4, outputs=2, depth=3, width=4, activation="abs"), (3, 4)),
    "skips": (lambda: networks.mlp(inputs=5, outputs=3, depth=3, width=5, residual=1.0), (6, 5)),
    "no bias": (lambda: networks.mlp(inputs=5, outputs=3, depth=2, width=4, bias=False), (6, 5)),
    "one sample": (lambda: networks.mlp(inputs=5, outputs=3, depth=1, width=4), (1, 5)),
    "convolution": (lambda: convolutions(), (3, 2, 5, 5)),
    "strided, padded, dilated": (
        lambda: convolutions(stride=2, padding=2, dilation=2),
        (3, 2, 6, 6),
    ),
    "grouped, without bias": (lambda: convolutions(groups=2, bias=False), (3, 2, 5, 5)),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(2, 3, 2), nn.Flatten(), nn.LazyLinear(2)),
        (3, 2, 3, 3),
    ),
    "pooled": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 2), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(2)),
        (3, 2, 5, 5),
    ),
    "residual convolution": (
        lambda: Net(
            lambda m, x: m.second((x + F.relu(m.first(x))).flatten(1)),
            first=nn.Conv2d(2, 2, 3, padding=1),
            second=nn.Linear(2 * 25, 3),
        ),
        (3, 2, 5, 5),
    ),
    "positions": (
        lambda: Net(
            lambda m, x: m.second(F.leaky_relu(m.first(x), 0.2)).mean(1),
            first=nn.Linear(4, 3),
            second=nn.Linear(3, 2, bias=False),
        ),
        (4, 5, 4),
    ),
}
LOSSES = {
    "squared error": (None, lambda out, y: (out - 1).square().sum() / len(out)),
    "mean squared error": (
        lambda out, y: F.mse_loss(out, F.one_hot(y, out.shape[1]).to(out)),
        lambda out, y: F.mse_loss(out, F.one_hot(y, out.shape[1]).to(out)),
    ),
    "cross-entropy": (F.cross_entropy, F.cross_entropy),
}


def built(kind, seed):
    make, shape = NETWORKS[kind]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make().double()
        outputs = model(x).shape[1]
    return model, x, torch.randint(0, outputs, (shape[0],), generator=generator)


def hessian(model, site, x, y, loss):
    """By double backward, in the parameters of one layer."""
    module = model.get_submodule(site)
    parameters = list(module.parameters(recurse=False))
    first = torch.autograd.grad(loss(model(x), y), parameters, create_graph=True)
    flat = torch.cat([g.flatten() for g in first])
    rows = [
        torch.autograd.grad(
            g, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for g in flat
    ]
    return torch.stack([torch.cat([t.flatten() for t in row]) for row in rows])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", NETWORKS)
def test_eigenvalues_are_those_of_the_double_backward_matrix(kind, loss):
    given, same = LOSSES[loss]
    for seed in range(3 if kind == "relu" else 1):
        model, x, y = built(kind, seed)
        subject = Subject(model, x, None if given is None else y, given)
        assert len(subject.conditioning.found) == len(subject.modules)
        for one in subject.conditioning.found:
            H = hessian(model, one.site, x, y, same)
            lam = torch.linalg.eigvalsh(H).flip(0)
            found = torch.zeros_like(lam)
            found[: len(one.root.sigma)] = one.root.sigma.square()[: len(lam)]
            assert one.parameters == len(lam)
            assert torch.allclose(found, lam, rtol=0, atol=1e-9 * max(1.0, float(lam[0])))


def test_the_model_is_left_as_it_was(as_users_see_it):
    model, x, y = built("relu", 1)
    before, around = fingerprint(model=model), process()
    assert Subject(model, x, y, F.cross_entropy).conditioning.found
    assert not differences(before, fingerprint(model=model))
    assert process() == around


def test_gradient_descent_diverges_above_the_step_limit_and_converges_at_the_rate_below():
    """On one layer of a network whose units do not change sign, as squared error promises."""
    model, x, _ = built("relu", 3)
    model = nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 3)).double()
    (one, _) = Subject(model, x).conditioning.found
    module = model[0]
    top = float(one.root.sigma[0]) ** 2
    kept = one.root.sigma[one.root.sigma > one.rtol * one.root.sigma[0]]
    bottom = float(kept[-1]) ** 2
    target = torch.randn(6, 3, dtype=torch.float64)
    H = hessian(model, "0", x, target, lambda out, y: (out - y).square().sum() / 6)
    loss = lambda: (model(x) - target).square().sum() / 6

    def descend(rate, steps):
        values = []
        for _ in range(steps):
            value = loss()
            values.append(float(value.detach()))
            grads = torch.autograd.grad(value, list(module.parameters()))
            with torch.no_grad():
                for p, g in zip(module.parameters(), grads, strict=True):
                    p -= rate * g
        return values

    start = [p.detach().clone() for p in module.parameters()]
    assert float(torch.linalg.eigvalsh(H)[-1]) == pytest.approx(top)
    diverged = descend(2.02 / top, 600)
    assert diverged[-1] > diverged[300]
    with torch.no_grad():
        for p, s in zip(module.parameters(), start, strict=True):
            p.copy_(s)
    best = 2 / (top + bottom)
    rate = (top - bottom) / (top + bottom)
    values = descend(best, 4000)
    floor = values[-1]
    excess = [v - floor for v in values]
    late = (excess[1500] / excess[500]) ** (1 / 1000)
    assert math.sqrt(late) == pytest.approx(rate, rel=1e-2)


def test_squared_error_needs_no_targets_and_scales_with_the_batch():
    model, x, _ = built("relu", 1)
    once = Subject(model, x).conditioning.found
    twice = Subject(model, torch.cat([x, x])).conditioning.found
    for a, b in zip(once, twice, strict=True):
        assert torch.allclose(a.root.sigma, b.root.sigma[: len(a.root.sigma)], atol=1e-12)


def test_what_cannot_be_covered_is_said():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.memory = nn.Embedding(7, 4), nn.LSTM(4, 4, batch_first=True)
            self.unused, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            h = self.memory(self.tokens(x))[0][:, -1]
            self.unused(h)
            return self.last(h)

    model = Mixed()
    model.last.weight.requires_grad_(False)
    found = Subject(model, torch.arange(6).view(2, 3)).conditioning
    assert found.found == ()
    assert found.silent == {
        "tokens": "it reads token ids",
        "memory": "the gradient of LSTM by its weights is not covered",
        "unused": "the output does not depend on the (first) tensor that it wrote",
        "last": "its weight is not trained",
    }


def test_float32_knows_its_own_rounding():
    model, x, y = built("relu", 2)
    wide = Subject(model, x, y, F.cross_entropy).conditioning.found
    narrow = Subject(model.float(), x.float(), y, F.cross_entropy).conditioning.found
    for a, b in zip(wide, narrow, strict=True):
        assert b.rtol > 1e-7 > a.rtol
        gap = (a.root.sigma - b.root.sigma).abs().max()
        assert gap < b.rtol * float(a.root.sigma[0])


# The quadratic form of matrices


def test_the_printed_matrix_fails():
    """`MD = Id`, `z = (1, 1)`, `W = [[1, -1], [0, 0]]`: the loss is 0, the printed form says 2."""
    W, z = torch.tensor([[1.0, -1.0], [0.0, 0.0]]), torch.tensor([1.0, 1.0])
    true = float((W @ z).square().sum())
    printed = float((torch.diag(z).kron(torch.eye(2)) @ W.T.flatten()).square().sum())
    assert (true, printed) == (0, 2)
    found = loss_curvature([torch.eye(2)], z[None])
    assert found.lam.tolist() == pytest.approx([2, 2, 0, 0], abs=1e-12)
    assert found.printed_block_diagonal is not None
    assert found.printed_block_diagonal.tolist() == [1, 1, 1, 1]


def test_one_sample_has_no_data_factor():
    M = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    found = loss_curvature([M], torch.tensor([[1.0, 10.0, 0.1]]))
    s = torch.linalg.svdvals(M.double())
    assert found.condition == pytest.approx(float(s[0] / s[-1]))
    assert found.data_factor == 1


def test_a_shared_layer_factor_and_the_features_multiply():
    generator = torch.Generator().manual_seed(1)
    M, Z = torch.randn(3, 3, generator=generator), torch.randn(8, 4, generator=generator)
    found = loss_curvature([M] * 8, Z)
    assert found.condition == pytest.approx(found.limit)


def test_the_bounds_hold_for_batches_and_with_units_off():
    for seed in range(100):
        g = torch.Generator().manual_seed(seed)
        Z = torch.randn(7, 3, generator=g)
        Ms = [torch.randn(4, 3, generator=g) for _ in range(7)]
        found = loss_curvature(Ms, Z)
        assert found.condition <= found.limit * (1 + 1e-9)
        on = (torch.rand(7, 3, generator=g) > 0.4).float()
        cut = loss_curvature([M * d for M, d in zip(Ms, on, strict=True)], Z)
        assert cut.condition <= neuron_limit(Ms, on, Z) * (1 + 1e-9)
        if bool((on == 0).any()):
            assert cut.layer_factor == math.inf


def test_layers_that_are_not_injective_bound_nothing():
    assert loss_curvature([torch.ones(1, 2)], torch.ones(1, 2)).limit == math.inf
    assert neuron_limit([torch.ones(1, 2)], torch.ones(1, 2), torch.ones(1, 2)) == math.inf


def test_sizes_are_refused():
    with pytest.raises(ValueError, match="one matrix for each of the 2 rows"):
        loss_curvature([torch.eye(2)], torch.ones(2, 2))


# The theorem on models


def wide_output():
    """Every layer is followed by an injective map."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 3), nn.LeakyReLU(0.5), nn.Linear(3, 6)).double()


def test_the_factors_bound_the_condition_of_every_layer():
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = list(CurvatureFactors.facts(Subject(wide_output(), x)))
    assert [f.site for f in found] == ["0", "2"]
    for fact in found:
        assert fact.check().verdict in (Verdict.HOLDS, Verdict.CONSISTENT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_last_layer_attains_it(dtype):
    """Nothing comes after it, so that the features alone make its condition."""
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    last = list(CurvatureFactors.facts(Subject(wide_output().to(dtype), x)))[1]
    assert last.check().verdict is Verdict.CONSISTENT
    for factor, verdict in ((1 - 1e-6, Verdict.VIOLATED), (1 + 1e-6, Verdict.HOLDS)):
        moved = (factor * last.data[0], *last.data[1:])
        assert replace(last, data=moved).check().verdict is verdict


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3])
def test_features_that_are_nearly_dependent_are_counted_once_for_all_factors(scale):
    """Equality cases: duplicated and scaled rows and columns, in single precision."""
    for seed in range(12):
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(10, 5, generator=g)
        x[:, 4] = x[:, 3] * (1 + scale * torch.randn(10, generator=g) * (seed % 3))
        x[5:] = x[:5] * scale
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = nn.Sequential(nn.Linear(5, 4), nn.LeakyReLU(0.3), nn.Linear(4, 7))
        for fact in CurvatureFactors.facts(Subject(model, x)):
            found = fact.check()
            assert found.verdict in (Verdict.HOLDS, Verdict.CONSISTENT), found


@pytest.mark.parametrize(
    "layer", [nn.Conv1d(4, 4, 1, groups=2), nn.ConvTranspose1d(2, 2, 2)], ids=["groups", "overlaps"]
)
def test_layers_whose_units_read_different_features_are_declined(layer):
    """A group whose features are a thousand times smaller than the others': no common factor."""
    x = torch.randn(6, layer.in_channels, 2, generator=torch.Generator().manual_seed(0)).double()
    x[:, 0] *= 1e-3
    model = nn.Sequential(layer, nn.Flatten()).double()
    (fact,) = CurvatureFactors.facts(Subject(model, x))
    assert fact.check().verdict is Verdict.INAPPLICABLE


def test_the_factors_decline_where_a_direction_is_lost_and_are_silent_without_a_quadratic_form():
    model, x, _ = built("relu", 0)
    verdicts = {f.site: f.check().verdict for f in CurvatureFactors.facts(Subject(model, x))}
    assert verdicts["hidden.0.linear"] is Verdict.INAPPLICABLE  # 6 units, 3 outputs
    assert verdicts["readout"] in (Verdict.HOLDS, Verdict.CONSISTENT)
    assert list(CurvatureFactors.facts(Subject(nn.Linear(3, 65), torch.ones(2, 3)))) == []


def test_a_weight_that_is_used_twice_has_one_matrix():
    for name in ("shared-twice", "shared-modules"):
        g = torch.Generator().manual_seed(0)
        first, last = nn.Linear(6, 6).double(), nn.Linear(6, 3).double()
        other = first
        if name == "shared-modules":
            other = nn.Linear(6, 6).double()
            other.weight, other.bias = first.weight, first.bias
        model = nn.Sequential(first, nn.ReLU(), other, nn.ReLU(), last)
        x = torch.randn(9, 6, generator=g, dtype=torch.float64)
        y = torch.randint(3, (9,), generator=g)
        s = Subject(model, x, y, F.cross_entropy)
        found = s.conditioning.found
        assert [c.site for c in found] == ["0", "4"]
        dense = s.curvature("gauss-newton", layers=["0"]).operator.dense()
        lam = torch.linalg.eigvalsh(dense).flip(0)
        squares = found[0].root.sigma.square()
        assert torch.allclose(squares[:20], lam[:20], rtol=1e-9, atol=1e-15)


def test_a_weight_with_a_use_that_is_not_covered_is_left_out():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.middle = nn.Embedding(7, 5), nn.Linear(5, 5)
            self.readout = nn.Linear(5, 7, bias=False)
            self.readout.weight = self.words.weight

        def forward(self, ids):
            return self.readout(self.middle(self.words(ids).mean(1)))

    found = Subject(Tied(), torch.randint(7, (4, 3))).conditioning
    assert [c.site for c in found.found] == ["middle"]
    assert "used elsewhere too, at `words` it is not covered" in found.silent["readout"]
    first = nn.Linear(5, 5)
    second = nn.Linear(5, 5)
    second.weight = first.weight
    found = Subject(nn.Sequential(first, second), torch.randn(4, 5)).conditioning
    assert set(found.silent) == {"0", "1"}
    assert "with another bias" in found.silent["0"]


@pytest.mark.parametrize(("outputs", "few"), [(64, True), (65, False)])
def test_as_many_outputs_as_are_said_are_differentiated(outputs, few):
    subject = Subject(nn.Sequential(nn.Linear(2, outputs)), torch.randn(3, 2))
    if few:
        assert len(subject.conditioning.found) == 1
    else:
        with pytest.raises(Refusal, match="differentiated, 64 at most, got 65 a sample"):
            _ = subject.conditioning


# ------------------------------------------------------------------------------
# The square root of the loss, and the rows it multiplies.


D = torch.float64


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=D)


def squared(roots):
    return roots.mT @ roots


def test_of_cross_entropy_it_is_the_covariance_of_the_classes():
    f, y = drawn(5, 4), torch.tensor([0, 1, 2, 3, 0])
    p = f.softmax(1)
    expected = (torch.diag_embed(p) - p[:, :, None] * p[:, None]) / 5
    found = square_roots(f, F.cross_entropy, y)
    torch.testing.assert_close(squared(found), expected)
    # a number added to all logits is lost, exactly
    assert (found.sum(2).abs() < 1e-15).all()
    assert (found.norm(dim=2).amin(1) == 0).all()


def test_of_squared_error_it_is_a_multiple_of_the_identity():
    f, eye = drawn(3, 2), torch.eye(2, dtype=D).expand(3, 2, 2)
    torch.testing.assert_close(square_roots(f, None, None), math.sqrt(2 / 3) * eye)
    y = drawn(3, 2, seed=1).float()  # made float64, as the output is
    torch.testing.assert_close(squared(square_roots(f, F.mse_loss, y)), eye / 3)
    half = f[:, 0]
    assert square_roots(half, F.mse_loss, y[:, 0].double()).shape == (3, 1, 1)


def test_a_loss_that_is_linear_has_no_curvature():
    assert not square_roots(drawn(3, 2), lambda out, _: out.sum(), 0).any()
    assert not square_roots(drawn(3, 2), lambda out, _: (out * out.detach()).sum(), 0).any()


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (lambda out, y: out.sum(1).mean().square(), "mixes samples"),
        (lambda out, y: out.sin().sum(), "not convex in the output"),
        (lambda out, y: (1000 * out.abs() + 1000).exp().sum(), "must be finite, got outputs up to"),
    ],
)
def test_losses_without_a_quadratic_form_are_refused(loss, says):
    with pytest.raises(Refusal, match=says):
        square_roots(drawn(4, 3), loss, 0)


def by_hand(out, y):
    """Cross-entropy as it is written by hand: one number for all samples keeps it from overflow."""
    most = out.max()
    return ((out - most).exp().sum(1).log() + most - out[range(len(y)), y]).sum()


APART = {
    "cross-entropy": F.cross_entropy,
    "by hand": by_hand,
    "one against all": lambda out, y: F.binary_cross_entropy_with_logits(
        out, 1.0 * F.one_hot(y, 5)
    ),
    "softplus": lambda out, y: F.softplus(out).sum() - out.sum(),
    "hinge": lambda out, y: (1 + out - out.gather(1, y[:, None])).relu().square().sum(),
    "poisson": lambda out, y: F.poisson_nll_loss(out, 1.0 * F.one_hot(y, 5)),
    "distance": lambda out, y: (out - F.one_hot(y, 5)).square().sum(1).add(1).sqrt().mean(),
}


FINITE = {"by hand": 100.0, "poisson": 100.0}  # the scale up to which their exponentials are
MEANS = ("cross-entropy", "one against all", "poisson", "distance")


SCALES = (1e-3, 1.0, 20.0, 40.0, 100.0, 600.0)


@pytest.mark.parametrize(
    ("name", "scale"),
    some(
        (n, s)
        for n in APART
        for s in (1e-3, 1.0, 20.0, 40.0, 100.0, 600.0)
        if s <= FINITE.get(n, s)
    ),
)
def test_losses_that_take_each_sample_for_itself_are_measured_however_sure_they_are(name, scale):
    loss, share = APART[name], 9 if name in MEANS else 1
    for seed in range(4):
        f, y = scale * drawn(9, 5, seed=seed), torch.arange(9) % 5
        together = share * squared(square_roots(f, loss, y))
        alone = [square_roots(f[i : i + 1], loss, y[i : i + 1]) for i in range(9)]
        torch.testing.assert_close(together, squared(torch.cat(alone)), atol=1e-13, rtol=1e-6)


MIXING = {
    "neighbours": lambda out, y: (out[1:] - out[:-1]).square().sum(),
    "every other one": lambda out, y: (out[2] - out[0]).square().sum(),
    "the mean, shares alone": lambda out, y: F.cross_entropy(out.mean(0)[None], y[:1]),
    "contrast": lambda out, y: F.cross_entropy(out @ out.mT, torch.arange(len(out))),
    "a little": lambda out, y: out.square().sum() + 1e-4 * out[7, 0] * out[3, 1],
}


@pytest.mark.parametrize("name", MIXING)
@pytest.mark.parametrize("scale", [1e-2, 1.0])
def test_losses_that_compare_samples_are_refused(name, scale):
    with pytest.raises(Refusal, match="mixes samples"):
        square_roots(scale * drawn(9, 5), MIXING[name], torch.arange(9) % 5)


LAYERS = {
    "linear": (nn.Linear(3, 4), (5, 3)),
    "positions": (nn.Linear(3, 4), (5, 7, 3)),
    "convolution": (nn.Conv2d(2, 4, 3, stride=2, padding=1), (5, 2, 6, 6)),
    "transposed": (nn.ConvTranspose2d(2, 4, 3, stride=2), (5, 2, 4, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_rows_are_gradients_of_the_outputs_by_weight_and_bias(name):
    layer, shape = LAYERS[name]
    layer, x = layer.double(), drawn(*shape)
    z = layer(x)
    J = drawn(5, 2, *z.shape[1:], seed=1)  # of two outputs, by what the layer wrote
    rows = root_rows(layer, x, J, biased=True)
    assert torch.equal(root_rows(layer, x, J, biased=False), rows[:, :, :-4])
    for i in range(5):
        for k in range(2):
            f = (layer(x[i : i + 1])[0] * J[i, k]).sum()
            W, b = torch.autograd.grad(f, [layer.weight, layer.bias])
            # sizes alone: a kernel's entries come in an order of their own
            assert float(rows[i, k, :-4].norm()) == pytest.approx(float(W.norm()), rel=1e-12)
            torch.testing.assert_close(rows[i, k, -4:], b)


@pytest.mark.parametrize("name", ["linear", "positions", "convolution"])
def test_features_times_the_weight_are_what_the_layer_writes(name):
    layer, shape = LAYERS[name]
    layer, x = layer.double(), drawn(*shape)
    Z = feature_rows(layer, x, biased=True)
    together = torch.cat([layer.weight.flatten(1), layer.bias[:, None]], 1)
    wrote = layer(x)
    flat = wrote.flatten(2).mT if name == "convolution" else wrote
    torch.testing.assert_close(Z @ together.mT, flat.reshape(-1, 4))
    assert torch.equal(feature_rows(layer, x, biased=False), Z[:, :-1])


def test_a_transposed_convolution_reads_one_row_for_each_pixel():
    x = drawn(5, 2, 4, 3)
    found = feature_rows(nn.ConvTranspose2d(2, 4, 3), x, biased=True)
    assert torch.equal(found[:, :-1], x.movedim(1, -1).reshape(-1, 2))
    assert (found[:, -1] == 1).all()


def test_where_rounding_is_as_large_as_what_is_measured_nothing_is_told():
    wide = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4)).bfloat16()
    found = Subject(wide, torch.randn(8, 64).bfloat16()).conditioning
    assert [c.site for c in found.found if c.rtol < 1] == ["2"]
    assert "bfloat16" in found.silent["0"]
    assert not Subject(wide.half(), torch.randn(8, 64).half()).conditioning.silent


def masked(layer):
    return prune.l1_unstructured(layer, "weight", 0.5)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
@pytest.mark.parametrize(
    "make",
    [
        parametrizations.weight_norm,
        parametrizations.orthogonal,
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        masked,
    ],
)
def test_a_weight_that_is_made_of_others_is_not_taken_for_one_that_is_trained_or_is_not(make):
    found = Subject(nn.Sequential(nn.Linear(5, 4), make(nn.Linear(4, 3))), torch.ones(6, 5))
    assert [c.site for c in found.conditioning.found] == ["0"]
    assert "made of other parameters" in found.conditioning.silent["1"]


def test_a_bias_alone_does_not_train_a_weight():
    net = nn.Sequential(nn.Linear(5, 3))
    net[0].weight.requires_grad_(False)
    assert Subject(net, torch.ones(6, 5)).conditioning.silent == {"0": "its weight is not trained"}


@pytest.mark.parametrize("module", [False, True])
def test_a_loss_with_weights_of_classes_in_single_precision_is_measured(module):
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)), torch.randn(12, 5)
    y, weight = torch.randint(3, (12,)), torch.rand(3)
    loss = nn.CrossEntropyLoss(weight) if module else lambda o, t: F.cross_entropy(o, t, weight)
    exact = lambda o, t: F.cross_entropy(o, t, weight.to(o))
    found = [ss.landscape(net, x, targets=y, loss=each) for each in (loss, exact)]
    assert found[0].layers
    assert found[0].layers == found[1].layers
    assert ss.curvature(net, x, targets=y, loss=loss, only=("top", "check")).parts
