from dataclasses import replace

import pytest

from sigmascope.records import Estimate
from sigmascope.report import text
from tests.report.made_scans import scan

SCAN = scan(12, against=True)
SAID = text(SCAN)


def under(title, said=SAID):
    """The lines of a section."""
    return said.partition(f"\n{title}\n")[2].partition("\n\n")[0].splitlines()


def test_without_another_version_nothing_is_said_of_it():
    assert "Moved" not in text(scan(12))


def test_each_kind_says_how_far_it_moved():
    says, _, *rows = under("Moved")
    assert says == "74 of 74 matrices changed."
    assert len(rows) == 8
    (keys,) = (row for row in rows if row.startswith("attention key"))
    n, change, most, turned, scale, *_ = keys.split()[2:]
    assert n == "12"
    assert float(most) >= float(change) > float(turned)
    assert 1 < float(scale) < 1.1


def test_the_ten_that_moved_most_are_named_in_order():
    _, *rows, more = under("Moved most")
    far = [float(row.split()[1]) for row in rows]
    assert len(far) == 10
    assert far == sorted(far, reverse=True)
    changes = sorted((r.estimate.value for r in SCAN.series("relative change")), reverse=True)
    assert abs(far[0] - changes[0]) < 1e-3
    assert more == "… 64 more (--whole lists them)"
    assert len(under("Moved most", text(SCAN, whole=True))) == 75


def test_new_and_turned_directions_are_counted():
    intruders, angle, *_ = under("Directions")
    assert intruders == "9 intruders in 9 of 74 matrices, most in embed.weight: 1."
    assert "turned by 20° (median), at most by 48°" in angle


def test_only_changes_are_read_so_that_kinds_are_told_once():
    assert "By kind" not in SAID
    assert "By kind" in text(scan(12))


@pytest.mark.parametrize("high", [0.0, 5e-324])  # a sum of zeros, and what its rounding may be
def test_versions_that_are_the_same_did_not_move(high):
    still = tuple(
        replace(r, estimate=Estimate(0.0, 0.0, high, "exact"))
        if r.quantity in ("relative change", "intruders")
        else r
        for r in SCAN.readings
    )
    said = text(replace(SCAN, readings=still))
    assert "0 of 74 matrices changed." in said
    assert "Moved most" not in said
    assert "No intruders" in said


def test_angles_of_several_forms_are_read_together():
    more = tuple(replace(r, form="leading 4") for r in SCAN.series("largest angle"))
    assert "at most by 48°" in text(replace(SCAN, readings=(*SCAN.readings, *more)))
