from sigmascope.core.encoding import schema_of
from sigmascope.core.records import Finding, Reading
from sigmascope.report.results import NAMES, with_more


def test_an_object_has_more_properties_and_lacks_those_that_are_left_out():
    known = schema_of(Reading, NAMES)
    found = with_more(known, without=("view",), depth={"type": "integer"})
    assert set(found["properties"]) == {*known["properties"], "depth"} - {"view"}
    assert found["properties"]["depth"] == {"type": "integer"}
    assert "view" in known["properties"]  # what was known is as it was


def test_records_within_records_are_referred_to_by_name():
    inside = schema_of(Finding, NAMES)["properties"]["evidence"]
    assert inside["items"] == {"$ref": f"#/$defs/{NAMES[Reading]}"}
