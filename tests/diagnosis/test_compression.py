"""Layers along the principal directions of what they write, as two thinner ones; ranks of all."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import report, sources
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.compression import (
    Directions,
    TruncationTrial,
    compression,
    directions_of,
    factored,
    largest,
    loss_on,
    replaceable,
    truncated,
)
from sigmascope.models import Subject
from sigmascope.models.layers import called
from sigmascope.models.networks import mlp
from sigmascope.models.samples import chosen, sample_count
from tests.models_zoo import MODELS, Net
from tests.sampling import some


@pytest.fixture(scope="module")
def trained():
    data = sources.open_data("digits", samples=1500)
    g = torch.Generator().manual_seed(0)
    model = mlp(inputs=64, outputs=10, depth=3, width=96, generator=g)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    x, y = data.inputs.float(), data.targets
    for _ in range(200):
        rows = torch.randint(1000, (64,), generator=g)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return model, x, y


def images():
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(2, 12, 3, stride=2, padding=1, padding_mode="circular"),
            nn.Tanh(),
            nn.Conv2d(12, 6, 3, bias=False),
            nn.Flatten(),
            nn.Linear(24, 4, bias=False),
        ).double()


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_loss_of_every_layer_is_what_is_measured_at_every_rank(trained):
    digits = trained[0].double(), trained[1][:300].double()
    for model, x in (digits, (images(), drawn(40, 2, 8, 8))):
        subject = Subject(model, x)
        for layer in directions_of(subject)[0]:
            call = next(c for c in subject.calls if c.site == layer.site)
            for rank in (1, 3, len(layer.energies)):
                thin = truncated(model, [layer], {layer.site: rank}).get_submodule(layer.site)
                lost = (thin(call.input) - call.output).detach()
                around = call.output.detach()
                if layer.module.bias is not None:
                    dims = [0] if lost.ndim == 2 else [0, 2, 3]
                    around = around - around.mean(dims, keepdim=True)
                measured = float(lost.square().sum().sqrt() / around.square().sum().sqrt())
                assert measured == pytest.approx(layer.error(rank), rel=1e-6, abs=1e-7)


def test_no_other_map_of_that_rank_loses_less():
    model, x = images(), drawn(40, 2, 8, 8)
    layer = directions_of(Subject(model, x))[0][0]
    rows = model[0](x).movedim(1, -1).reshape(-1, 12).detach()
    rest = rows - rows.mean(0)
    g = torch.Generator().manual_seed(0)
    for _ in range(50):
        Q = torch.linalg.qr(torch.randn(12, 3, generator=g, dtype=torch.float64))[0]
        lost = float((rest - rest @ Q @ Q.mT).norm() / rest.norm())
        assert lost >= layer.error(3) - 1e-12


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Odd(nn.Module):
    """Layers of which one alone can be taken apart."""

    def __init__(self):
        super().__init__()
        self.plain, self.twice, self.other = (nn.Linear(6, 6) for _ in range(3))
        self.tied, self.doubled = nn.Linear(6, 6), Doubled(6, 6)
        self.tied.weight = self.other.weight
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))
        self.grouped = nn.Conv1d(2, 2, 3, padding=1, groups=2)

    def forward(self, x):
        for part in (self.twice, self.plain, self.twice, self.other, self.tied, self.normed):
            x = part(x)
        return self.grouped(self.doubled(x).unflatten(1, (2, 3))).flatten(1)


def test_only_plain_layers_that_are_called_once_are_taken_apart():
    found, left = directions_of(Subject(Odd().double(), drawn(9, 6)))
    assert [layer.site for layer in found] == ["plain"]
    assert {*left} == {name for name, _ in Odd().named_children()} - {"plain"}


def test_a_layer_of_one_row_is_left_and_of_two_it_writes_along_one_direction():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)).double()
    assert len(directions_of(Subject(model, drawn(5, 3)))[0]) == 2
    assert directions_of(Subject(model, drawn(1, 3)))[0] == ()
    ((one,), _) = directions_of(Subject(nn.Linear(3, 4), drawn(2, 3)))
    assert one.error(1) == pytest.approx(0, abs=1e-9)


def test_ranks_and_sizes_by_hand():
    """Energies 16, 9 and 0 of 25: one direction loses 3/5, two lose nothing."""
    parts = torch.zeros(3).double(), torch.eye(3).double(), torch.tensor([16.0, 9.0, 0.0]).double()
    layer = Directions("a", nn.Linear(8, 3), *parts)
    assert [layer.error(rank) for rank in (0, 1, 2, 3)] == pytest.approx([1, 0.6, 0, 0])
    assert [layer.rank_for(t) for t in (1.0, 0.6 + 1e-9, 0.6 - 1e-9, 0.0)] == [1, 1, 2, 2]
    assert layer.own == 8 * 3 + 3
    assert [layer.parameters(rank) for rank in (1, 2)] == [8 + 3 + 3, 2 * (8 + 3) + 3]
    silent = replace(layer, energies=torch.zeros(3).double())
    assert (silent.error(1), silent.rank_for(0.0)) == (0.0, 1)


@pytest.mark.parametrize("rank", [1, 3])
def test_two_thinner_layers_are_the_truncated_one(rank):
    model, x = images(), drawn(20, 2, 8, 8)
    layers, _ = directions_of(Subject(model, x))
    ranks = {layer.site: rank for layer in layers}
    one, two = truncated(model, layers, ranks), factored(model, layers, ranks)
    assert torch.allclose(one(x), two(x), rtol=1e-10, atol=1e-12)
    for layer in layers:
        pair = two.get_submodule(layer.site)
        assert sum(p.numel() for p in pair.parameters()) == layer.parameters(rank)
        assert torch.linalg.matrix_rank(one.get_submodule(layer.site).weight.flatten(1)) == rank
    assert torch.equal(model(x), images()(x))  # which is left as it is


def test_the_mean_of_what_a_layer_with_a_bias_writes_is_kept():
    model, x = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 2)).double(), drawn(30, 5) + 3
    ((layer, _), _) = directions_of(Subject(model, x))
    thin = truncated(model, [layer], {layer.site: 1})
    assert torch.allclose(thin[0](x).mean(0), model[0](x).mean(0), rtol=1e-12)


def test_losses_elsewhere_are_those_of_the_truncated_layer():
    model, x, y = nn.Sequential(nn.Linear(5, 4)).double(), drawn(30, 5), drawn(20, 5, seed=1)
    ((layer,), _) = directions_of(Subject(model, x))
    call = Subject(model, y).calls[0]
    written = model(y).detach()
    lost = truncated(model, [layer], {"0": 2})(y).detach() - written
    expected = float(lost.norm() / (written - model(x).detach().mean(0)).norm())
    assert loss_on(layer, 2, call) == pytest.approx(expected, rel=1e-12)
    assert loss_on(layer, 4, call) == pytest.approx(0, abs=1e-12)


def trial(*widths, bias=True):
    """A linear network, tried on the samples that its directions are from."""
    model = nn.Sequential(*(nn.Linear(a, b, bias=bias) for a, b in pairwise(widths))).double()
    with torch.no_grad():
        for i, layer in enumerate(model):
            layer.weight.copy_(drawn(*layer.weight.shape, seed=i))
    subject = Subject(model, drawn(40, widths[0]))
    return TruncationTrial(model, directions_of(subject)[0], subject)


@pytest.mark.parametrize("goal", [1e-7, 3e-4, 0.02, 0.7])
def test_the_threshold_is_found_to_a_hundredth_and_never_beyond(goal):
    asked = []
    found = largest(lambda t: asked.append(t) or t, goal)
    assert 0.99 * goal <= found <= goal
    assert len(asked) == 14


def test_the_threshold_ends_where_all_or_nothing_is_kept():
    assert largest(lambda t: 0.0, 0.1) == 1.0
    assert largest(lambda t: 1.0, 0.1) == 0.0
    assert largest(lambda t: t, 1.0) == 1.0


def test_a_last_layer_changes_the_output_by_what_it_loses():
    """On the samples of its directions the loss is exact."""
    tried = trial(6, 9)
    (layer,) = tried.layers
    for rank in (1, 2, 4):
        found = tried.truncation(layer, rank)
        # of all columns together: the spread of the output is that of the layer
        assert found.change.value == pytest.approx(found.error.value, rel=1e-9)
        assert found.elsewhere.value == pytest.approx(found.error.value, rel=1e-9)
        assert (found.site, found.rank, found.full) == ("0", rank, 6)
        assert found.parameters == (6 * 9 + 9, rank * 15 + 9)
    assert tried.distance(tried.before) == 0
    assert tried.distance(tried.before + tried.spread) == pytest.approx(1)


def test_ranks_are_of_layers_that_get_smaller_by_them():
    """A square layer of 8 is smaller as two of rank 3 (48 weights), and not of rank 4 (64)."""
    tried = trial(8, 8, bias=False)
    (layer,) = tried.layers
    for rank, smaller in ((3, True), (4, False)):
        threshold = layer.error(rank) * (1 + 1e-9)
        assert layer.rank_for(threshold) == rank
        assert tried.ranks(threshold) == ({"0": rank} if smaller else {})
    assert tried.ranks(1.0) == {"0": 1}


def test_an_output_that_does_not_vary_is_refused():
    model = nn.Linear(3, 2).double()
    subject = Subject(model, torch.ones(5, 3).double())
    with pytest.raises(Refusal, match="must vary between samples, got one value"):
        _ = TruncationTrial(model, (), subject).spread


def test_a_layer_that_the_model_looks_inside_is_not_replaced():
    run = lambda self, x: self.called(x) @ self.looked.weight + self.looked(x)
    model = Net(run, called=nn.Linear(4, 4), looked=nn.Linear(4, 4)).double()
    x = drawn(9, 4)
    layers = {layer.site: layer for layer in directions_of(Subject(model, x))[0]}
    assert replaceable(model, layers["called"], x)
    assert not replaceable(model, layers["looked"], x)
    with pytest.raises(AttributeError):
        factored(model, [layers["looked"]], {"looked": 1})(x)


class Padded(nn.Module):
    """Tokens of which zeros are padding, through an encoder of torch."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 64, batch_first=True)
        self.encoder, self.out = nn.TransformerEncoder(layer, 2), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.encoder(self.words(x), src_key_padding_mask=x == 0)[:, 0])


def test_layers_that_go_to_a_fused_kernel_in_evaluation_mode_are_called_once_taken_apart():
    g = torch.Generator().manual_seed(0)
    x = torch.randint(1, 11, (64, 5), generator=g)
    x[:20, 3:] = 0
    model = Padded()
    found = compression(model, x, tolerance=0.3)
    assert {"encoder.layers.0.linear1", "encoder.layers.1.linear2"} <= {
        t.site for t in found.layers
    }
    exec(found.patch(), {"nn": nn, "model": model})  # what is advised, on the user's own model
    model.load_state_dict(found.model.state_dict())
    for mode in (True, False):
        with torch.set_grad_enabled(mode):
            assert torch.equal(model.eval()(x), found.model.eval()(x))
    assert "encoder.layers.0.self_attn and 1 more" in report.text(found)


def relative(a, b):
    return float((a - b).square().mean().sqrt() / (b - b.mean(0)).square().mean().sqrt())


@pytest.mark.parametrize("tolerance", [0.01, 0.05, 0.2])
def test_the_promise_holds_on_samples_that_were_never_seen(trained, tolerance):
    model, x, y = trained
    model = model.float()
    found = compression(model, x[:1000], tolerance=tolerance, targets=y[:1000])
    assert found.layers
    assert found.change.value <= tolerance
    with torch.no_grad():
        old, new = model(x[1000:]), found.model(x[1000:])
    assert relative(new, old) <= 1.3 * tolerance
    before, after = ((out.argmax(1) == y[1000:]).float().mean() for out in (old, new))
    assert float(after) >= float(before) - tolerance
    assert found.right is not None
    assert "right in the place of" in found.says


def test_the_new_model_has_as_many_parameters_as_it_says_and_the_same_function(trained):
    model, x, _ = trained
    model = model.float()
    found = compression(model, x[:800], tolerance=0.05)
    assert sum(p.numel() for p in found.model.parameters()) == found.parameters[1]
    assert found.parameters[1] < found.parameters[0]
    again = mlp(inputs=64, outputs=10, depth=3, width=96, generator=torch.Generator())
    scope = {"model": again, "nn": nn}
    exec(found.patch(), scope)  # what the user is told to paste
    again.load_state_dict(found.model.state_dict())
    assert torch.equal(again(x[:50]), found.model(x[:50]))


def test_convolutions_become_two():
    model, g = images(), torch.Generator().manual_seed(1)
    x = torch.randn(60, 1, 8, 8, generator=g, dtype=torch.float64).expand(-1, 2, -1, -1)
    with torch.no_grad():
        model[0].weight[6:] = model[0].weight[:6] * 2  # six directions in twelve channels
        model[0].bias.copy_(torch.arange(12) / 10)
    found = compression(model, x, tolerance=0.02)
    assert "0" in {t.site for t in found.layers}
    assert isinstance(found.model[0], nn.Sequential)
    with torch.no_grad():
        assert relative(found.model(x), model(x)) < 0.03


def test_nothing_is_advised_where_nothing_is_saved():
    model = nn.Linear(8, 8).double()
    with torch.no_grad():
        model.weight.copy_(torch.eye(8))
    found = compression(model, torch.randn(40, 8, dtype=torch.float64), tolerance=0.01)
    assert found.layers == ()
    assert found.parameters[0] == found.parameters[1]
    assert found.says.startswith("0 of 1 layers")


@pytest.mark.usefixtures("as_users_see_it")
def test_refusals(trained):
    model, x, y = trained
    model = model.float()
    with pytest.raises(Refusal, match="between 0 and 1"):
        compression(model, x, tolerance=2)
    with pytest.raises(Refusal, match="four samples or more"):
        compression(model, x[:3])
    with pytest.raises(Refusal, match="must vary between samples"):
        compression(model, x[:1].expand(20, *x.shape[1:]))
    with pytest.raises(Refusal, match="one class for each row"):
        compression(model, x[:100], targets=y[:100].float())


REFUSED = ("four samples", "must vary between samples", "its own, got none")


@pytest.mark.parametrize("name", some(MODELS, of=6))
def test_every_model_of_the_zoo_keeps_its_function_or_is_refused(name):
    model, batch = MODELS[name]()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    dims = 1 if "batch-second" in name or "time-first" in name else 0
    count = sample_count(batch, batch_dim=dims)
    many = chosen(batch, torch.arange(count).repeat(3), batch_dim=dims)
    try:
        found = compression(model, many, tolerance=0.3, batch_dim=dims)
    except Refusal as reason:
        if not any(part in str(reason) for part in REFUSED):
            raise
    else:
        assert found.change.value <= 0.3
        assert Subject(found.model, many, batch_dim=dims).output.isfinite().all()
        with torch.no_grad():  # as it will be used: nothing held still, no fused kernel left out
            called(found.model.eval(), many)
    for k, v in model.state_dict().items():
        assert torch.equal(v, before[k])


def test_halves_are_dealt_alike_every_time_and_nothing_global_is_drawn():
    model = nn.Sequential(nn.Linear(6, 12), nn.Linear(12, 3))
    before = torch.get_rng_state()
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    one, other = (compression(model, x, tolerance=0.3) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert one.change == other.change
