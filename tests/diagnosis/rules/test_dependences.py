"""Rules on dependences: each next to its threshold, and on networks that have the fault or not."""

import pytest
import torch
from torch import nn

from sigmascope import survey
from sigmascope.core import quantities as q
from sigmascope.diagnosis.rules.dependences import (
    heavy_dropout,
    mixed_samples,
    random_evaluation,
    shared_normaliser,
    stale_statistics,
    unnormalised_attention,
    unread_inputs,
)
from sigmascope.diagnosis.rules.weights import linear_layers, unused_layers
from tests.diagnosis.readings import ABOVE, BELOW, profile, reading, said, series
from tests.diagnosis.rules.networks import found
from tests.models_zoo import Net

READ = {  # what each rule finds, and the quantity that it reads, where
    mixed_samples: ("mixed-samples", "dependence on other samples", "(model)"),
    unnormalised_attention: ("unnormalised-attention", "attention gap", "(attention)"),
    unread_inputs: ("unread-inputs", "unread share", "(input ids)"),
    random_evaluation: ("random-evaluation", "evaluation spread", "(model)"),
    heavy_dropout: ("heavy-dropout", "dropped share", "layer 1"),
}


@pytest.mark.parametrize(
    ("rule", "value", "form", "severity"),
    [
        (mixed_samples, 1e-4 * ABOVE, "rows", "warning"),
        (mixed_samples, 1e-4, "rows", None),
        (mixed_samples, 2.0, "pairs", None),
        (unnormalised_attention, 1e-4 * ABOVE, "net.py:3", "warning"),
        (unnormalised_attention, 1e-4, "net.py:3", None),
        (unnormalised_attention, 0.0, "net.py:3", None),
        (unread_inputs, 0.1 / ABOVE, "", None),
        (unread_inputs, 0.1, "", "note"),
        (unread_inputs, 1.0, "", "note"),
        (unread_inputs, 0.5 / ABOVE, "attention_mask", "note"),
        (unread_inputs, 0.5, "attention_mask", "warning"),  # ids that a mask hides
        (random_evaluation, 1e-4 * ABOVE, "dropout at net.py:3", "warning"),
        (random_evaluation, 0.2, "", "note"),
        (random_evaluation, 1e-4, "", None),
        (heavy_dropout, 0.85, "", None),
        (heavy_dropout, 0.85 * ABOVE, "", "warning"),
        (heavy_dropout, 0.97, "", "warning"),
        (heavy_dropout, 0.97 * ABOVE, "", "error"),
    ],
)
def test_one_number_decides(rule, value, form, severity):
    name, quantity, site = READ[rule]
    facts = [reading(quantity, value, site, form=form), reading("dropped share", 0.1, "layer 0")]
    assert said(rule, *facts, count=3) == ({name: severity} if severity else {})


def test_layers_without_use_are_named():
    (finding,) = unused_layers(profile(*series("times called", 0, 0, 0, 0)))
    assert "layer 0, layer 1, layer 2 and 1 more" in finding.says
    assert said(unused_layers, count=3) == {}


@pytest.mark.parametrize(("form", "severity"), [("", "note"), ("dropout at a.py:3", "warning")])
def test_a_layer_that_a_pass_does_not_call_may_be_called_by_another_where_these_are_drawn(
    form, severity
):
    """As of a depth that is drawn; dropout that drops in evaluation mode calls the same layers."""
    facts = series("times called", 0), [reading("evaluation spread", 0.3, "(model)", form=form)]
    assert said(unused_layers, *(f for some in facts for f in some)) == {"unused-layers": severity}


@pytest.mark.parametrize(("spare", "count", "speaks"), [
    (1.0, 4, True), (BELOW, 4, False), (1.0, 5, False),
])  # fmt: skip
def test_linear_neighbours(spare, count, speaks):
    r = reading("spare width", spare, "layer 1", form="after layer 0")
    assert said(linear_layers, r, count=count) == ({"linear-layers": "warning"} if speaks else {})


@pytest.mark.parametrize(("values", "speaks"), [
    ((4.0 * ABOVE, 4.0 * ABOVE, 1.0), True),
    ((4.0, 4.0, 1.0), False),
    ((5.0, 1.0), False),  # more than half
    ((0.25 * BELOW, 0.25 * BELOW, 1.0), True),
    ((0.25, 0.25, 1.0), False),
    ((100.0 * ABOVE, 1.0, 1.0), True),  # or one of them by far
    ((100.0, 1.0, 1.0), False),
    ((0.0, 1.0, 1.0), True),
])  # fmt: skip
def test_statistics_that_do_not_fit(values, speaks):
    told = said(stale_statistics, *series("normalised square", *values))
    assert told == ({"stale-statistics": "warning"} if speaks else {})


def network():
    torch.manual_seed(0)
    parts = [m for _ in range(4) for m in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *parts, nn.Linear(64, 10))


def test_stale_statistics_are_the_cause_and_not_the_weights(digits):
    model = network()
    with torch.no_grad():
        for _ in range(100):
            model(0.02 * digits.inputs)
    told = found(model.eval(), digits)
    assert told["stale-statistics"].follows == ""
    assert any("model.train()" in r for r in told["stale-statistics"].remedies)
    if "weight-scale" in told:
        assert told["weight-scale"].follows == "stale-statistics"
    assert not {"stale-statistics", "weight-scale"} & set(found(model.train(), digits))


def test_statistics_of_the_data_are_not_blamed(digits):
    model = network()
    with torch.no_grad():
        for _ in range(100):
            model(digits.inputs)
    assert "stale-statistics" not in found(model.eval(), digits)


def test_a_network_without_activations(digits):
    model = network()
    told = found(nn.Sequential(*[m for m in model if not isinstance(m, nn.ReLU)]), digits)
    assert "linear-layers" in told
    assert "linear-layers" not in found(model, digits)


@pytest.mark.parametrize(("sizes", "speaks"), [
    ((1.0, 4.0 * ABOVE), True), ((1.0, 4.0), False), ((0.25 * BELOW, 1.0), True), ((0.25, 1), False)
])  # fmt: skip
def test_a_normaliser_of_several_places(sizes, speaks):
    told = said(shared_normaliser, *series("shared square", *sizes))
    assert told == ({"shared-normaliser": "warning"} if speaks else {})


class Twice(nn.Module):
    """Two layers with one normaliser behind both, and one whose inputs are shifted and larger."""

    def __init__(self, scale):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.norm, self.scale = nn.BatchNorm1d(64), scale

    def forward(self, x):
        x = self.norm(self.first(x.flatten(1))).relu()
        return self.last(self.norm(self.scale * self.second(x)).relu())


@pytest.mark.parametrize(("scale", "speaks"), [(1.0, False), (8.0, True), (0.05, True)])
def test_networks_whose_places_share_a_normaliser(scale, speaks, digits):
    torch.manual_seed(0)
    told = found(Twice(scale), digits)
    assert ("shared-normaliser" in told) == speaks


def test_networks_that_drop_in_evaluation(digits):
    class Drops(nn.Sequential):
        def forward(self, x):
            return nn.functional.dropout(super().forward(x), 0.3)

    assert found(Drops(*network()), digits)["random-evaluation"].severity == "warning"
    assert "random-evaluation" not in found(network(), digits)


def test_a_normaliser_of_one_place_is_not_read(digits):
    measured = survey.profile(network(), digits.inputs, targets=digits.targets, views=("setup",))
    assert measured.series(q.SHARED_SQUARE) == ()
    measured = survey.profile(Twice(1.0), digits.inputs, targets=digits.targets, views=("setup",))
    assert len(measured.series(q.SHARED_SQUARE)) == 2


class Placed(nn.Module):
    """Positions that are added along the batch, as where that is taken for time."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.register_buffer("places", torch.randn(64, 8))

    def forward(self, x):
        return x + (self.places[: len(x), None] if self.dim == 0 else self.places[: x.shape[1]])


@pytest.mark.parametrize("dim", [0, 1])
def test_positions_that_are_added_along_the_batch_are_told(dim):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), Placed(dim), nn.ReLU(), nn.Linear(8, 2))
    x, y = torch.randn(32, 5, 4), torch.randn(32, 5, 2)
    loss = nn.functional.mse_loss
    measured = survey.profile(model, x, targets=y, loss=loss, views=["setup"])
    told = [*mixed_samples(measured)]
    assert [f.severity for f in told] == ([] if dim else ["warning"])
    assert dim or "place in the batch" in told[0].says


@pytest.mark.parametrize("mixes", [True, False])
def test_samples_that_are_lost_among_others_are_told_though_outputs_are_alike(mixes):
    mean = Net(lambda self, x: x.mean(0, keepdim=True).expand_as(x))
    last = mean if mixes else nn.Identity()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), last, nn.Linear(8, 2))
    x, y = torch.randn(32, 4), torch.randint(2, (32,))
    loss = nn.functional.cross_entropy
    measured = survey.profile(model, x, targets=y, loss=loss, views=["setup"])
    told = [f.severity for f in mixed_samples(measured)]
    assert told == (["warning"] * mixes)


@pytest.mark.parametrize(("steps", "severity"), [(1, "note"), (2, "warning")])
def test_samples_of_which_all_are_in_a_batch_may_mix(steps, severity):
    """As the nodes of one graph, which are there at every step."""
    mixed = reading("dependence on other samples", 1.0, "(model)", "setup", "rows")
    epoch = reading("steps of an epoch", steps, "(training)", "training")
    assert said(mixed_samples, mixed, epoch) == {"mixed-samples": severity}
