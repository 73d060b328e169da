"""The bands of networks that train: what is kept, and how it is made from readings."""

import pytest

from benchmarks import references as made
from sigmascope.core import quantities
from sigmascope.core.records import Estimate, Reading
from sigmascope.core.references import STAGES, references, references_of


def test_bands_are_of_quantities_that_there_are_in_order():
    found = references()
    assert len(found) > 50
    assert len({(r.curve, r.stage) for r in found}) == len(found)
    for r in found:
        known = quantities.quantity(r.quantity)
        assert r.view in known.views
        assert r.stage in STAGES
        assert known.least <= r.p05 <= r.p25 <= r.median <= r.p75 <= r.p95 <= known.most
        assert made.FEWEST <= r.networks <= r.readings


def test_a_quantity_is_looked_up_by_view_and_form():
    both = references_of("participation ratio", view="representations", form="samples")
    assert [r.stage for r in both] == ["start", "trained"]
    assert len(references_of("participation ratio")) > 2
    assert references_of("participation ratio", view="gradients") == []
    assert references_of("no such thing") == []


@pytest.mark.parametrize(
    ("share", "value"), [(0.05, 1.0), (0.5, 1.0), (0.51, 2.0), (0.75, 2.0), (0.76, 4.0), (1.0, 4.0)]
)
def test_each_network_counts_alike(share, value):
    """One of two readings, and one of a single one that weighs as much as both."""
    points = [(1.0, 1.0), (2.0, 0.5), (4.0, 0.5)]
    assert made.at(points, share) == value


def test_bands_need_five_networks():
    curve = ("gain", "setup", "", "start")
    networks = {f"net {k}": [float(k), float(k)] for k in range(5)}
    (band,) = made.bands({curve: networks})
    assert (band.networks, band.readings) == (5, 10)
    assert (band.p05, band.median, band.p95) == (0.0, 2.0, 4.0)
    (fine,) = made.bands({curve: {name: [*map(float, range(1000))] for name in networks}})
    for name in ("p05", "p25", "p75", "p95"):
        assert getattr(fine, name) == pytest.approx(10 * int(name[1:]), abs=1)
    del networks["net 4"]
    assert made.bands({curve: networks}) == []


def test_marks_of_faults_and_infinities_are_no_readings():
    reading = lambda quantity, value: Reading("a", quantity, Estimate.exactly(value), "setup")
    assert made.usable(reading("gain", 1.0))
    assert not made.usable(reading("gain", float("inf")))
    assert not made.usable(reading("non-finite entries", 1.0))
