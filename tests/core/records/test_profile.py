"""A profile gives its readings by quantity, view and form, in the order of the layers."""

from dataclasses import FrozenInstanceError, replace

import pytest

from sigmascope.core.records import Estimate, Fact, Profile, Reading


def test_an_unknown_quantity_is_refused_by_its_nearest_name():
    with pytest.raises(
        ValueError, match=r"got 'participation ration'\. Did you mean 'participation"
    ):
        Profile(()).series("participation ration")


def test_a_profile_takes_no_reading_that_the_table_does_not_have():
    r = Reading("a", "gain", Estimate.exactly(1.0), "setup")
    assert Profile((r,)).series("gain") == (r,)
    with pytest.raises(ValueError, match="must be read in setup, got it in weights"):
        Profile((replace(r, view="weights"),))
    with pytest.raises(ValueError, match="A quantity must be one of"):
        Profile((replace(r, quantity="gian of what"),))


def reading(site, value, view="representations", form="samples"):
    return Reading(site, "effective rank", Estimate.exactly(value), view, form)


def test_a_series_keeps_the_order_and_takes_what_is_asked_for():
    both = reading("b", 1.0), reading("a", 2.0)
    others = (
        reading("b", 3.0, form="channels"),
        reading("b.weight", 4.0, "weights", "matrix"),
        Reading("b", "participation ratio", Estimate.exactly(1.5), "representations", "samples"),
    )
    profile = Profile((others[1], both[0], others[0], others[2], both[1]))
    assert profile.series("effective rank", form="samples") == both
    assert profile.series("effective rank", view="weights") == (others[1],)
    assert profile.series("effective rank", view="representations") == (both[0], others[0], both[1])
    assert profile.series("effective rank", view="weights", form="samples") == ()
    assert len(profile.series("effective rank")) == 4


def test_an_empty_form_is_asked_for_by_name_and_none_asks_for_any():
    r = Reading("a", "gain", Estimate.exactly(1.0), "setup")
    assert Profile((r,)).series("gain", form="") == Profile((r,)).series("gain") == (r,)
    assert Profile((r,)).series("gain", form="matrix") == ()


def test_what_a_profile_was_told_of_itself_cannot_be_changed():
    profile = Profile(())
    with pytest.raises(TypeError, match="does not support item assignment"):
        profile.about["model"] = "another"
    with pytest.raises(FrozenInstanceError):
        profile.readings = ()


def test_a_word_is_a_fact_and_a_number_is_a_reading():
    with pytest.raises(ValueError, match="'last operation' must be a fact, got a Reading"):
        Profile((Reading("(output)", "last operation", Estimate.exactly(1.0), "setup"),))
    with pytest.raises(ValueError, match="'least loss' must be a number, got a Fact"):
        Profile((), facts=(Fact("(loss)", "least loss", "setup"),))
    with pytest.raises(ValueError, match="must be read in setup, got it in weights"):
        Profile((), facts=(Fact("(output)", "last operation", "weights"),))
    both = tuple(Fact("(output)", "last operation", "setup", word) for word in ("tanh", "none"))
    assert Profile((), facts=both).fact("last operation") == "tanh"
    assert Profile(()).fact("last operation") == ""
