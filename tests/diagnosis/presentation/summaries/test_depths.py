from sigmascope.diagnosis.presentation.summaries import OUTPUT, depths
from sigmascope.records import Estimate, Layer, Profile, Reading

ONE = Estimate.exactly(1.0)


def test_a_weight_lies_at_the_first_layer_that_applies_it():
    layers = (Layer("b", "Linear", 1, ("w",)), Layer("a", "Linear", 0, ("w", "v")))
    found = depths(Profile((), layers=layers))
    assert found == {"a": 0, "b": 1, "w": 0, "v": 0, OUTPUT: 2}


def test_a_checkpoint_has_its_sites_in_their_order():
    rows = tuple(Reading(site, "stable rank", ONE, "weights") for site in "bab")
    assert depths(Profile(rows)) == {"b": 0, "a": 1}
