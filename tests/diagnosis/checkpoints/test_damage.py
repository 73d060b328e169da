"""Rules over broken numbers speak from their thresholds on and not before."""

import math

import pytest

from sigmascope.diagnosis.checkpoints import scan_findings
from tests.diagnosis.checkpoints.made import each, matrix, names, scan_of

NORM = "Frobenius norm"


@pytest.mark.parametrize(
    ("name", "speaks", "silent"),
    [
        ("exploding-weights", each(NORM, 1, 1, 10), each(NORM, 1, 1, 9.99)),
        ("vanishing-weights", each(NORM, 1, 0.1, 1), each(NORM, 1, 0.11, 1)),
        ("zero-matrix", each(NORM, 1, 0, 1), each(NORM, 1, 1e-30, 1e-30)),
        ("dead-rows", [("a", "zero rows", 0.01)], [("a", "zero rows", 0.0099)]),
        ("dead-rows", [("a", "zero columns", 0.5)], [("a", "zero columns", 1.0)]),
        ("outlier-rows", [("a", "longest row", 50)], [("a", "longest row", 49.9)]),
        ("outlier-rows", [("a", "longest column", 50)], [("a", "longest column", 49.9)]),
        ("saturated-weights", [("a", "saturated entries", 1e-9)], []),
        (
            "subnormal-weights",
            [("a", "subnormal entries", 0.01)],
            [("a", "subnormal entries", 0.009)],
        ),
        ("non-finite-weights", [("a", "non-finite entries", 1)], []),
    ],
)
def test_a_rule_speaks_from_its_threshold_on(name, speaks, silent):
    assert name in names(*speaks)
    assert name not in names(*silent)


def test_scales_are_at_fault_only_where_there_are_scales():
    long = ("a", "longest row", 60)
    assert names(long, matrices=[matrix("a", dtype="float8_e4m3fn")]) == {"broken-scales": "error"}
    assert names(long) == {"outlier-rows": "warning"}
    assert names(long, matrices=[matrix("a", "embedding")]) == {}


def test_an_adapter_that_is_zero_is_untrained():
    product = [matrix("a", "adapter", form="product")]
    assert names(("a", "Frobenius norm", 0), matrices=product) == {"untrained-adapter": "warning"}


@pytest.mark.parametrize("shape", [(2, 4096), (4096, 2), (1, 1)])
def test_size_is_not_said_of_shapes(shape):
    """Of three layers and a head that are all drawn as `Linear` draws them: 1/3 a row."""
    known = [matrix(name, shape=(4096, 4096)) for name in "abc"] + [matrix("d", shape=shape)]
    sizes = [(m.site, NORM, math.sqrt(m.rows / 3)) for m in known]
    assert names(*sizes, matrices=known) == {}
    for factor, found in ((1e-3, "vanishing-weights"), (1e4, "exploding-weights")):
        grown = (sizes[-1][0], NORM, sizes[-1][2] * factor)
        assert found in names(*sizes[:-1], grown, matrices=known)


def test_a_finding_holds_no_more_readings_than_a_terminal_shows():
    """That is 4: of nine, the rest was "and 1 more"."""
    many = [matrix(name) for name in "abcdefghi"]
    (found,) = scan_findings(scan_of(many, *((m.site, NORM, 0) for m in many)))
    assert len(found.evidence) == 4
    assert "a, b, c and 6 more" in found.says
