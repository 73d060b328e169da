"""Each remedy cures what it claims, leaves the given model alone, and says when it does nothing."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from sigmascope import diagnosis, networks, sources, survey
from sigmascope.diagnosis import treat
from sigmascope.diagnosis.remedies import (
    REMEDIES,
    BatchNormalisation,
    Inapplicable,
    RankPretraining,
    RecentreWeights,
    Reinitialise,
    RescaleResidual,
)
from sigmascope.diagnosis.treatments import last_ratio
from sigmascope.networks import UncentredBatchNorm
from tests.models_zoo import MODELS, call


@pytest.fixture(scope="module")
def digits():
    return sources.open_data("digits", samples=128)


def network(depth=16, width=64, seed=0, **options):
    g = torch.Generator().manual_seed(seed)
    return networks.mlp(inputs=64, outputs=10, depth=depth, width=width, generator=g, **options)


def treated(model, data, remedy, **options):
    return treat(model, data.inputs, remedy, targets=data.targets, loss=F.cross_entropy, **options)


CURES = {
    "standardise-inputs": {"shift": 100.0, "depth": 3},
    "unit-scale": {},
    "layer-norm": {"bias": False, "depth": 24},
    "skip-connections": {},
    "zero-branches": {"residual": 3.0, "depth": 32, "activation": "linear"},
    "quiet-output": {"loud": 1000.0, "depth": 2},
    "rank-pretraining": {},
    "batch-norm": {},
    "reinitialise": {},
    "recentre-weights": {"norm": "batch", "init": "asymmetric"},
    "rescale-residual": {"residual": 3.0, "depth": 32},
}


@pytest.mark.parametrize("kind", REMEDIES, ids=lambda k: k.name)
def test_each_cures_what_it_claims_and_leaves_the_model_alone(digits, kind):
    options = dict(CURES[kind.name])
    shift, loud = options.pop("shift", 0.0), options.pop("loud", 1.0)
    model = network(**options)
    model.readout.weight.data.mul_(loud)
    digits = sources.Data(digits.inputs + shift, digits.targets, "digits", 10)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.random.get_rng_state()
    t = treated(model, digits, kind())
    assert t.found_before
    claimed = {f.name for f in t.found_before} & set(kind.cures)
    assert claimed
    assert claimed <= set(t.cured)
    assert not t.new
    assert t.model is not model
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(p.requires_grad and p.grad is None for p in t.model.parameters())


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"init": "he"}], ids=str)
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


def test_the_printed_step_works_on_standardised_digits(digits):
    """Ascent with step 1 along the gradient, 25 steps: 28 to 45 with PyTorch's weights."""
    x = digits.inputs.flatten(1)
    x = (x - x.mean(0)) / x.std(0).clamp(min=0.1)
    new = RankPretraining(step=1.0, relative=False).apply(network(32, 128, bias=False), x)
    ratio = last_ratio(survey.profile(new, x, views=["representations"]))
    assert 20 < ratio < 60


def test_end_to_end_ascends_too_but_slowly(digits):
    model = network(8, 64, bias=False)
    new = RankPretraining(end_to_end=True, steps=60, step=1e-3).apply(model, digits.inputs)
    views = {"views": ["representations"]}
    before = last_ratio(survey.profile(model, digits.inputs, **views))
    assert last_ratio(survey.profile(new, digits.inputs, **views)) > 1.5 * before


def test_pretraining_takes_a_loader(digits):
    loader = DataLoader(TensorDataset(digits.inputs, digits.targets), batch_size=64)
    new = RankPretraining(steps=10).apply(network(8), loader)
    assert last_ratio(survey.profile(new, digits.inputs, views=["representations"])) > 5


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


@pytest.mark.parametrize("centred", [True, False])
def test_batch_norm_goes_before_each_activation(digits, centred):
    new = BatchNormalisation(centred=centred).apply(network(4), digits.inputs)
    kind = nn.BatchNorm1d if centred else UncentredBatchNorm
    assert [type(b.linear.norm) for b in new.hidden] == [kind] * 4
    assert isinstance(new.readout, nn.Linear)
    with torch.no_grad():
        block = new.hidden[0]
        written = block.linear(digits.inputs.flatten(1))
    assert torch.allclose(written.square().mean(0), torch.ones(64), atol=2e-3)


def test_batch_norm_on_images_and_functional_activations():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Conv2d(1, 4, 3)
            self.b = nn.Conv2d(4, 8, 3)
            self.c = nn.Linear(8 * 16, 5)

        def forward(self, x):
            return self.c(F.relu(self.b(F.relu(self.a(x)))).flatten(1))

    x = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    new = BatchNormalisation().apply(Plain().eval(), x)
    assert isinstance(new.a.norm, nn.BatchNorm2d)
    assert not new.a.norm.training
    assert float(new.a.norm.running_var.min()) != 1  # estimated from the batch
    assert new(x).shape == (6, 5)
    assert torch.equal(new.a.weight, new.a.layer.weight)


def test_eval_mode_statistics_make_the_new_model_do_the_same_in_both_modes(digits):
    new = BatchNormalisation().apply(network(3).eval(), digits.inputs)
    with torch.no_grad():
        still = new(digits.inputs)
        for module in new.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.train()
        moving = new(digits.inputs)
    assert torch.allclose(still, moving, atol=0.05)


@pytest.mark.parametrize(
    ("remedy", "options", "words"),
    [
        (BatchNormalisation(), {"norm": "batch"}, "It is there already"),
        (RecentreWeights(), {}, "largest mean shift is 0"),
        (RescaleResidual(), {}, "needs residual branches"),
        (RankPretraining(), {"depth": 0}, "before the last"),
    ],
)
def test_each_says_when_it_does_nothing(digits, remedy, options, words):
    with pytest.raises(Inapplicable, match=words):
        remedy.apply(network(**options), digits.inputs)


def test_residual_branches_of_images_are_scaled():
    g = torch.Generator().manual_seed(0)
    model = networks.resnet(inputs=(1, 8, 8), outputs=3, depth=8, width=4, generator=g)
    new = RescaleResidual().apply(model, torch.randn(4, 1, 8, 8))
    blocks = [m for m in model.modules() if isinstance(m, networks.ResidualBlock)]
    scaled = [m for m in new.modules() if isinstance(m, networks.ResidualBlock)]
    for old, now in zip(blocks, scaled, strict=True):
        parts = [p for p in old.second.children() if next(p.parameters(), None) is not None]
        after = [p for p in now.second.children() if next(p.parameters(), None) is not None]
        assert torch.allclose(after[-1].weight, parts[-1].weight / len(blocks) ** 0.5)


@pytest.mark.parametrize("scheme", ["orthogonal", "he", "xavier"])
def test_reinitialise_draws_from_its_own_generator(digits, scheme):
    model = network(6)
    g = torch.Generator().manual_seed(3)
    first = Reinitialise(scheme=scheme).apply(model, digits.inputs)
    again = Reinitialise(scheme=scheme).apply(model, digits.inputs)
    other = Reinitialise(scheme=scheme, generator=g).apply(model, digits.inputs)
    W = [m.hidden[2].linear.weight for m in (first, again, other)]
    assert torch.equal(W[0], W[1])
    assert not torch.equal(W[0], W[2])


def test_remedies_are_found_by_name_and_by_finding(digits):
    assert diagnosis.remedies.remedy("rank-pretraining", steps=3) == RankPretraining(steps=3)
    with pytest.raises(ValueError, match="Did you mean `batch-norm`"):
        diagnosis.remedies.remedy("batchnorm")
    profile = survey.profile(network(32), digits.inputs, views=["representations"])
    (found,) = (f for f in diagnosis.rules.diagnose(profile) if f.name == "rank-collapse")
    names = [r.name for r in diagnosis.remedies.remedies_for(found)]
    assert names[:2] == ["batch-norm", "rank-pretraining"]


def test_every_cured_finding_exists():
    from pathlib import Path

    page = Path(__file__).parents[3].joinpath("docs/findings.md").read_text()
    for kind in REMEDIES:
        for name in kind.cures:
            assert f"`{name}`" in page, name


def test_normalisers_are_switched_in_copies(digits):
    model = network(16, norm="batch")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    effect = diagnosis.remedies.normalisation_effect(model, digits.inputs)
    assert effect.count == 16
    assert effect.as_is.value > 5 > effect.uncentred.value > 1.5 > effect.removed.value
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    with pytest.raises(Inapplicable):
        diagnosis.remedies.normalisation_effect(network(2), digits.inputs)


@pytest.mark.parametrize(
    ("batches", "words"), [([], "gives none"), ([1, 2], "pairs \\(inputs, targets\\), got int")]
)
def test_useless_batches_are_refused(as_users_see_it, batches, words):
    with pytest.raises(ValueError, match=words):
        RankPretraining().apply(network(2), batches)


def test_useless_steps_are_refused():
    with pytest.raises(ValueError, match="`steps` must be 1 or more"):
        RankPretraining(steps=0)


def test_orthogonal_weights_have_he_s_gain_but_for_the_last():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    new = Reinitialise(scheme="orthogonal").apply(model, torch.randn(9, 6))
    for layer, gain in ((new[0], 2**0.5), (new[2], 2**0.5), (new[4], 1.0)):
        sigma = torch.linalg.svdvals(layer.weight)
        assert torch.allclose(sigma, torch.full_like(sigma, gain), atol=1e-5)
