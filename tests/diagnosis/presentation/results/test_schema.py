import pytest

from sigmascope.core.quantities import EVERY, SCAN, SCRIPT, TRAINING, WATCH
from sigmascope.core.records import Profile
from sigmascope.diagnosis.presentation import SCHEMA
from sigmascope.report import json_form
from sigmascope.scanning.presentation import SCAN_SCHEMA

DEFINITIONS = SCHEMA["$defs"]


def test_it_is_version_2_and_names_every_part_of_the_form():
    assert SCHEMA["$id"] == "urn:sigmascope:profile:2"
    assert SCHEMA["properties"]["schema"] == {"const": "sigmascope/profile/3"}
    assert set(SCHEMA["required"]) == set(json_form(Profile(()), ()))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("reading", "site depth view form quantity value low high how risk"),
        ("fact", "site view quantity word"),
        ("layer", "site kind depth parameters reads writes numbers multiply_adds"),
        ("spectrum", "site view form rows cols how risk sigma low high"),
        ("check", "theorem source statement site sense verdict measured limit assumptions"),
        ("finding", "name site depth severity says source remedies follows evidence facts"),
        ("skipped", "site what why"),
        ("estimate", "value low high how risk"),
        (
            "coverage",
            "says layers layers_measured layers_in_part weights weights_measured skipped "
            "uncovered unasked unseen no_findings",
        ),
    ],
)
def test_version_3_has_these_fields_and_no_others(name, fields):
    """Readers of version 3 were promised them: another field needs another version."""
    assert set(DEFINITIONS[name]["required"]) == set(fields.split())
    assert DEFINITIONS[name]["additionalProperties"] is False


def test_words_that_may_stand_in_a_field_are_listed_and_fields_say_what_they_mean():
    properties = {name: known.get("properties", {}) for name, known in DEFINITIONS.items()}
    views = [*EVERY, TRAINING, SCAN, WATCH, SCRIPT]
    assert properties["reading"]["view"]["enum"] == views
    assert properties["finding"]["severity"]["enum"] == ["error", "warning", "note"]
    assert "violated" in properties["check"]["verdict"]["enum"]
    assert "one past the last" in properties["finding"]["depth"]["description"]
    assert "Route" in properties["reading"]["how"]["description"]


def test_the_schema_of_a_scan_has_every_part_of_its_form():
    assert SCAN_SCHEMA["properties"]["schema"] == {"const": "sigmascope/scan/2"}
    assert set(SCAN_SCHEMA["required"]) == {
        "schema", "plan", "readings", "skipped", "about", "findings",
    }  # fmt: skip
    fields = "site kind depth rows cols dtype tensors bytes effort work form"
    assert set(SCAN_SCHEMA["$defs"]["matrix"]["required"]) == set(fields.split())
    assert SCAN_SCHEMA["$defs"]["matrix"]["properties"]["depth"]["minimum"] == -1
