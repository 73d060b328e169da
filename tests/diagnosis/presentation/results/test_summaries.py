from dataclasses import replace

import pytest

from sigmascope.core.quantities import quantities
from sigmascope.core.records import Estimate, Layer, Profile, Reading, Skipped
from sigmascope.diagnosis.presentation import coverage
from sigmascope.diagnosis.presentation.results import (
    COLUMNS,
    OUTPUT,
    YOURS,
    chances,
    coverage_form,
    depths,
    facts,
    no_findings,
    runs,
)

ONE = Estimate.exactly(1.0)


def test_a_weight_lies_at_the_first_layer_that_applies_it():
    layers = (Layer("b", "Linear", 1, ("w",)), Layer("a", "Linear", 0, ("w", "v")))
    found = depths(Profile((), layers=layers))
    assert found == {"a": 0, "b": 1, "w": 0, "v": 0, OUTPUT: 2}


def test_a_checkpoint_has_its_sites_in_their_order():
    rows = tuple(Reading(site, "stable rank", ONE, "weights") for site in "bab")
    assert depths(Profile(rows)) == {"b": 0, "a": 1}


def test_the_form_has_the_counts_and_the_words(profile):
    seen = coverage(profile)
    form = coverage_form(seen)
    assert form["layers"] == form["layers_measured"] == 33
    assert (form["says"], form["unseen"]) == (seen.says, list(seen.unseen))
    assert form["no_findings"] == no_findings(seen)
    assert "weights_wanted" not in form


def test_what_no_call_covers_is_counted_and_named(profile):
    loose = replace(profile, skipped=(Skipped("lost", "layer", "never called"),))
    seen = coverage(loose)
    assert seen.uncovered == ("lost",)
    assert seen.layers == 34
    assert "no call of a layer covers `lost`" in "; ".join(seen.unseen)


def test_a_profile_of_nothing_has_nothing_left_out():
    seen = coverage(Profile(readings=(), layers=(Layer("fc", "Linear", 0),)))
    assert seen.says == "Measured 0 of 1 layers (weights 0 of 0); nothing left out."


def test_nothing_of_training_is_told_twice(trained):
    told = [r.quantity for r in facts(trained)]
    assert told == ["steps tried", "planned steps", "score"]
    assert not {*told} & {*COLUMNS, YOURS}


@pytest.mark.parametrize("read", [runs, facts, chances])
def test_without_training_there_is_nothing(read, profile):
    assert not read(profile)
    assert not read(Profile(readings=()))


def test_every_column_is_a_quantity_of_training():
    assert all("training" in quantities()[name].views for name in (*COLUMNS, YOURS))


LAYER = Layer("fc", "Linear", 0, ("fc.weight",))
RANK = Reading("fc", "matrix rank", ONE, "representations")
NORM = Reading("fc.weight", "spectral norm", ONE, "weights", "matrix")


@pytest.mark.parametrize(
    ("readings", "skipped", "layers", "wanted"),
    [
        ((RANK, NORM), (), (LAYER,), True),
        ((RANK,), (), (LAYER,), False),
        ((RANK,), (Skipped("(all layers)", "weights", "too dear"),), (LAYER,), True),
        ((RANK,), (), (Layer("fc", "ReLU", 0),), True),  # it has none
    ],
)
def test_weights_are_wanted_where_they_were_read_or_could_not_be(readings, skipped, layers, wanted):
    seen = coverage(Profile(readings, layers=layers, skipped=skipped))
    assert seen.weights_wanted is wanted
    assert ("weights not asked for" in seen.says) is not wanted


@pytest.mark.parametrize(
    ("readings", "skipped", "measured", "part", "weights"),
    [
        ((RANK, NORM), (), 1, 0, 1),
        ((NORM,), (), 1, 0, 1),
        ((RANK,), (Skipped("fc.weight", "stable rank", "it is zero"),), 1, 1, 0),
        ((), (Skipped("fc", "stable rank", "it is zero"),), 0, 0, 0),
        ((RANK, NORM), (Skipped("other", "layer", "never called"),), 1, 0, 1),
    ],
)
def test_layers_count_as_measured_where_anything_of_them_was_read(
    readings, skipped, measured, part, weights
):
    seen = coverage(Profile(readings, layers=(LAYER,), skipped=skipped))
    assert (seen.layers_measured, seen.layers_in_part, seen.weights_measured) == (
        measured, part, weights,
    )  # fmt: skip
    other = [s.site for s in skipped if s.what == "layer"]
    assert seen.uncovered == tuple(other)
    assert seen.layers == 1 + len(other)
    assert seen.skipped == len(skipped)
