from sigmascope.core.encoding import object_of, schema_of
from sigmascope.core.records import Check, Estimate, Layer, Profile, Reading


def test_an_object_has_exactly_its_properties():
    found = object_of({"a": {"type": "string"}}, title="t")
    assert found["required"] == ["a"]
    assert found["additionalProperties"] is False
    assert found["title"] == "t"


def test_types_become_kinds_of_json():
    found = schema_of(Layer, {})["properties"]
    assert found["depth"]["type"] == "integer"
    assert found["depth"]["minimum"] == 0
    assert found["parameters"]["items"] == {"type": "string"}


def test_words_are_listed():
    found = schema_of(Check, {Estimate: "estimate"})["properties"]
    assert found["sense"]["enum"] == ["at most", "at least"]
    assert "holds" in found["verdict"]["enum"]
    assert found["measured"]["anyOf"] == [{"$ref": "#/$defs/estimate"}, {"type": "null"}]
    assert found["assumptions"]["items"]["properties"]["met"]["anyOf"][1] == {"type": "null"}


def test_records_with_a_name_are_referred_to():
    found = schema_of(Profile, {Reading: "reading"})["properties"]
    assert found["readings"]["items"] == {"$ref": "#/$defs/reading"}
    assert found["about"]["additionalProperties"] == {"type": "string"}


def test_what_a_field_means_comes_from_the_docstring():
    found = schema_of(Reading, {})["properties"]
    assert found["how"]["description"].startswith("Route and its knobs")
    assert found["site"]["description"].startswith("The layer")
    assert "\n" not in found["form"]["description"]
