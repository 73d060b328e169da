"""Whether a network fits, up to noise."""

import pytest
import torch
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.theory.bottleneck import fit_of


def linear():
    model = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.5, 0.0], [0.0, -1.0, 0.3]]))
    return model


def data(count=200, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=g)
    return x, torch.randn(count, 2, generator=g)


def test_a_small_rest_fits():
    x, noise = data()
    found = fit_of(Subject(linear(), x), linear()(x).detach() + 0.05 * noise)
    assert found.fits
    assert found.unexplained.value < 0.01
    assert "it fits (" in found.says


def test_a_large_rest_fits_if_it_is_noise():
    x, noise = data()
    found = fit_of(Subject(linear(), x), linear()(x).detach() + 0.6 * noise)
    assert found.unexplained.value > 0.1
    assert found.fits
    assert "noise" in found.says


def test_a_large_rest_that_the_inputs_predict_does_not_fit():
    x, noise = data()
    missed = torch.stack([(2 * x[:, 0]).sin(), x[:, 1].abs()], dim=1)
    found = fit_of(Subject(linear(), x), linear()(x).detach() + missed + 0.1 * noise)
    assert not found.fits
    assert "the inputs predict" in found.says


def test_classes_are_counted_beside_the_most_common():
    x, _ = data()
    right = linear()(x).argmax(1)
    wrong = right.clone()
    wrong[::4] = 1 - wrong[::4]
    assert fit_of(Subject(linear(), x), right).unexplained.value == 0
    found = fit_of(Subject(linear(), x), wrong)
    assert not found.fits
    common = float(wrong.bincount().max()) / len(wrong)
    assert found.unexplained.value == pytest.approx(0.25 / (1 - common))
    assert "75.0% of the samples are right" in found.says


@pytest.mark.usefixtures("as_users_see_it")
def test_refusals():
    x, noise = data()
    subject = Subject(linear(), x)
    with pytest.raises(Refusal, match="in the shape of the output"):
        fit_of(subject, noise[:, :1])
    with pytest.raises(Refusal, match="one class a row"):
        fit_of(subject, torch.zeros(7, dtype=torch.long))
    with pytest.raises(Refusal, match="got one class"):
        fit_of(subject, torch.zeros(200, dtype=torch.long))
    with pytest.raises(Refusal, match="got one value"):
        fit_of(subject, torch.ones(200, 2))
