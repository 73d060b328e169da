import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.probes.curvature.conditioning import feature_rows, root_rows, square_roots
from tests.sampling import some

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
