"""Collapse, from its thresholds on and not before them, as docs/findings.md has it."""

import pytest

from sigmascope.diagnosis.rules.collapse import (
    alike_inputs,
    directional_gradient,
    lost_inputs,
    rank_collapse,
)
from sigmascope.diagnosis.rules.setup import unscaled_inputs
from sigmascope.linalg.spectra import spectrum
from sigmascope.records import Estimate, Reading, SiteSpectrum
from tests.diagnosis.readings import ABOVE, BELOW, ones, profile, reading, said, series


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
    spectra = (SiteSpectrum(last, "representations", "samples", spectrum(ones(*shape))),)
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
    return said(rank_collapse, *facts, count=4)


def test_where_it_was_not_read_how_much_samples_differ_there_is_no_collapse():
    """Rows of zero size have no relative variation."""
    assert holes() == {"rank-collapse": "error"}
    assert holes("layer 1") == {"rank-collapse": "error"}
    assert holes("layer 0") == holes("layer 3") == holes(*(f"layer {i}" for i in range(4))) == {}
    # where only the last is known to be collapsed, and alike, that is where it begins
    assert holes("layer 2") == {"rank-collapse": "error"}


def test_gradients_are_parallel_whether_or_not_their_mean_was_read():
    least = reading("minimum |cos|", 1.0, view="gradients")
    (found,) = directional_gradient(profile(least))
    assert found.evidence == (least,)


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
    ("sizes", "distinct", "told"),
    [
        ((0.0,), 1, {"alike-inputs": "warning"}),
        ((0.0,), 9, {"lost-inputs": "error"}),
        ((0.0, 0.0), 9, {"lost-inputs": "error"}),
        ((0.0, 1.0), 9, {}),  # an initial state of zeros, beside the inputs
        ((1.0,), 1, {"alike-inputs": "warning"}),  # ids: nothing was read of how far they differ
        ((1.0,), 9, {}),
    ],
)
def test_zeros_and_ids_that_are_all_the_same(sizes, distinct, told):
    facts = [reading("input size", size, str(i), "setup") for i, size in enumerate(sizes)]
    facts.append(reading("distinct samples", distinct, "(inputs)", "setup"))
    assert said(alike_inputs, *facts) | said(lost_inputs, *facts) == told
    assert said(unscaled_inputs, *facts) == {}


def test_what_other_parts_may_tell_apart_is_not_alike():
    facts = [*series("relative variation", 0.0, 0.0, form="samples")]
    unknown = Reading("(inputs)", "distinct samples", Estimate(1, 1, 5, "edges"), "setup")
    assert said(alike_inputs, *facts) == {"alike-inputs": "warning"}
    assert said(alike_inputs, *facts, unknown) == {}
    assert said(lost_inputs, *facts, unknown) == {}
