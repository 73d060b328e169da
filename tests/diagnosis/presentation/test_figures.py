"""Profiles as figures: which quantities, where findings begin, what is usual."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate
from sigmascope.core.references import references
from sigmascope.diagnosis import judge
from sigmascope.models.networks import mlp


@pytest.fixture(scope="module")
def measured():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 12, generator=generator)
    y = torch.randint(4, (32,), generator=generator)
    net = mlp(inputs=12, outputs=4, width=24, depth=14, norm="none", generator=generator)
    return survey.profile(net, x, targets=y, loss=F.cross_entropy)


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def test_a_profile_shows_its_quantities_over_the_layers_with_what_was_found(measured):
    findings = judge(measured)
    collapse = next(f for f in findings if f.name == "rank-collapse")
    figure = measured.plot(findings)
    assert {"participation ratio", "stable rank"} <= {*titles(figure)}
    ax = figure.axes[titles(figure).index("participation ratio")]
    depth = next(layer.depth for layer in measured.layers if layer.site == collapse.site)
    assert [depth, depth] in [list(drawn.get_xdata()) for drawn in ax.lines]
    values = [r.estimate.value for r in measured.series("participation ratio", form="samples")]
    assert values == pytest.approx(list(ax.lines[0].get_ydata()))


def test_one_quantity_is_drawn_where_one_is_asked_for(measured):
    assert titles(measured.plot(quantities="stable rank")) == ["stable rank"]
    assert len(measured.plot(quantities=["stable rank", "matrix rank"]).axes) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"quantities": "stabel rank"}, "Did you mean 'stable rank'"),
        ({"quantities": "imbalance"}, "was not measured here"),
        ({"spectra": "gradient"}, "has those of"),
    ],
)
def test_what_was_not_measured_is_refused(measured, options, says):
    with pytest.raises(ValueError, match=says):
        measured.plot(**options)


def test_singular_values_are_drawn_layer_by_layer(measured):
    figure = measured.plot(spectra="weights")
    kept = [s for s in measured.spectra if s.view == "weights"]
    assert len(figure.axes[0].lines) == len(kept)
    top = figure.axes[0].lines[0].get_ydata()
    assert max(top) == 1.0


def test_a_profile_without_curves_shows_its_numbers(measured):
    lone = replace(measured, readings=measured.readings[:1], layers=(), spectra=())
    assert len(lone.plot().axes[0].get_yticklabels()) == 1
    with pytest.raises(Refusal, match="no number"):
        replace(measured, readings=(), layers=(), spectra=()).plot()


def test_what_is_usual_is_grey_from_the_least_to_the_most_of_either_stage(measured):
    curve = ("weights", "matrix", "stable rank")
    usual = [r for r in references() if r.curve == curve]
    assert usual
    readings = tuple(
        replace(r, estimate=Estimate.exactly(value))
        for r, value in zip(measured.series("stable rank"), [1e-3, 1e6], strict=False)
    )
    ax = replace(measured, readings=readings).plot(quantities="stable rank").axes[0]
    (grey,) = ax.patches
    low, high = grey.get_y(), grey.get_y() + grey.get_height()
    assert low == pytest.approx(min(r.p05 for r in usual))
    assert high == pytest.approx(max(r.p95 for r in usual))


def test_spectra_are_over_their_largest_value(measured):
    for view in {s.view for s in measured.spectra}:
        drawn = [each for ax in measured.plot(spectra=view).axes for each in ax.lines]
        assert drawn
        for each in drawn:
            values = list(each.get_ydata())
            assert values[0] == max(values) == 1.0
            assert list(each.get_xdata()) == [*range(1, len(values) + 1)]
