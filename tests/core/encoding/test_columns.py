from dataclasses import dataclass, field

from sigmascope.core.encoding import columns, is_array, is_record, wide
from sigmascope.core.records import Check, Estimate, Reading, SiteSpectrum


@dataclass(frozen=True)
class Pair:
    ends: tuple[int, int] = field(metadata={"inline": ("first", "last")})
    size: Estimate | None
    share: float = 0.0


def held(record):
    return {c.name: c.of(record) for c in columns(type(record))}


def test_inline_fields_stand_beside_those_of_their_owner():
    names = [c.name for c in columns(Reading)]
    assert names == ["site", "quantity", "value", "low", "high", "how", "risk", "view", "form"]
    spectrum = [c.name for c in columns(SiteSpectrum)]
    assert spectrum == [
        "site",
        "view",
        "form",
        "sigma",
        "rows",
        "cols",
        "how",
        "low",
        "high",
        "risk",
    ]


def test_a_column_knows_the_class_that_says_what_it_is():
    owners = {c.name: c.owner for c in columns(Reading)}
    assert (owners["site"], owners["value"]) == (Reading, Estimate)


def test_parts_of_a_tuple_have_names_of_their_own():
    assert held(Pair((3, 5), None))["last"] == 5


def test_a_whole_number_in_the_place_of_a_fraction_becomes_one():
    assert repr(held(Pair((1, 2), None, 3))["share"]) == "3.0"


def test_wide_columns_have_the_parts_of_numbers_with_a_name():
    names = {c.name for c in wide(Check)}
    assert {"measured_value", "measured_risk", "limit_how"} <= names
    assert not {"measured", "limit"} & names
    absent = {c.name: c.of(Pair((1, 2), None)) for c in wide(Pair)}
    assert absent["size_value"] is None
    there = {c.name: c.of(Pair((1, 2), Estimate.exactly(4.0))) for c in wide(Pair)}
    assert there["size_value"] == 4.0


def test_records_and_tensors_are_told_by_their_types():
    hints = {c.name: c.hint for c in columns(SiteSpectrum)}
    assert is_array(hints["sigma"])
    assert not is_array(hints["how"])
    assert is_record(Estimate)
    assert not is_record(Estimate.exactly(1.0))
