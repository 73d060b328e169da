from dataclasses import replace

from sigmascope.diagnosis.presentation import coverage
from sigmascope.diagnosis.presentation.summaries import coverage_form, no_findings
from sigmascope.records import Layer, Profile, Skipped


def test_the_form_has_the_counts_and_the_words(profile):
    seen = coverage(profile)
    form = coverage_form(seen)
    assert form["layers"] == form["layers_measured"] == 33
    assert form["says"] == seen.says
    assert form["unseen"] == list(seen.unseen)
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
