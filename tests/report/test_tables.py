from sigmascope.records import Estimate, Profile, Reading
from sigmascope.report import table


def test_columns_hold_every_reading(profile):
    columns = table(profile)
    assert list(columns) == [
        "site", "depth", "view", "form", "quantity", "value", "low", "high", "how", "risk",
    ]  # fmt: skip
    assert {len(column) for column in columns.values()} == {len(profile.readings)}
    assert columns["value"] == [r.estimate.value for r in profile.readings]


def test_depth_is_that_of_the_layer_that_is_or_applies_the_site(profile):
    columns = table(profile)
    depth = dict(zip(columns["site"], columns["depth"], strict=True))
    assert depth["hidden.3.linear"] == depth["hidden.3.linear.weight"] == 3
    assert depth["(output)"] == 33


def test_a_site_of_no_layer_has_no_depth(profile):
    stray = Reading("stray", "mean square", Estimate.exactly(1.0), "representations")
    assert table(Profile((stray,), layers=profile.layers))["depth"] == [None]


def test_sites_without_layers_are_numbered_as_they_come():
    rows = [Reading(s, "stable rank", Estimate.exactly(1.0), "weights") for s in "abca"]
    assert table(Profile(tuple(rows)))["depth"] == [0, 1, 2, 0]
