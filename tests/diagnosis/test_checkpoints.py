"""Facts of a scan, rules from their thresholds on and not before, and what all say together."""

import math

import pytest
import torch

from sigmascope.core.records import Estimate, Kind, Matrix, Reading, Scan, ScanPlan
from sigmascope.diagnosis.checkpoints import (
    RULES,
    Facts,
    far_moved,
    intruders,
    scan_findings,
    told,
    unmoved,
    worst,
)
from sigmascope.scanning import scan


def matrix(site, kind="linear", *, shape=(64, 32), dtype="bfloat16", form="matrix"):
    return Matrix(site, kind, 0, *shape, dtype, (site,), 128, "full", 1.0, form)


def scan_of(matrices, *readings):
    """A scan of matrices with `(site, quantity, number or estimate)` read of them."""
    plan = ScanPlan("made-up", tuple(matrices), (), len(matrices), 1, 1.0, 1)
    rows = []
    for site, name, number in readings:
        known = number if isinstance(number, Estimate) else Estimate.exactly(float(number))
        rows.append(Reading(site, name, known, "scan"))
    return Scan(plan, tuple(rows))


THREE = [matrix(name) for name in "abc"]


def names(*readings, matrices=THREE):
    """What is found in a scan with these readings, by name with its severity."""
    found = scan_findings(scan_of(matrices, *readings))
    return {f.name: f.severity for f in found}


def each(quantity, *values):
    """The same quantity of `a`, `b`, `c`."""
    return [(name, quantity, v) for name, v in zip("abc", values, strict=True)]


SCAN = scan_of(
    [matrix("a"), matrix("b"), matrix("c"), matrix("d", "head")],
    ("a", "stable rank", 3), ("b", "stable rank", 9), ("c", "stable rank", 5),
    ("d", "stable rank", 7), ("a = b", "copy cosine", 1),
)  # fmt: skip


def test_readings_by_matrix_and_medians_by_kind():
    facts = Facts(SCAN)
    assert facts.value("stable rank", SCAN.matrices[1]) == 9
    assert facts.value("spikes", SCAN.matrices[1]) is None
    assert facts.usual("stable rank", "linear") == 5
    assert facts.usual("stable rank", "head") is None  # of one matrix there is no usual value
    assert [m.site for m, _ in facts.of("stable rank")] == ["a", "b", "c", "d"]
    assert not list(facts.of("copy cosine"))  # it is of two, none of which it is the site


LOW = Kind("low-rank", "it is low", "me")


def test_a_finding_names_three_and_counts_the_rest():
    facts = Facts(SCAN)
    (found,) = told(LOW, "note", worst(facts.of("stable rank")), "it is low.", "Do.")
    assert found.says == "b, d, c and 1 more: it is low."
    assert found.site == "b"
    assert [r.estimate.value for r in found.evidence] == [9, 7, 5, 3]
    assert found.remedies == ("Do.",)
    assert not list(told(LOW, "note", [], "it is low."))


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
        (
            "unmoved-weights",
            each("relative change", 0, 1, 1),
            each("relative change", 1e-9, 1, 1),
        ),
        (
            "far-moved-weights",
            each("relative change", 1, 1, 10),
            each("relative change", 1, 1, 9.9),
        ),
        (
            "intruder-directions",
            [("a", "relative change", 1), ("a", "intruders", Estimate(2, 1, 2, "x"))],
            [("a", "relative change", 1), ("a", "intruders", Estimate(2, 0, 2, "x"))],
        ),
        (
            "low-rank-change",
            [("a", "change rank", 4), ("a", "change by rounding", 0.49)],
            [("a", "change rank", 5), ("a", "change by rounding", 0.49)],
        ),
        (
            "low-rank-change",
            [("a", "change rank", 1), ("a", "change by rounding", 0.1)],
            [("a", "change rank", Estimate(1, 1, 5, "x")), ("a", "change by rounding", 0.1)],
        ),
        (
            "low-rank-change",
            [("a", "change rank", 1), ("a", "change by rounding", 0.1)],
            [("a", "change rank", 0), ("a", "change by rounding", 0.1)],
        ),
        (
            "change-within-rounding",
            [("a", "change rank", 4), ("a", "change by rounding", 0.5)],
            [("a", "change rank", 4), ("a", "change by rounding", 0.49)],
        ),
    ],
)
def test_a_rule_speaks_from_its_threshold_on(name, speaks, silent):
    assert name in names(*speaks)
    assert name not in names(*silent)


PRODUCT = matrix("a", "adapter", form="product")


@pytest.mark.parametrize(
    ("of", "readings", "found"),
    [
        # scales are at fault only where there are scales
        (matrix("a", dtype="float8_e4m3fn"), [("longest row", 60)], {"broken-scales": "error"}),
        (matrix("a"), [("longest row", 60)], {"outlier-rows": "warning"}),
        (matrix("a", "embedding"), [("longest row", 60)], {}),
        # an adapter that is zero is untrained, and of low rank by design
        (PRODUCT, [(NORM, 0)], {"untrained-adapter": "warning"}),
        (PRODUCT, [("matrix rank", 1), ("energy rank", 1)], {}),
    ],
)
def test_what_a_matrix_is_decides(of, readings, found):
    assert names(*(("a", *one) for one in readings), matrices=[of]) == found


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


MULTIPLE = [("a", "Frobenius norm", 2), ("b", "Frobenius norm", 6)]
NEARLY = Estimate(1, 1 - 1e-12, 1, "x")  # a multiple is no exact copy


@pytest.mark.parametrize(
    ("cosines", "others", "says"),
    [
        ((1, 0.995), [], "2 matrices are copies of others, 1 of them exactly: a = b; a = c."),
        ((0.99, 0.995), [], "2 matrices are copies of others, none of them exactly: a = c; a = b."),
        ((1,), [], "1 matrix is a copy of another, exactly: a = b."),
        ((0.995,), [], "1 matrix is a copy of another: a = b."),
        ((NEARLY,), MULTIPLE, "1 matrix is a copy of another: a = b (3 times as large)."),
    ],
)
def test_copies_are_named_and_said_to_be_exact_where_they_are(cosines, others, says):
    pairs = zip(("a = b", "a = c"), cosines, strict=False)
    copies = [(pair, "copy cosine", cosine) for pair, cosine in pairs]
    (found,) = scan_findings(scan_of(THREE, *others, *copies))
    assert found.says == says


@pytest.mark.parametrize(
    ("one", "other", "cosine", "speaks"),
    [
        ("embedding", "head", 1, False),
        ("embedding", "embedding", 1, False),  # of an encoder and its decoder
        ("embedding", "head", NEARLY, True),
        ("embedding", "head", -1, True),
        ("embedding", "position embedding", 1, True),
        ("linear", "head", 1, True),
    ],
)
def test_an_embedding_that_is_the_head_too_is_tied_and_no_copy(one, other, cosine, speaks):
    matrices = [matrix("a", one), matrix("b", other)]
    found = names(("a = b", "copy cosine", cosine), matrices=matrices)
    assert ("copied-weights" in found) == speaks


@pytest.mark.parametrize(
    ("shape", "directions", "collapsed"),
    [
        ((1, 64), 1, False),  # a narrow one uses all that it has
        ((64, 1), 1, False),
        ((2, 64), 2, False),
        ((640, 640), 26, False),  # as many as the others, though a small share of its own
        ((640, 640), 2.6, True),
    ],
)
def test_a_matrix_of_another_shape_has_collapsed_in_number_and_in_share(
    shape, directions, collapsed
):
    others, usual = [*THREE, matrix("d", shape=shape)], each("effective rank", 26, 26, 26)
    found = names(*usual, ("d", "effective rank", directions), matrices=others)
    assert ("collapsed-rank" in found) is collapsed
    assert collapsed or not found


def weights(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {f"h.{i}.fc1.weight": torch.randn(80, 60, generator=generator) for i in range(4)}


def test_what_was_not_compared_is_not_spoken_of():
    names = {kind.name for rule in (unmoved, far_moved, intruders) for kind in rule.kinds}
    assert not names & {f.name for f in scan_findings(scan(weights()))}


def test_frozen_far_moved_and_overwritten_matrices_are_named():
    before, generator = weights(), torch.Generator().manual_seed(9)
    after = {n: W + 0.001 * torch.randn(80, 60, generator=generator) for n, W in before.items()}
    after["h.0.fc1.weight"] = before["h.0.fc1.weight"].clone()
    u, v = torch.randn(80, generator=generator), torch.randn(60, generator=generator)
    after["h.2.fc1.weight"] += 40 * (u / u.norm())[:, None] * (v / v.norm())
    found = {f.name: f for f in scan_findings(scan(before, against=after))}
    assert found["unmoved-weights"].site == "h.0.fc1.weight"
    assert "1 of 4" in found["unmoved-weights"].says
    assert found["far-moved-weights"].site == "h.2.fc1.weight"
    assert found["intruder-directions"].site == "h.2.fc1.weight"
    assert set(found) == {"unmoved-weights", "far-moved-weights", "intruder-directions"}


def test_a_merged_adapter_is_named_with_its_rank_and_full_training_is_not():
    generator = torch.Generator().manual_seed(9)
    before = {n: W.bfloat16() for n, W in weights().items()}
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    merged = {n: (W + 0.2 * draw(80, 3) @ draw(3, 60)).bfloat16() for n, W in before.items()}
    full = {n: (W + 0.2 * draw(80, 60)).bfloat16() for n, W in before.items()}
    found = {f.name: f for f in scan_findings(scan(before, against=merged))}
    assert "rank 3" in found["low-rank-change"].says
    names = {f.name for f in scan_findings(scan(before, against=full))}
    assert not names & {"low-rank-change", "change-within-rounding"}
    hidden = {n: (W.float() * (1 + 1e-3 * draw(80, 60))).bfloat16() for n, W in weights().items()}
    names = {f.name for f in scan_findings(scan(before, against=hidden))}
    assert "change-within-rounding" in names
    assert "low-rank-change" not in names


def test_errors_come_first():
    found = scan_findings(
        scan_of(
            THREE,
            ("a", "saturated entries", 0.1),
            ("b", "non-finite entries", 2),
            ("c", "zero rows", 0.5),
        )
    )
    assert [f.severity for f in found] == ["error", "warning", "warning"]
    assert found[0].site == "b"


def trained(generator, shape=(96, 64)):
    A = 0.02 * torch.randn(shape, generator=generator)
    u, v = (torch.randn(side, generator=generator) for side in shape)
    return A + (u / u.norm())[:, None] * (v / v.norm())


def test_of_a_sound_checkpoint_nothing_is_said():
    generator = torch.Generator().manual_seed(0)
    sound = {f"layers.{i}.mlp.up_proj.weight": trained(generator) for i in range(4)}
    assert scan_findings(scan(sound)) == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_scan_without_readings_has_no_findings(rule):
    assert not list(rule(Facts(scan_of(THREE))))
