"""Rules on what layers read and write, from their thresholds on, as docs/findings.md has it."""

import math
import re
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.core.records import Estimate, Reading, SiteSpectrum
from sigmascope.diagnosis import judge
from sigmascope.diagnosis.rules.data import alike_inputs
from sigmascope.diagnosis.rules.representations import (
    dead_units,
    directional_gradient,
    forgotten_targets,
    hidden_collapse,
    layer_gain,
    lost_inputs,
    loud_output,
    rank_collapse,
    sigmoid_stack,
    signal_size,
    silent_samples,
    unrelated_targets,
)
from sigmascope.linalg.spectra import spectrum
from tests.diagnosis.readings import ABOVE, BELOW, ones, profile, reading, said, series
from tests.diagnosis.rules.networks import found, mlp
from tests.models_zoo import Net


@pytest.mark.parametrize(
    ("cosine", "severity"),
    [(0.99 * BELOW, None), (0.99, "warning"), (0.999 * BELOW, "warning"), (0.999, "error")],
)
def test_parallel_gradients(cosine, severity):
    both = [reading(f"{which} |cos|", cosine, view="gradients") for which in ("minimum", "mean")]
    found = said(directional_gradient, *both)
    assert found == ({"directional-gradient-vanishing": severity} if severity else {})
    # an interval that reaches below is no proof
    wide = reading("minimum |cos|", Estimate(cosine, 0.98, 1.0, "wide"), view="gradients")
    assert said(directional_gradient, wide, both[1]) == {}
    # nor is it one where training can part what is alike
    step = reading("tangent variation", 0.5, "(output)")
    once = "directional-gradient-vanishing"
    assert said(directional_gradient, *both, step) == ({once: "warning"} if severity else {})
    # whether or not their mean was read
    assert [f.evidence for f in directional_gradient(profile(both[0]))] == [(both[0],)] * bool(
        severity
    )


def collapse(ratios, centred=None, variation=None, *, shape=(100, 50), step=0.0, chance=None):
    """What is found of a network with these readings over depth, and of a step of its weights."""
    centred = centred or [20.0] * len(ratios)
    variation = variation or [1.0] * len(ratios)
    facts = [
        *series("participation ratio", *ratios, form="samples"),
        *series("centred participation ratio", *centred, form="samples"),
        *series("relative variation", *variation, form="samples"),
    ]
    if step is not None:
        facts.append(reading("tangent variation", step, "(output)"))
    if chance is not None:
        facts.append(reading("probability of fitting", chance, "(model)", "setup"))
    last = f"layer {len(ratios) - 1}"
    spectra = (SiteSpectrum(last, "representations", "samples", spectrum(ones(*shape))),)
    return list(rank_collapse(profile(*facts, spectra=spectra)))


@pytest.mark.parametrize(
    ("ratio", "centred", "variation", "severity"),
    [
        # at most 1.1, and samples that differ by at most 0.01 of their size
        (1.1, (20.0, 20.0), (1.0, 0.01), "error"),
        (1.1 * ABOVE, (20.0, 20.0), (1.0, 0.01), None),
        (1.1, (20.0, 20.0), (1.0, 0.01 * ABOVE), None),
        # and those of the input by ten times as much
        (1.1, (20.0, 20.0), (0.05, 0.005), "error"),
        (1.1, (20.0, 20.0), (0.05, 0.005 * ABOVE), None),
        # or at most 6, and at most half, of the input's centred directions left
        (1.1, (20.0, 6.0), (1.0, 1.0), "warning"),
        (1.1, (20.0, 6.0 * ABOVE), (1.0, 1.0), None),
        (1.1 * ABOVE, (20.0, 6.0), (1.0, 1.0), None),
        (1.1, (10.0, 5.0), (1.0, 1.0), "warning"),
        (1.1, (10.0, 5.0 * ABOVE), (1.0, 1.0), None),
    ],
)
def test_what_is_a_collapse(ratio, centred, variation, severity):
    twice = lambda pair: [pair[0], pair[0], pair[1], pair[1]]
    found = collapse([5.0, 4.0, ratio, ratio], twice(centred), twice(variation))
    assert [f.severity for f in found] == ([severity] if severity else [])
    if found:
        assert found[0].site == "layer 2"
        assert "(number 2 of 3)" in found[0].says


@pytest.mark.parametrize(
    ("step", "chance", "severity"),
    [
        (0.0, None, "error"),
        (0.0, 0.5, "error"),
        (0.01, None, "error"),
        (0.01 * ABOVE, None, "warning"),
        (0.01 * ABOVE, 0.5 * BELOW, "warning"),
        (0.01 * ABOVE, 0.5, "note"),
        (Estimate(0.005, 0.0, 0.02, "told"), None, "warning"),  # an interval that reaches above
        (None, 0.5, "warning"),  # nobody looked
    ],
)
def test_a_collapse_is_an_error_where_a_step_does_not_part_the_samples_either(
    step, chance, severity
):
    alike = {"variation": [1.0, 1.0, 0.01, 0.01]}
    (found,) = collapse([5.0, 4.0, 1.0, 1.0], **alike, step=step, chance=chance)
    assert found.severity == severity
    parts = severity != "error" and step is not None
    assert ("training may part them" in found.says) == parts


def test_a_pace_that_may_be_none_leads_nowhere():
    uneven = [5.0, 1.002, 1.09, 1.001, 1.08, 1.003, 1.07]
    (found,) = collapse(uneven, [20.0] + [3.0] * 6)
    assert "per layer" not in found.says
    assert "rank one" not in found.says


def test_one_step_at_the_end_is_no_trend_unless_samples_are_alike():
    few = {"ratios": [5.0, 4.0, 1.0], "centred": [20.0, 20.0, 3.0]}
    assert collapse(**few) == []
    (alike,) = collapse(**few, variation=[1.0, 1.0, 0.01])
    assert alike.severity == "error"
    assert "falls from 5 at the input to 1 at layer 2" in alike.says
    assert "where samples differ by 0.01 of their size." in alike.says
    unknown = Estimate(0.004, 0.0, 0.005, "told")
    (hidden,) = collapse(**few, variation=[1.0, 1.0, unknown])
    assert "where samples differ by less than 0.005 of their size." in hidden.says
    assert collapse([5.0, 1.0], [20.0, 3.0]) == []  # two layers are no depth
    assert collapse([5.0, 1.0, 1.0, 4.0], [20.0, 3.0, 3.0, 20.0]) == []  # it recovers


def test_a_collapse_that_comes_and_goes_begins_where_it_came_to_stay():
    ratios = [5.0, 1.0, 4.0, 1.0, 5.0, 1.0, 1.0, 1.0]
    (found,) = collapse(ratios, [20.0 if r > 1 else 3.0 for r in ratios])
    assert found.site == "layer 5"
    assert "(number 5 of 7)" in found.says


def test_the_depth_at_which_the_rank_is_one_is_where_the_rule_counts_one():
    """Excess `10^-k` after k layers; numerical rank one where `σ₂/σ₁ < 100 · 1e-7`.

    With two directions the excess of the ratio over one is `2 (σ₂/σ₁)²`, which is `2e-10` there:
    reached after 9.7 layers.
    """
    ratios = [5.0, *(1 + 10.0**-k for k in range(1, 7))]
    (found,) = collapse(ratios, [20.0] + [3.0] * 6)
    assert "by a factor 0.1 (95 % interval 0.1 to 0.1) per layer" in found.says
    assert "numerically rank one after about 10 layers" in found.says
    (taller,) = collapse(ratios, [20.0] + [3.0] * 6, shape=(50, 1000))
    assert "after about 8 layers" in taller.says  # 2 (1e-4)², after 7.7


def test_excess_that_rounding_made_is_not_fitted():
    ratios = [5.0, *(1 + 10.0**-k for k in (1, 2, 3, 4)), 1 + 1e-13, 1 + 1e-13]
    (found,) = collapse(ratios, [20.0] + [3.0] * 6)
    assert "by a factor 0.1 (" in found.says


def holes(*missing):
    """A collapse over four layers, without the variation at some of them."""
    facts = [
        *series("participation ratio", 5.0, 4.0, 1.0, 1.0, form="samples"),
        *series("centred participation ratio", 20.0, 20.0, 3.0, 3.0, form="samples"),
    ]
    facts += [
        r
        for r in series("relative variation", 1.0, 1.0, 0.01, 0.01, form="samples")
        if r.site not in missing
    ]
    facts.append(reading("tangent variation", 0.0, "(output)"))
    return said(rank_collapse, *facts, count=4)


def test_where_it_was_not_read_how_much_samples_differ_there_is_no_collapse():
    """Rows of zero size have no relative variation."""
    assert holes() == {"rank-collapse": "error"}
    assert holes("layer 1") == {"rank-collapse": "error"}
    assert holes("layer 0") == holes("layer 3") == holes(*(f"layer {i}" for i in range(4))) == {}
    # where only the last is known to be collapsed, and alike, that is where it begins
    assert holes("layer 2") == {"rank-collapse": "error"}


@pytest.mark.parametrize("least", [1e-6, 0.0])
def test_of_equal_samples_no_gradient_is_blamed(least):
    alike = reading("relative variation", least, form="samples")
    cosines = [reading(f"{which} |cos|", 1.0, view="gradients") for which in ("minimum", "mean")]
    (found,) = alike_inputs(profile(alike))
    assert "speaks of the batch, not of the network" in found.says
    assert said(directional_gradient, alike, *cosines) == {}


@pytest.mark.parametrize(("chance", "told"), [
    (None, {"directional-gradient-vanishing": "error"}),
    (0.5 * BELOW, {"directional-gradient-vanishing": "error"}),
    (0.5, {}),
])  # fmt: skip
def test_samples_that_were_seen_to_be_learned_apart_can_be(chance, told):
    rows = [reading("minimum |cos|", 1.0, "layer 2", view="gradients")]
    if chance is not None:
        rows.append(reading("probability of fitting", chance, "(model)"))
    assert said(directional_gradient, *rows, count=3) == told


@pytest.mark.parametrize(
    ("variation", "distinct", "speaks"),
    [
        (1e-6, 2, True),
        (1e-6 * ABOVE, 2, False),
        (1e-6, 1, False),  # then the inputs themselves are alike
        (1e-6, None, False),
    ],
)
def test_inputs_that_are_lost_before_the_first_layer(variation, distinct, speaks):
    facts = [*series("relative variation", variation, variation, form="samples")]
    if distinct is not None:
        facts.append(reading("distinct samples", distinct, "(inputs)", "setup"))
    assert said(lost_inputs, *facts) == ({"lost-inputs": "error"} if speaks else {})
    assert (said(alike_inputs, *facts) == {}) is (speaks or variation > 1e-6)
    both = [reading(f"{which} |cos|", 1.0, view="gradients") for which in ("minimum", "mean")]
    follows = said(directional_gradient, *facts, *both)
    assert (follows == {}) is (variation <= 1e-6)


def test_what_is_lost_later_is_a_collapse():
    facts = series("relative variation", 0.5, 1e-9, form="samples")
    known = reading("distinct samples", 9, "(inputs)", "setup")
    assert said(lost_inputs, *facts, known) == {}


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (1e-5 * ABOVE, {}),
        (1e-5, {}),
        (1e5, {}),
        (1e-5 * BELOW, {"vanishing-signal": "warning"}),
        (1e-8 * ABOVE, {"vanishing-signal": "warning"}),
        (1e-8 * BELOW, {"vanishing-signal": "error"}),
        (0.0, {"vanishing-signal": "error"}),
        (1e5 * BELOW, {}),
        (1e5 * ABOVE, {"exploding-signal": "warning"}),
        (1e8 * BELOW, {"exploding-signal": "warning"}),
        (1e8 * ABOVE, {"exploding-signal": "error"}),
    ],
)
def test_how_far_the_signal_may_change(last, found):
    values = [1.0, math.sqrt(last), last]
    assert said(signal_size, *series("mean square", *values, form="samples")) == found
    # two layers are no depth, and nothing is said of a change from nothing
    assert said(signal_size, *series("mean square", 3.0, 3.0 * last, form="samples")) == {}
    assert said(signal_size, *series("mean square", 0.0, 1.0, last, form="samples")) == {}


def test_the_worst_of_the_dead_layers_is_told():
    (found,) = dead_units(profile(*series("dead units", 0.8, 0.1, 0.96, 0.9)))
    assert (found.site, found.severity) == ("layer 0", "error")
    assert "96 % of the units that layer 2 reads" in found.says
    assert "units of 2 other layers" in found.says


@pytest.mark.parametrize(
    ("sigmoids", "count", "speaks"), [(4, 8, True), (4, 9, False), (3, 3, False), (5, 10, True)]
)
def test_how_many_sigmoids_are_a_stack(sigmoids, count, speaks):
    found = series("saturated share", *[0.1] * sigmoids, form="sigmoid")
    assert (said(sigmoid_stack, *found, count=count) != {}) is speaks
    tanh = series("saturated share", *[0.1] * sigmoids, form="tanh")
    assert said(sigmoid_stack, *tanh, count=count) == {}


@pytest.mark.parametrize(
    ("variation", "ratio", "speaks"),
    [
        (1e-3 * BELOW, 2 * ABOVE, True),
        (1e-3, 2 * ABOVE, False),
        (1e-3 * BELOW, 2.0, False),
    ],
)
def test_what_normalisation_may_blow_up(variation, ratio, speaks):
    """The ratio is that of the layer after the one that writes."""
    ratios = series("participation ratio", 9.0, 1.5, ratio, 1.5, form="samples")
    written = reading("written variation", variation, "layer 1")
    assert (said(hidden_collapse, *ratios, written) != {}) is speaks
    for site in ("layer 0", "layer 3", "elsewhere"):  # followed by 1.5, or by nothing
        moved = reading("written variation", variation, site)
        assert said(hidden_collapse, *ratios, moved) == {}


def test_normalisation_that_hides_a_collapse(digits):
    """A deep default network collapses; a normaliser at its end blows the rest up."""
    deep = mlp(12)
    deep.hidden[-1].add_module("norm", nn.BatchNorm1d(64))
    one = found(deep, digits)["hidden-collapse"]
    assert one.site == "hidden.11.linear"
    assert "hidden-collapse" not in found(mlp(12, norm="batch"), digits)


def test_what_is_the_same_for_all_by_design_hides_nothing():
    """As a table of positions: no difference is there that could be blown up."""
    after = reading("participation ratio", 3.0, "layer 1", form="samples")
    for variation, speaks in ((1e-5, True), (0.0, False)):
        rows = reading("written variation", variation, "layer 0"), after
        assert bool(said(hidden_collapse, *rows, count=2)) == speaks


@pytest.mark.parametrize(
    ("shares", "speaks"),
    [
        ((0.0, 0.25), True),
        ((0.0, 0.25 * BELOW), False),
        ((0.9, 0.0), False),  # the inputs are what they are
        ((0.0, 0.1, 0.3), True),
        ((), False),
    ],
)
def test_samples_that_arrive_as_zeros(shares, speaks):
    found = said(silent_samples, *series("silent samples", *shares))
    assert (found == {"silent-samples": "warning"}) is speaks


LOUD = ["warning"]
RATIO, NATS = "first loss over a constant's", "nats over equal scores"


@pytest.mark.parametrize(("ratio", "nats", "told"), [
    (2.0, 4.6, []), (2.0, 4.6 * ABOVE, LOUD), (20.0 * ABOVE, 1.0, LOUD), (20.0 * ABOVE, 50.0, LOUD),
])  # fmt: skip
def test_how_loud_an_output_starts_is_told_once(ratio, nats, told):
    both = reading(RATIO, ratio, "(loss)"), reading(NATS, nats, "(loss)")
    assert [f.severity for f in loud_output(profile(*both, count=3))] == told


@pytest.mark.parametrize(("signal", "most", "power", "speaks"), [
    (1.0, 0.045 * BELOW, 5.0, True),
    (1.0, 0.045, 5.0, False),
    (1.0, 0.01, 4.0, False),
    (2.0, 0.01, 5.0, False),
])  # fmt: skip
def test_unrelated_targets_need_power(signal, most, power, speaks):
    values = {
        "target signal": signal, "told by neighbours at most": most, "told of smooth targets": power
    }  # fmt: skip
    told = said(unrelated_targets, *(reading(q, v) for q, v in values.items()))
    assert told == ({"unrelated-targets": "warning"} if speaks else {})


def sizes(factor, layers, noise=1.0):
    wiggle = [noise if i % 2 else 1 / noise for i in range(layers)]
    return series(
        "mean square", 1.0, *(factor**i * w for i, w in enumerate(wiggle)), form="samples"
    )


@pytest.mark.parametrize(("factor", "layers", "noise", "speaks"), [
    (0.5, 12, 1.0, True),
    (0.5, 10, 1.0, False),  # 2^9 in all
    (0.5, 7, 1.0, False),
    (0.1, 8, 1.0, True),
    (0.1, 7, 1.0, False),
    (2.0, 12, 1.0, True),
    (0.5, 12, 3.0, False),  # not the same in every layer
])  # fmt: skip
def test_the_same_factor_in_every_layer(factor, layers, noise, speaks):
    told = said(layer_gain, *sizes(factor, layers, noise))
    assert told == ({"layer-gain": "warning"} if speaks else {})


def test_glorot_with_relu_in_depth(digits):
    torch.manual_seed(0)
    layers = [m for _ in range(24) for m in (nn.Linear(64, 64), nn.ReLU())]
    model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10))
    for m in model:
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
            nn.init.zeros_(m.bias)
    told = found(model, digits)
    assert told["layer-gain"].follows == ""
    assert re.search(r"must be 1\.[45]\d times as large", told["layer-gain"].says)
    assert told["vanishing-signal"].follows == "layer-gain"
    with torch.no_grad():
        for m in model:
            if isinstance(m, nn.Linear):
                m.weight.mul_(2**0.5)
    assert "layer-gain" not in found(model, digits)
    assert "layer-gain" not in found(mlp(12, norm="layer"), digits)


@pytest.mark.parametrize(
    ("chance", "signal", "first", "last", "speaks"),
    [
        (0.4, 5.0, 0.5, 0.01 * BELOW, True),
        (0.4, 5.0, 0.5, 0.01, False),  # a fiftieth
        (0.5, 5.0, 0.5, 0.001, False),
        (0.5 * BELOW, 5.0, 0.5, 0.001, True),
        (0.4, 5.0 * BELOW, 0.5, 0.001, False),
        (0.4, 5.0, 0.05, 0.0001, False),
        (0.4, 5.0, 0.05 * ABOVE, 0.0001, True),
        (None, 5.0, 0.5, 0.001, False),
        (0.4, None, 0.5, 0.001, False),
    ],
)
def test_when_targets_are_forgotten(chance, signal, first, last, speaks):
    facts = series("target alignment", first, 0.1, last)
    if signal is not None:
        facts.append(reading("target signal", signal))
    if chance is not None:
        facts.append(reading("probability of fitting", chance, "(model)", "setup"))
    assert (said(forgotten_targets, *facts, count=3) != {}) is speaks
    assert said(forgotten_targets, *[f for f in facts if f.site != "layer 1"], count=3) == {}


def test_targets_that_the_network_forgets(digits):
    """Random rotations between coarse steps leave nothing of what tells the digits apart."""

    parts = [nn.Flatten()]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        for _ in range(3):
            layer = nn.Linear(64, 64)
            nn.init.normal_(layer.weight)
            parts += [layer, Net(lambda self, x: (1e4 * x).sin())]
        model = nn.Sequential(*parts, nn.Linear(64, 10))

    def told(network, chance):
        measured = survey.profile(
            network, digits.inputs, targets=digits.targets, loss=F.cross_entropy, views=["setup"]
        )
        p = Estimate(chance, chance, chance, "said")
        one = Reading("(model)", "probability of fitting", p, "setup")
        return [f.name for f in judge(replace(measured, readings=(*measured.readings, one)))]

    assert "forgotten-targets" in told(model, 0.1)
    assert "forgotten-targets" not in told(model, 0.9)  # it was seen to learn all the same
    assert "forgotten-targets" not in told(mlp(), 0.1)


def test_an_index_that_does_not_move_on(digits):
    x, y = digits.inputs, digits.targets
    stuck = replace(digits, inputs=x[torch.arange(len(x)) // 32 * 32], targets=y)
    assert "repeated-inputs" in found(mlp(), stuck)
    assert "repeated-inputs" not in found(mlp(), digits)


def test_denormal_numbers(digits):
    model = mlp(2, bias=False)
    model.hidden[1].linear.weight.data.mul_(1e-42)
    assert "denormal-values" in found(model, digits)


class Gated(nn.Module):
    """A residual branch that starts at zero, and a gate that reads it (squeeze and excite)."""

    def __init__(self, zero=True, dead=False):
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)
        self.squeeze, self.excite = nn.Linear(8, 4), nn.Linear(4, 8)
        self.readout = nn.Linear(8, 3)
        if zero:
            nn.init.zeros_(self.norm.weight)
        self.dead = dead

    def forward(self, x):
        branch = self.norm(self.first(x))
        branch = (branch - 100.0).relu() if self.dead else branch
        gate = self.excite(self.squeeze(branch).relu()).sigmoid()
        return self.readout(nn.functional.pad(x, (0, 2)) + branch * gate)


@pytest.mark.parametrize("task", [{}, {"targets": torch.arange(16) % 3, "loss": F.cross_entropy}])
def test_a_branch_that_starts_at_zero_is_not_dead(task):
    """With or without a loss; one that no weight brings to life is."""
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
    dead = {"dead-units", "silent-samples"}
    torch.manual_seed(0)
    assert not dead & {f.name for f in judge(survey.profile(Gated(), x, **task))}
    silent = judge(survey.profile(Gated(zero=True, dead=True), x, **task))
    assert "dead-units" in {f.name for f in silent}


@pytest.mark.parametrize("task", [{}, {"targets": torch.arange(16) % 3, "loss": F.cross_entropy}])
def test_zeros_between_zeros_keep_units_dead(task):
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    for p in net.parameters():
        nn.init.zeros_(p)
    assert "dead-units" in {f.name for f in judge(survey.profile(net, x, **task))}


@pytest.mark.parametrize(("value", "severity"), [(0.5 * BELOW, "warning"), (0.5, "note")])
def test_a_loud_start_that_is_soon_undone_is_a_note(value, severity):
    chance = reading("probability of fitting", value, "(model)", "setup")
    for name, loud in ((RATIO, 21.0), (NATS, 5.0)):
        assert said(loud_output, reading(name, loud, "(loss)"), chance) == {"loud-output": severity}


class Conditioned(nn.Module):
    """Asks first what says nothing of the targets: a time, a class, a mask, ids."""

    def __init__(self, joined=False):
        super().__init__()
        self.time, self.body = nn.Linear(1, 16), nn.Linear(8 + joined, 16)
        self.out, self.joined = nn.Linear(16, 3), joined

    def forward(self, x, t):
        e = self.time(t.float().reshape(len(x), -1)[:, :1])
        x = torch.cat([x, t.float().reshape(len(x), -1)[:, :1]], 1) if self.joined else x
        return self.out((e + self.body(x)).tanh())


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("kind", ["time", "class", "mask", "ids"])
def test_targets_are_unrelated_only_if_no_input_tells_them(kind, joined):
    g = torch.Generator().manual_seed(0)
    x, wide = torch.randn(256, 8, generator=g), (256, 5 if kind == "ids" and not joined else 1)
    t = {
        "time": lambda: torch.rand(256, generator=g),
        "class": lambda: torch.randint(6, (256,), generator=g),
        "mask": lambda: torch.rand(256, 1, generator=g) > 0.5,
        "ids": lambda: torch.randint(200, wide, generator=g),
    }[kind]()
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    lost = y[torch.randperm(256, generator=g)]
    torch.manual_seed(0)
    model = Conditioned(joined)
    names = [
        {f.name for f in judge(survey.profile(model, (x, t), targets=of, loss=F.cross_entropy))}
        for of in (y, lost)
    ]
    assert "unrelated-targets" not in names[0]
    assert kind == "ids" or "unrelated-targets" in names[1]


@pytest.mark.parametrize(("kinds", "told"), [(200, False), (3, False), (2, True)])
def test_of_rows_of_ids_it_is_said_that_their_signal_is_not_known(kinds, told):
    """A mask is no row of ids."""
    model, x = Conditioned(), torch.randn(64, 8)
    task = {"targets": torch.arange(64) % 3, "loss": F.cross_entropy}
    found = survey.profile(model, (x, torch.randint(kinds, (64, 5))), **task)
    assert bool(found.series("target signal")) is told
    assert ("target signal" in {s.what for s in found.skipped}) is not told
