"""Weights and inputs are scaled to what the remedies promise, on every kind of layer."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, sources
from sigmascope.diagnosis.remedies import Inapplicable, QuietOutput, StandardiseInputs, UnitScale
from sigmascope.diagnosis.treatments import SAME, pairs, ranked
from sigmascope.models.layers import recording
from sigmascope.models.samples import prepared
from tests.models_zoo import MODELS, Net, call
from tests.sampling import some


def written(model, x):
    """Spread of what every linear and convolution layer writes."""
    names = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)}
    with torch.no_grad(), recording(names) as tape:
        call(model, x)
    dims = lambda t: [d for d in range(t.ndim) if d != (1 if t.ndim > 3 else t.ndim - 1)]
    centred = [c.output - c.output.mean(dims(c.output), keepdim=True) for c in tape.calls]
    return [t.square().mean().sqrt().item() for t in centred]


@pytest.mark.parametrize("name", ["relu-mlp", "conv", "unet", "small-vgg", "transformer-pre-norm"])
def test_every_layer_writes_unit_spread(name):
    model, batch = MODELS[name]()
    model.eval()
    new = UnitScale().apply(model, batch)
    assert written(new, batch) == pytest.approx([1.0] * len(written(new, batch)), rel=1e-3)


@pytest.mark.parametrize("name", some(MODELS, of=6))
def test_remedies_leave_zoo_models_that_run(name):
    model, batch = MODELS[name]()
    batch = prepared(model, batch)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.random.get_rng_state()
    for kind in diagnosis.remedies.REMEDIES:
        remedy = kind(steps=2) if kind is diagnosis.remedies.RankPretraining else kind()
        try:
            new = remedy.apply(model, batch)
        except Inapplicable:
            continue
        new.eval()
        with torch.no_grad():
            call(new, batch)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("shape", [(6,), (3, 8, 8), (5, 6)], ids=["rows", "images", "sequence"])
def test_inputs_are_standardised_with_the_statistics_of_the_batches(shape):
    g = torch.Generator().manual_seed(0)
    x = 40 + 7 * torch.randn(64, *shape, generator=g)
    first = nn.Conv2d(3, 4, 3) if len(shape) == 3 else nn.Linear(shape[-1], 4)
    new = StandardiseInputs().apply(nn.Sequential(first, nn.ReLU()), x)
    with recording({"0": new[0].layer}) as tape:
        new(x)
    (read,) = (c.input for c in tape.calls)
    channels = read.movedim(1, -1) if len(shape) == 3 else read
    rows = channels.flatten(0, -2)
    assert rows.mean(0).abs().amax() < 1e-4
    assert torch.allclose(rows.std(0), torch.ones(rows.shape[1]), atol=0.02)
    assert {"0.mean", "0.spread", "0.layer.weight"} <= set(new.state_dict())


def test_features_that_hardly_vary_are_not_blown_up():
    g = torch.Generator().manual_seed(0)
    x = torch.cat([100 * torch.randn(64, 5, generator=g), 1e-9 * torch.randn(64, 1)], 1)
    new = StandardiseInputs().apply(nn.Sequential(nn.Linear(6, 2)), x)
    assert new[0].spread[-1] > 0.5


@pytest.mark.parametrize(
    ("build", "x", "words"),
    [
        (lambda: nn.Sequential(nn.Linear(4, 2)), torch.randn(64, 4), "unit scale already"),
        (lambda: nn.Sequential(nn.Linear(4, 2)), torch.full((9, 4), 80.0), "equal ones"),
        (lambda: nn.Linear(4, 2), 99 * torch.randn(9, 4), "inside the model"),
        (
            lambda: nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)),
            torch.arange(9),
            "got Embedding",
        ),
    ],
)
def test_inputs_that_need_or_take_nothing(build, x, words):
    with pytest.raises(Inapplicable, match=words):
        StandardiseInputs().apply(build(), x)


def test_quiet_outputs_hardly_vary_and_quiet_ones_are_left():
    x = torch.randn(64, 4)
    loud = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    loud[2].weight.data.mul_(100)
    new = QuietOutput().apply(loud, x)
    assert written(new, x)[-1] == pytest.approx(0.1, rel=1e-3)
    with pytest.raises(Inapplicable, match=r"vary by more than 0\.1"):
        QuietOutput().apply(new, x)


def test_two_in_turn_are_better_than_either():
    """Tiny inputs to a deep tanh network: scaled inputs and weights, both are needed for SGD."""
    data = sources.open_data("digits", samples=128)
    x = 1e-3 * data.inputs.flatten(1)
    torch.default_generator.manual_seed(0)
    layers = [m for _ in range(6) for m in (nn.Linear(64, 64), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    for p in model.parameters():
        p.data.mul_(0.1)
    options = {"targets": data.targets, "loss": F.cross_entropy, "optimizer": "sgd"}
    chance = lambda m: diagnosis.trainability.trainability(m, x, **options).value
    both = diagnosis.remedies.remedy("standardise-inputs+unit-scale")
    assert both.name == "standardise-inputs+unit-scale"
    assert "unscaled-inputs" in [kind.name for kind in both.cures]
    assert chance(both.apply(model, x)) > 0.9
    # below one half rules speak; of 128 samples the probe's steps are noisy: outputs that are the
    # same for all of them wander at the largest rate, and are right by chance now and then
    assert chance(model) < 0.5
    assert chance(StandardiseInputs().apply(model, x)) < 0.5


def test_pairs_are_proposed_where_no_single_remedy_is_enough(monkeypatch):
    data = sources.open_data("digits", samples=24)
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    options = {"targets": data.targets, "loss": F.cross_entropy}
    kinds = (UnitScale, diagnosis.remedies.Reinitialise, diagnosis.remedies.LayerNormalisation)
    found = [diagnosis.treat(model, data.inputs, k(), **options) for k in kinds]
    assert pairs(found) == ()  # each is enough
    monkeypatch.setattr("sigmascope.diagnosis.treatments.ENOUGH", 2.0)
    best, *others = ranked(found)
    allowed = [{best.remedy.name, o.remedy.name} for o in others]
    allowed = [pair for pair in allowed if pair not in SAME]
    assert allowed
    assert [{one.name for one in each.parts} for each in pairs(found)] == allowed
    assert pairs([]) == ()
    without = [diagnosis.treat(model, data.inputs, k()) for k in kinds]
    assert pairs(without) == ()  # nothing was foretold


def test_a_first_layer_that_is_called_again_is_not_standardised():
    twice = lambda self, x: self.last(self.cell(self.cell(x).tanh()).tanh())
    model = Net(twice, cell=nn.Linear(4, 4), last=nn.Linear(4, 2))
    with pytest.raises(Inapplicable, match="cell is called again in the same pass"):
        StandardiseInputs().apply(model, 30 + torch.randn(9, 4))


def test_matrices_and_kernels_are_orthogonal_up_to_a_factor():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(144, 8), nn.Linear(8, 8))
    new = UnitScale().apply(model, torch.randn(32, 2, 8, 8))
    for layer in (new[0], new[2], new[3]):
        rows = layer.weight.detach().double().flatten(1)
        gram = rows @ rows.mT
        torch.testing.assert_close(
            gram / gram[0, 0], torch.eye(len(rows)).double(), atol=1e-5, rtol=0
        )
