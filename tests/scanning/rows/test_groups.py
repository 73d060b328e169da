from dataclasses import replace

from sigmascope.records import Estimate
from sigmascope.scanning.rows import by_kind, ends, pairs, seen, values
from tests.report.made_scans import KINDS, scan

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
