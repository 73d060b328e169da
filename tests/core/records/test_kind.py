"""A kind makes findings that carry its name and source."""

from sigmascope.core.records import Kind


def test_findings_have_the_name_and_the_source_of_their_kind():
    kind = Kind("dead-units", "units are off", "Lu et al. 2019")
    found = kind.finding("fc", "error", (), "None fires.", ("Lower the rate.",))
    assert (found.name, found.source) == ("dead-units", "Lu et al. 2019")
    assert (found.site, found.severity, found.remedies) == ("fc", "error", ("Lower the rate.",))
    assert found.follows == ""


def test_kinds_are_told_apart_by_themselves():
    one, other = (Kind("x", "it is so", "me") for _ in range(2))
    assert one != other
    assert len({one, other}) == 2
