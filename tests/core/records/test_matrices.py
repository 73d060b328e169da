"""What a scan yields can be asked for by name, and is encoded as every record is."""

from sigmascope.core.encoding import built, encoded
from sigmascope.core.records import Estimate, Matrix, Reading, Scan, ScanPlan

MATRIX = Matrix("a.weight", "linear", 3, 4, 5, "bfloat16", ("a.weight",), 40, "full", 80.0)
PLAN = ScanPlan("a.safetensors", (MATRIX,), (), 1, 40, 0.1, 10**6)


def reading(site, quantity, value):
    return Reading(site, quantity, Estimate.exactly(value), "scan")


def test_a_matrix_knows_its_shape_and_survives_encoding():
    assert MATRIX.shape == (4, 5)
    assert built(Matrix, encoded(MATRIX)) == MATRIX


def test_series_are_in_order_and_of_one_site_where_one_is_asked_for():
    readings = tuple(
        reading(site, name, value)
        for value, (site, name) in enumerate(
            [("a", "spectral norm"), ("a", "stable rank"), ("b", "spectral norm")]
        )
    )
    scan = Scan(PLAN, readings)
    assert scan.matrices == (MATRIX,)
    assert [r.estimate.value for r in scan.series("spectral norm")] == [0, 2]
    assert [r.estimate.value for r in scan.series("spectral norm", site="b")] == [2]
