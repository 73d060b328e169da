import math
from dataclasses import replace

from sigmascope.quantities import SCAN
from sigmascope.records import Estimate, Reading
from sigmascope.records.scans import Scan
from sigmascope.scanning.rows import FAR, outliers
from tests.report.made_scans import KINDS, ODD, plan, scan

KIND = "attention key"


def of(norms):
    """A scan of one kind with these norms over depth."""
    planned = plan(len(norms))
    own = tuple(m for m in planned.matrices if m.kind == KIND)
    readings = tuple(
        Reading(m.site, "spectral norm", Estimate.exactly(float(v)), SCAN)
        for m, v in zip(own, norms, strict=True)
    )
    return Scan(replace(planned, matrices=own), readings)


def depths(norms):
    return [o.matrix.depth for o in outliers(of(norms))]


def test_the_odd_one_is_named_with_its_farthest_quantity_and_the_others():
    (found,) = outliers(scan(12))
    assert found.matrix.site == ODD
    assert found.far > FAR
    assert {found.reading.quantity, *found.also} == {
        "spectral norm",
        "Frobenius norm",
        "noise level",
    }
    assert 2.5 < found.reading.estimate.value / found.usual < 3.5


def test_what_drifts_with_depth_does_not_stick_out():
    assert depths([1.3**i for i in range(16)]) == []
    assert depths([math.exp(2 * math.sin(i / 4)) for i in range(24)]) == []


def test_what_breaks_a_drift_sticks_out_though_others_are_as_large():
    norms = [1.3**i for i in range(16)]
    norms[4] = norms[9]
    assert depths(norms) == [4]


def test_the_first_and_the_last_can_stick_out():
    assert sorted(depths([5.0, *[1.0] * 12, 0.2])) == [0, 13]


def test_equal_ones_and_those_that_differ_by_less_than_a_spread_do_not():
    assert depths([1.0] * 12) == []
    assert depths([1.0] * 6 + [1.05] + [1.0] * 5) == []


def test_few_have_no_spread():
    assert depths([1.0] * 5 + [9.0]) == []


def test_zero_and_infinity_are_no_neighbours():
    assert depths([1.0] * 6 + [0.0, math.inf] + [1.0] * 6) == []


def test_kinds_are_not_compared_with_one_another():
    assert len(KINDS) > 1
    still = replace(scan(12), readings=tuple(r for r in scan(12).readings if r.site != ODD))
    assert outliers(still) == ()
