"""Every rule speaks from its threshold on and not before it, as docs/findings.md has it.

Profiles are made up, so that each number stands a part in a million on either side of the one that
the table names, or on it.
"""

import math

import pytest
import torch

from sigmascope.diagnosis.rules import diagnose
from sigmascope.diagnosis.rules.collapse import directional_gradient, rank_collapse
from sigmascope.diagnosis.rules.initialisation import asymmetric_weights
from sigmascope.diagnosis.rules.magnitudes import adjoint_size, dead_units, signal_size
from sigmascope.diagnosis.rules.saturation import equal_units, hidden_collapse, sigmoid_stack
from sigmascope.diagnosis.rules.setup import strong_residual, weight_scale
from sigmascope.diagnosis.rules.task import forgotten_targets, overestimated_rank, tangent_size
from sigmascope.diagnosis.rules.trends import trend
from sigmascope.linalg.spectra import spectrum
from sigmascope.quantities import quantity
from sigmascope.records import Estimate, Layer, Profile, Reading, SiteSpectrum

PART = 1e-6
ABOVE, BELOW = 1 + PART, 1 - PART


def reading(name, value, site="layer 0", view=None, form=""):
    estimate = value if isinstance(value, Estimate) else Estimate.exactly(float(value))
    return Reading(site, name, estimate, view or quantity(name).views[0], form)


def layers(count):
    return tuple(Layer(f"layer {i}", "Linear", i, (f"layer {i}.weight",)) for i in range(count))


def profile(*readings, count=None, spectra=()):
    sites = {r.site for r in readings}
    return Profile(readings, layers=layers(count or len(sites)), spectra=spectra)


def series(quantity, *values, **where):
    return [reading(quantity, v, f"layer {i}", **where) for i, v in enumerate(values)]


def said(rule, *readings, **options):
    """Severities of what a rule finds, by name."""
    return {f.name: f.severity for f in rule(profile(*readings, **options))}


def diagnosed(*readings, **options):
    return {f.name: f.severity for f in diagnose(profile(*readings, **options))}


# quantity, view, form: values at which the finding has this severity; None for silence
SINGLE = [
    ("unscaled-inputs", "input size", "", 30.0, None),
    ("unscaled-inputs", "input size", "", 30.0 * ABOVE, "warning"),
    ("unscaled-inputs", "input size", "", 0.01, None),
    ("unscaled-inputs", "input size", "", 0.01 * BELOW, "warning"),
    ("unrelated-targets", "target signal", "", 2.0, None),
    ("unrelated-targets", "target signal", "", 2.0 * BELOW, "warning"),
    ("out-of-reach", "out of reach", "", 0.05 * BELOW, None),
    ("out-of-reach", "out of reach", "", 0.05, "warning"),
    ("out-of-reach", "out of reach", "", 0.5 * BELOW, "warning"),
    ("out-of-reach", "out of reach", "", 0.5, "error"),
    ("out-of-reach", "variance out of reach", "", 0.05 * BELOW, None),
    ("out-of-reach", "variance out of reach", "", 0.05, "warning"),
    ("out-of-reach", "variance out of reach", "", 0.5, "error"),
    ("unscaled-targets", "target size", "", 100.0, None),
    ("unscaled-targets", "target size", "", 100.0 * ABOVE, "warning"),
    ("unscaled-targets", "target size", "", 0.01, None),
    ("unscaled-targets", "target size", "", 0.01 * BELOW, "warning"),
    ("loud-output", "first loss over a constant's", "", 20.0, None),
    ("loud-output", "first loss over a constant's", "", 20.0 * ABOVE, "warning"),
    ("saturated-units", "saturated share", "tanh", 0.5 * BELOW, None),
    ("saturated-units", "saturated share", "tanh", 0.5, "warning"),
    ("saturated-units", "saturated share", "tanh", 0.75 * BELOW, "warning"),
    ("saturated-units", "saturated share", "tanh", 0.75, "error"),
    ("alike-inputs", "relative variation", "samples", 1e-6 * ABOVE, None),
    ("alike-inputs", "relative variation", "samples", 1e-6, "warning"),
    ("dead-units", "dead units", "", 0.75 * BELOW, None),
    ("dead-units", "dead units", "", 0.75, "warning"),
    ("dead-units", "dead units", "", 0.95 * BELOW, "warning"),
    ("dead-units", "dead units", "", 0.95, "error"),
    ("equal-units", "distinct units", "matrix", 0.5 * ABOVE, None),
    ("equal-units", "distinct units", "matrix", 0.5, "error"),
    ("equal-units", "distinct units", "samples", 0.5, "warning"),
]


@pytest.mark.parametrize(("name", "quantity", "form", "value", "severity"), SINGLE)
def test_one_number_decides(name, quantity, form, value, severity):
    assert diagnosed(reading(quantity, value, form=form)) == ({name: severity} if severity else {})


@pytest.mark.parametrize(
    ("quantity", "view", "value", "found"),
    [
        ("condition of learning", "conditioning", 1e4, {}),
        (
            "condition of learning",
            "conditioning",
            1e4 * ABOVE,
            {"ill-conditioned-layer": "warning"},
        ),
        ("operator-to-Frobenius ratio", "balances", 0.95 * BELOW, {}),
        ("operator-to-Frobenius ratio", "balances", 0.95, {"rank-one-layer": "note"}),
    ],
)
def test_one_number_of_a_view_decides(quantity, view, value, found):
    assert diagnosed(reading(quantity, value, view=view)) == found


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


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (1e-4 * ABOVE, {}),
        (1e-4 * BELOW, {"vanishing-adjoints": "warning"}),
        (1e-6 * ABOVE, {"vanishing-adjoints": "warning"}),
        (1e-6 * BELOW, {"vanishing-adjoints": "error"}),
        (1e4 * BELOW, {}),
        (1e4 * ABOVE, {"exploding-adjoints": "warning"}),
        (1e6 * BELOW, {"exploding-adjoints": "warning"}),
        (1e6 * ABOVE, {"exploding-adjoints": "error"}),
    ],
)
def test_how_far_adjoints_may_change(first, found):
    assert said(adjoint_size, *series("adjoint norm", 3.0 * first, 3.0, 3.0)) == found
    assert said(adjoint_size, *series("adjoint norm", 3.0 * first, 3.0)) == {}
    assert said(adjoint_size, *series("adjoint norm", first, 1.0, 0.0)) == {}


def test_the_worst_of_the_dead_layers_is_told():
    (found,) = dead_units(profile(*series("dead units", 0.8, 0.1, 0.96, 0.9)))
    assert (found.site, found.severity) == ("layer 0", "error")
    assert "96 % of the units that layer 2 reads" in found.says
    assert "units of 2 other layers" in found.says


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((4.0 * ABOVE, 4.0 * ABOVE, 1.0), {"weight-scale": "warning"}),
        ((4.0, 4.0, 1.0), {}),
        ((5.0, 1.0), {}),  # more than half
        ((5.0,), {}),
        ((0.02 * BELOW, 0.02 * BELOW, 1.0), {"weight-scale": "warning"}),
        ((0.02, 0.02, 1.0), {}),
        ((0.0, 5.0, 5.0, 1.0), {"weight-scale": "warning"}),  # zeros are not counted
    ],
)
def test_how_large_most_layers_make_differences(values, found):
    assert said(weight_scale, *series("gain", *values)) == found


def test_the_gain_that_is_told_is_the_geometric_mean():
    (found,) = weight_scale(profile(*series("gain", 5.0, 20.0, 1.0)))
    assert "2 of 3 layers make differences between samples 10 times as large" in found.says
    assert "too large" in found.says


@pytest.mark.parametrize(
    ("branches", "square", "grown", "speaks"),
    [
        # 16 branches of strength s let the mean square grow (1 + s²)^16 times
        (16, 10 ** (4 / 16) * ABOVE - 1, 1.1e4, True),
        (16, 10 ** (4 / 16) * BELOW - 1, 1.1e4, False),
        (15, 10 ** (4 / 15) * ABOVE - 1, 1.1e4, False),
        (16, 10 ** (4 / 16) * ABOVE - 1, 1e4 * ABOVE, True),
        (16, 10 ** (4 / 16) * ABOVE - 1, 1e4 * BELOW, False),
    ],
)
def test_how_strong_branches_may_be(branches, square, grown, speaks):
    strengths = series("branch strength", *[math.sqrt(square)] * branches)
    stream = series("mean square", 0.0, 2.0, 2.0 * grown, form="samples")
    assert (said(strong_residual, *strengths, *stream) != {}) is speaks


def test_the_strongest_branch_is_told():
    strengths = series("branch strength", *[1.0] * 15, 9.0)
    stream = series("mean square", 1.0, 1e9, form="samples")
    (found,) = strong_residual(profile(*strengths, *stream))
    assert "16 residual branches have up to 9 times" in found.says
    assert "grows 2.7e+06 times" in found.says  # 2^15 (1 + 81)


@pytest.mark.parametrize(
    ("sigmoids", "count", "speaks"), [(4, 8, True), (4, 9, False), (3, 3, False), (5, 10, True)]
)
def test_how_many_sigmoids_are_a_stack(sigmoids, count, speaks):
    found = series("saturated share", *[0.1] * sigmoids, form="sigmoid")
    assert (said(sigmoid_stack, *found, count=count) != {}) is speaks
    tanh = series("saturated share", *[0.1] * sigmoids, form="tanh")
    assert said(sigmoid_stack, *tanh, count=count) == {}


@pytest.mark.parametrize(("share", "severity"), [(0.15, "error"), (0.16, "warning")])
def test_units_that_are_all_the_same_are_an_error(share, severity):
    """Of ten units, 1.5 and 1.6 that are distinct."""
    spectra = (
        SiteSpectrum("layer 0", "representations", "samples", spectrum(_ones(4, 10))),
        SiteSpectrum("layer 1", "representations", "samples", spectrum(_ones(4, 2))),
    )
    found = said(equal_units, reading("distinct units", share, form="samples"), spectra=spectra)
    assert found == {"equal-units": severity}


def _ones(*shape):
    return torch.ones(shape, dtype=torch.float64)


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


@pytest.mark.parametrize(
    ("values", "speaks"),
    [
        ((2 * ABOVE, 2 * ABOVE, 0.1), True),
        ((2.0, 2.0, 0.1), False),
        ((3.0, 3.0), False),  # three layers at least
        ((3.0, 3.0, 0.1, 0.1), False),  # most of them
    ],
)
def test_how_many_weights_may_have_a_mean(values, speaks):
    shifts = [
        reading("mean shift", v, f"layer {i}.weight", view="weights") for i, v in enumerate(values)
    ]
    found = list(asymmetric_weights(profile(*shifts, count=len(values))))
    assert bool(found) is speaks


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
    facts += [reading("target signal", signal)] if signal is not None else []
    facts += (
        [reading("probability of fitting", chance, "(model)", "setup")]
        if chance is not None
        else []
    )
    assert (said(forgotten_targets, *facts, count=3) != {}) is speaks
    assert said(forgotten_targets, *[f for f in facts if f.site != "layer 1"], count=3) == {}


@pytest.mark.parametrize(
    ("total", "name"),
    [
        (1e-6 * ABOVE, None),
        (1e-6 * BELOW, "tangent-size"),
        (1e9 * BELOW, None),
        (1e9 * ABOVE, "tangent-size"),
        (0.0, "no-tangents"),
    ],
)
def test_how_large_the_tangent_kernel_may_be(total, name):
    parts = series("NTK trace", total / 4, total / 2, total / 4, view="features")
    found = list(tangent_size(profile(*parts)))
    assert [f.name for f in found] == ([name] if name else [])
    if name == "tangent-size":
        assert "50% of it from layer 1" in found[0].says
        assert ("hardly move" in found[0].says) is (total < 1)
    assert said(tangent_size, *parts[:2]) == {}


@pytest.mark.parametrize(("used", "speaks"), [(4.0, True), (5.0, False)])
def test_when_a_rank_is_more_than_is_used(used, speaks):
    ranks = series("representation rank", 2.0, 7.0, 5.0, 6.0)
    inner = reading("inner dimension", used, view="bottleneck")
    assert (said(overestimated_rank, *ranks, inner) != {}) is speaks
    assert said(overestimated_rank, *ranks[:3], inner) == {}


# -- collapse -------------------------------------------------------------------------------------


def collapse(ratios, centred=None, variation=None, *, shape=(100, 50)):
    """What is found of a network with these readings over depth."""
    centred = centred or [20.0] * len(ratios)
    variation = variation or [1.0] * len(ratios)
    facts = [
        *series("participation ratio", *ratios, form="samples"),
        *series("centred participation ratio", *centred, form="samples"),
        *series("relative variation", *variation, form="samples"),
    ]
    last = f"layer {len(ratios) - 1}"
    spectra = (SiteSpectrum(last, "representations", "samples", spectrum(_ones(*shape))),)
    return list(rank_collapse(profile(*facts, spectra=spectra)))


@pytest.mark.parametrize(
    ("ratio", "centred", "variation", "severity"),
    [
        # at most 1.1, and samples that differ by at most 0.01 of their size
        (1.1, 20.0, 0.01, "error"),
        (1.1 * ABOVE, 20.0, 0.01, None),
        (1.1, 20.0, 0.01 * ABOVE, None),
        # or at most 6, and at most half, of the input's centred directions left
        (1.1, 6.0, 1.0, "warning"),
        (1.1, 6.0 * ABOVE, 1.0, None),
        (1.1 * ABOVE, 6.0, 1.0, None),
    ],
)
def test_what_is_a_collapse(ratio, centred, variation, severity):
    found = collapse(
        [5.0, 4.0, ratio, ratio], [20.0, 20.0, centred, centred], [1.0, 1.0, variation, variation]
    )
    assert [f.severity for f in found] == ([severity] if severity else [])
    if found:
        assert found[0].site == "layer 2"
        assert "(number 2 of 3)" in found[0].says


@pytest.mark.parametrize(
    ("first", "left", "speaks"), [(10.0, 5.0, True), (10.0, 5.0 * ABOVE, False)]
)
def test_half_of_the_centred_directions_must_be_gone(first, left, speaks):
    found = collapse([5.0, 4.0, 1.0, 1.0], [first, first, left, left])
    assert bool(found) is speaks


@pytest.mark.parametrize(("variation", "speaks"), [(0.005, True), (0.005 * ABOVE, False)])
def test_the_input_must_vary_ten_times_as_much(variation, speaks):
    found = collapse([5.0, 4.0, 1.0, 1.0], variation=[0.05, 0.05, variation, variation])
    assert bool(found) is speaks


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


# -- trends ---------------------------------------------------------------------------------------


def test_the_interval_of_a_trend_is_students():
    """Logarithms 0, 1, 3 at 0, 1, 2: slope 3/2, residuals 1/6, -1/3, 1/6, one degree left."""
    fit = trend([0, 1, 2], [1.0, math.e, math.exp(3)])
    reach = 12.706204736432095 * math.sqrt(1 / 6 / 1 / 2)  # t(0.975; 1), Σx² = 2
    assert fit.factor == pytest.approx(math.exp(1.5))
    assert fit.start == pytest.approx(math.exp(-1 / 6))
    assert math.log(fit.low) == pytest.approx(1.5 - reach)
    assert math.log(fit.high) == pytest.approx(1.5 + reach)
    assert fit.says() == f"4.48 (95 % interval {fit.low:.3g} to {fit.high:.3g})"


def test_two_points_make_a_trend_without_an_interval():
    fit = trend([0, 2], [1.0, 4.0])
    assert (fit.factor, fit.low, fit.layers) == (pytest.approx(2), 0.0, 2)
    assert fit.high > 1e300
    assert fit.says() == "2"
    assert trend([1, 1], [1.0, 4.0]) is None
    assert trend([0, 1], [2.0, 1.0], floor=1.0) is None  # above the floor, not on it
    assert fit.reaches(1.0) == pytest.approx(0)


# -- the probability of fitting -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "high", "found"),
    [
        (0.5, 0.6, {"dead-units": "warning"}),
        (0.5 * BELOW, 0.5, {"dead-units": "warning", "no-progress": "warning"}),
        (0.5 * BELOW, 0.5 * BELOW, {"dead-units": "error", "no-progress": "error"}),
    ],
)
def test_errors_stand_where_the_network_is_known_not_to_fit(value, high, found):
    chance = Estimate(value, 0.1, high, "told")
    trains = reading("probability of fitting", chance, "(model)", "setup")
    assert diagnosed(reading("dead units", 0.96), trains, count=1) == found


def test_errors_that_no_progress_takes_back_stand():
    trains = reading("probability of fitting", 0.9, "(model)", "setup")
    assert diagnosed(reading("out of reach", 0.6), trains, count=1) == {"out-of-reach": "error"}


def test_the_worst_weight_and_the_first_are_shown():
    def shown(*values):
        shifts = [
            reading("mean shift", v, f"layer {i}.weight", view="weights")
            for i, v in enumerate(values)
        ]
        (found,) = asymmetric_weights(profile(*shifts, count=len(values)))
        assert found.site == "layer 0.weight"
        return [r.site for r in found.evidence]

    assert shown(3.0, 5.0, 0.1) == ["layer 1.weight", "layer 0.weight"]
    assert shown(5.0, 3.0, 0.1) == ["layer 0.weight"]
