"""Scans put in order for text, JSON, tables and pages."""

import math
from dataclasses import replace
from statistics import median

import pytest

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Reading, Scan
from sigmascope.report import table
from sigmascope.scanning.rows import _near, by_kind, ends, outliers, pairs, seen, values
from tests.report.made_scans import KINDS, ODD, plan, scan

FAR = 5.0

SCAN = scan(3)


def test_matrices_are_grouped_by_kind_in_the_order_of_the_checkpoint():
    found = by_kind(SCAN.matrices)
    assert list(found) == ["embedding", *KINDS, "readout"]
    assert [m.depth for m in found["attention key"]] == [0, 1, 2]


def test_readings_of_one_matrix_and_of_two_stand_apart():
    own, met = seen(SCAN), pairs(SCAN)
    assert set(met) == {"alignment", "unit imbalance", "copy cosine"}
    assert not set(own) & set(met)
    assert len(own["spectral norm"]) == len(SCAN.matrices)
    assert len(own) + len(met) == len({r.quantity for r in SCAN.readings})


def test_a_quantity_read_in_two_forms_has_two_names():
    norm = SCAN.series("spectral norm")[0]
    other = replace(norm, form="kernel", estimate=Estimate.exactly(7.0))
    found = seen(replace(SCAN, readings=(*SCAN.readings, other)))
    assert "spectral norm" not in found
    assert len(found["spectral norm (matrix)"]) == len(SCAN.matrices)
    assert found["spectral norm (kernel)"] == {norm.site: other}


def test_the_ends_of_a_pair_are_found_whatever_their_names_hold():
    known = {"a": 0, "b → c": 1, "b": 2}
    assert ends("a → b", known) == (0, "→", 2)
    assert ends("b = a", known) == (2, "=", 0)
    assert ends("a → b → c", known) == (0, "→", 1)
    assert ends("a → x", known) is None
    assert ends("(model)", known) is None


def test_values_are_those_of_the_matrices_named():
    read = {r.site: r for r in SCAN.series("spikes")[:2]}
    assert values(read, SCAN.matrices) == [3.0, 3.0]


KIND = "attention key"


def of(norms):
    """A scan of one kind with these norms over depth."""
    planned = plan(len(norms))
    own = tuple(m for m in planned.matrices if m.kind == KIND)
    readings = tuple(
        Reading(m.site, "spectral norm", Estimate.exactly(float(v)), q.SCAN)
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


@pytest.mark.parametrize("norms", [
    [1.3**i for i in range(16)], [math.exp(2 * math.sin(i / 4)) for i in range(24)],  # drifts
    [1.0] * 12, [1.0] * 6 + [1.05] + [1.0] * 5,  # differs by less than a spread
    [1.0] * 5 + [9.0],  # few have no spread
    [1.0] * 6 + [0.0, math.inf] + [1.0] * 6,  # no neighbours
])  # fmt: skip
def test_what_drifts_is_alike_few_or_no_number_does_not_stick_out(norms):
    assert depths(norms) == []


def test_what_breaks_a_drift_sticks_out_though_others_are_as_large():
    norms = [1.3**i for i in range(16)]
    norms[4] = norms[9]
    assert depths(norms) == [4]


def test_the_first_and_the_last_can_stick_out():
    assert sorted(depths([5.0, *[1.0] * 12, 0.2])) == [0, 13]


def test_kinds_are_not_compared_with_one_another():
    assert len(KINDS) > 1
    still = replace(scan(12), readings=tuple(r for r in scan(12).readings if r.site != ODD))
    assert outliers(still) == ()


def test_a_scan_has_a_row_for_each_matrix_and_a_column_for_each_quantity():
    found = scan(3)
    columns = table(found)
    assert list(columns)[:6] == ["site", "kind", "depth", "rows", "cols", "dtype"]
    assert {len(column) for column in columns.values()} == {len(found.matrices)}
    assert columns["site"] == [m.site for m in found.matrices]
    assert columns["stable rank"] == [r.estimate.value for r in found.series("stable rank")]
    assert "alignment" not in columns


def test_what_was_not_read_is_none():
    exponents = table(scan(3))["power-law exponent"]
    assert exponents[0] is None
    assert exponents[1] > 1


def test_a_plan_has_a_row_for_each_matrix():
    planned = plan(2)
    columns = table(planned)
    assert {len(column) for column in columns.values()} == {len(planned.matrices)}
    assert set(columns["effort"]) == {"full"}


def test_a_scan_is_a_data_frame():
    pytest.importorskip("pandas")
    frame = scan(2).to_pandas()
    assert frame.shape[0] == 14
    assert frame["spectral norm"].min() > 0
    assert len(plan(2).to_pandas()) == 14


def test_how_far_one_is_counts_in_robust_standard_deviations():
    """Steady but for noise of 1 in every logarithm: 0.6745 of a deviation is 1."""
    noise = [1.0, -1.0] * 10
    noise[10] = 60.0
    (found,) = outliers(of([math.exp(v) for v in noise]))
    distance = 60.0 - math.log(found.usual)
    apart = sorted(
        abs(v - u) for v, u in zip(noise, (_near(noise, i) for i in range(len(noise))), strict=True)
    )
    assert found.far == pytest.approx(0.6745 * distance / median(apart), rel=1e-4)


@pytest.mark.parametrize("at", [0, 5, 6, 12, 18, 19])
def test_at_the_ends_of_a_row_as_many_neighbours_are_asked_as_within(at):
    """Eight: those on one side make up for the others, so that two that stray do not count."""
    straight = [0.5 * k for k in range(20)]
    near = sorted((k for k in range(20) if k != at), key=lambda k: abs(k - at))[:2]
    bent = [v + 9.0 * (k in near) for k, v in enumerate(straight)]
    assert _near(bent, at) == pytest.approx(straight[at], abs=2.0)
