"""Rules over singular values speak from their thresholds on and not before."""

import pytest

from sigmascope.diagnosis.checkpoints import scan_findings
from sigmascope.records import Estimate
from tests.diagnosis.checkpoints.made import THREE, each, matrix, names, scan_of


@pytest.mark.parametrize(
    ("name", "speaks", "silent"),
    [
        ("low-rank", [("a", "matrix rank", 16)], [("a", "matrix rank", 17)]),
        (
            "low-rank",
            [("a", "matrix rank", Estimate(9, 9, 16, "x"))],
            [("a", "matrix rank", Estimate(9, 9, 17, "x"))],
        ),
        ("compressible", [("a", "energy rank", 17)], [("a", "energy rank", 18)]),
        ("copied-weights", [("a = b", "copy cosine", 0.99)], []),
        (
            "collapsed-rank",
            each("effective rank", 1, 10, 10),
            each("effective rank", 1.1, 10, 10),
        ),
        (
            "noise-only",
            [("a", "spikes", 0), ("a", "noise distance", 0.332)],  # 0.02 + 10 / 32
            [("a", "spikes", 0), ("a", "noise distance", 0.333)],
        ),
    ],
)
def test_a_rule_speaks_from_its_threshold_on(name, speaks, silent):
    assert name in names(*speaks)
    assert name not in names(*silent)


def test_a_product_is_of_low_rank_by_design():
    product = [matrix("a", "adapter", form="product")]
    assert names(("a", "matrix rank", 1), ("a", "energy rank", 1), matrices=product) == {}


def test_noise_everywhere_is_a_warning_and_in_places_a_note():
    quiet = each("spikes", 0, 0, 0) + each("noise distance", 0.1, 0.1, 0.1)
    assert names(*quiet) == {"noise-only": "warning"}
    assert names(*quiet[:2], *quiet[3:], ("c", "spikes", 3)) == {"noise-only": "note"}


@pytest.mark.parametrize(
    ("dtype", "level", "speaks"),
    [
        ("bfloat16", 2.0**-9, True),
        ("bfloat16", 1.001 * 2.0**-9, False),
        ("float16", 2.0**-9, False),
        ("Q4_K", 0.0, False),
    ],
)
def test_a_bulk_that_is_rounding_alone_leaves_the_rank_of_the_spikes(dtype, level, speaks):
    """Of 64 by 32 entries of root mean square 1."""
    known = [("a", "Frobenius norm", 2048**0.5), ("a", "noise level", level), ("a", "spikes", 16)]
    found = names(*known, matrices=[matrix("a", dtype=dtype)])
    assert ("low-rank" in found) is speaks
    more = [*known[:2], ("a", "spikes", 17)]
    assert "low-rank" not in names(*more, matrices=[matrix("a", dtype=dtype)])


@pytest.mark.parametrize(("top", "speaks"), [(0.9, True), (0.89, False), (None, False)])
def test_where_the_bulk_is_unknown_its_top_must_be_that_of_random_signs(top, speaks):
    known = [] if top is None else [("a", "spectral norm", top), ("a", "random baseline", 1.0)]
    assert (names(("a", "spikes", 0), *known) != {}) is speaks


def test_copies_are_named_in_pairs():
    (found,) = scan_findings(
        scan_of(THREE, ("a = b", "copy cosine", 1), ("a = c", "copy cosine", 0.995))
    )
    assert found.says == "2 matrices are copies of others, 1 of them exactly: a = b; a = c."


def test_where_no_copy_is_exact_none_is_said():
    (found,) = scan_findings(
        scan_of(THREE, ("a = b", "copy cosine", 0.99), ("a = c", "copy cosine", 0.995))
    )
    assert found.says == "2 matrices are copies of others, none of them exactly: a = c; a = b."


@pytest.mark.parametrize(("cosine", "how"), [(1, ", exactly"), (0.995, "")])
def test_one_copy_is_said_of_one(cosine, how):
    (found,) = scan_findings(scan_of(THREE, ("a = b", "copy cosine", cosine)))
    assert found.says == f"1 matrix is a copy of another{how}: a = b."


def test_a_multiple_is_no_exact_copy_and_its_factor_is_said():
    known = [("a", "Frobenius norm", 2), ("b", "Frobenius norm", 6)]
    cosine = Estimate(1, 1 - 1e-12, 1, "x")
    (found,) = scan_findings(scan_of(THREE, *known, ("a = b", "copy cosine", cosine)))
    assert found.says == "1 matrix is a copy of another: a = b (3 times as large)."


@pytest.mark.parametrize("shape", [(1, 64), (64, 1), (2, 64)])
def test_a_narrow_matrix_that_uses_all_its_directions_has_not_collapsed(shape):
    narrow = [*THREE, matrix("d", shape=shape)]
    usual = each("effective rank", 26, 26, 26)
    assert names(*usual, ("d", "effective rank", min(shape)), matrices=narrow) == {}


def test_a_wide_matrix_of_usual_effective_rank_has_not_collapsed():
    """It uses as many directions as the others, though a small share of its own."""
    wide = [*THREE, matrix("d", shape=(640, 640))]
    usual = each("effective rank", 26, 26, 26)
    assert names(*usual, ("d", "effective rank", 26), matrices=wide) == {}
    assert "collapsed-rank" in names(*usual, ("d", "effective rank", 2.6), matrices=wide)
