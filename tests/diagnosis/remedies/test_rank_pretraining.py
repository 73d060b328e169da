"""Pre-training raises the rank of what layers pass on, and leaves formats and names."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sigmascope import survey
from sigmascope.diagnosis.remedies import Inapplicable, RankPretraining
from sigmascope.diagnosis.remedies.rank_pretraining import _ratio
from sigmascope.diagnosis.treatments import last_ratio
from tests.diagnosis.remedies.networks import network, treated
from tests.models_zoo import MODELS, call

AT_LENGTH = [pytest.param(o, marks=pytest.mark.slow) for o in ({"bias": False}, {"init": "he"})]


@pytest.mark.parametrize("options", [{}, *AT_LENGTH], ids=str)
@pytest.mark.slow
def test_pretraining_raises_the_ratio_of_deep_networks(digits, options):
    """At depth 32 and width 128: from 1.00 to 1.04 to far above 28."""
    model = network(32, 128, **options)
    t = treated(model, digits, RankPretraining())
    assert last_ratio(t.before) < 1.05
    assert last_ratio(t.after) > 50


def test_pretraining_rescales_and_zeroes_biases(digits):
    new = RankPretraining().apply(network(), digits.inputs)
    sizes = survey.profile(new, digits.inputs, views=["representations"]).series(
        "mean square", form="samples"
    )
    layers = [r.estimate.value for r in sizes if r.site != "(output)"]
    assert layers[1:] == pytest.approx([1.0] * 16, rel=1e-4)
    assert all(not b.linear.bias.count_nonzero() for b in new.hidden)
    assert {p.dtype for p in new.parameters()} == {torch.float32}


def ratio(model, x):
    return last_ratio(survey.profile(model, x, views=["representations"]))


def test_the_printed_step_works_on_standardised_digits(digits):
    """Ascent with step 1 along the gradient, 25 steps: 28 to 45 with PyTorch's weights."""
    x = digits.inputs.flatten(1)
    x = (x - x.mean(0)) / x.std(0).clamp(min=0.1)
    new = RankPretraining(step=1.0, relative=False).apply(network(16, 128, bias=False), x)
    assert 20 < ratio(new, x) < 60


def test_end_to_end_ascends_too_but_slowly(digits):
    model = network(8, 64, bias=False)
    new = RankPretraining(end_to_end=True, steps=60, step=1e-3).apply(model, digits.inputs)
    assert ratio(new, digits.inputs) > 1.5 * ratio(model, digits.inputs)


def test_pretraining_takes_a_loader(digits):
    loader = DataLoader(TensorDataset(digits.inputs, digits.targets), batch_size=64)
    assert ratio(RankPretraining(steps=10).apply(network(8), loader), digits.inputs) > 5


@pytest.mark.parametrize("name", ["small-vgg", "small-resnet", "dict-input", "unet", "bfloat16"])
def test_pretraining_works_on_the_zoo(name):
    model, batch = MODELS[name]()
    kinds = [p.dtype for p in model.parameters()]
    names = list(model.state_dict())
    try:
        new = RankPretraining(steps=3).apply(model, batch)
    except Inapplicable:
        assert len([m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]) < 2
        return
    assert [p.dtype for p in new.parameters()] == kinds
    assert list(new.state_dict()) == names
    call(new, batch)


def test_useless_steps_are_refused():
    with pytest.raises(ValueError, match="`steps` must be 1 or more"):
        RankPretraining(steps=0)


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (5, 5)])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_the_ratio_is_that_of_the_singular_values_whatever_the_shape_and_scale(shape, scale):
    H = torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lam = torch.linalg.svdvals(H).square()
    expected = float(lam.sum() ** 2 / lam.square().sum())
    assert float(_ratio(scale * H)) == pytest.approx(expected)
