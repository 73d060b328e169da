"""Each rule speaks from its threshold on, and of a sound checkpoint none does."""

import pytest
import torch

from sigmascope.diagnosis.checkpoints import RULES, scan_findings
from sigmascope.records import Estimate
from sigmascope.scanning import scan
from tests.diagnosis.checkpoints.made import matrix, scan_of

THREE = [matrix(name) for name in "abc"]


def names(*readings, matrices=THREE):
    return {f.name: f.severity for f in scan_findings(scan_of(matrices, *readings))}


def norms(*values):
    return [(name, "Frobenius norm", v) for name, v in zip("abc", values, strict=True)]


def moved(*values):
    return [(name, "relative change", v) for name, v in zip("abc", values, strict=True)]


@pytest.mark.parametrize(
    ("name", "speaks", "silent"),
    [
        ("exploding-weights", norms(1, 1, 10), norms(1, 1, 9.99)),
        ("vanishing-weights", norms(1, 0.1, 1), norms(1, 0.11, 1)),
        ("zero-matrix", norms(1, 0, 1), norms(1, 1e-30, 1e-30)),
        ("dead-rows", [("a", "zero rows", 0.01)], [("a", "zero rows", 0.0099)]),
        ("dead-rows", [("a", "zero columns", 0.5)], [("a", "zero columns", 1.0)]),
        ("outlier-rows", [("a", "longest row", 50)], [("a", "longest row", 49.9)]),
        ("outlier-rows", [("a", "longest column", 50)], [("a", "longest column", 49.9)]),
        ("saturated-weights", [("a", "saturated entries", 1e-9)], []),
        ("subnormal-weights", [("a", "subnormal entries", 0.01)],
         [("a", "subnormal entries", 0.009)]),
        ("low-rank", [("a", "matrix rank", 16)], [("a", "matrix rank", 17)]),
        ("low-rank", [("a", "matrix rank", Estimate(9, 9, 16, "x"))],
         [("a", "matrix rank", Estimate(9, 9, 17, "x"))]),
        ("compressible", [("a", "energy rank", 17)], [("a", "energy rank", 18)]),
        ("copied-weights", [("a = b", "copy cosine", 0.99)], []),
        ("non-finite-weights", [("a", "non-finite entries", 1)], []),
        ("collapsed-rank",
         [("a", "effective rank", 1), ("b", "effective rank", 10), ("c", "effective rank", 10)],
         [("a", "effective rank", 1.1), ("b", "effective rank", 10), ("c", "effective rank", 10)]),
        ("noise-only", [("a", "spikes", 0), ("a", "noise distance", 0.1)],
         [("a", "spikes", 0), ("a", "noise distance", 0.11)]),
        ("unmoved-weights", [("a", "relative change", 0)], [("a", "relative change", 1e-9)]),
        ("far-moved-weights", moved(1, 1, 10),
         moved(1, 1, 9.9)),
        ("intruder-directions",
         [("a", "relative change", 1), ("a", "intruders", Estimate(2, 1, 2, "x"))],
         [("a", "relative change", 1), ("a", "intruders", Estimate(2, 0, 2, "x"))]),
    ],
)  # fmt: skip
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
    assert names(("a", "matrix rank", 1), matrices=product) == {}


def test_noise_everywhere_is_a_warning_and_in_places_a_note():
    quiet = [(n, "spikes", 0) for n in "abc"]
    assert names(*quiet) == {"noise-only": "warning"}
    assert names(*quiet[:2], ("c", "spikes", 3)) == {"noise-only": "note"}


def test_errors_come_first():
    found = scan_findings(
        scan_of(THREE, ("a", "spikes", 0), ("b", "non-finite entries", 2), ("c", "zero rows", 0.5))
    )
    assert [f.severity for f in found] == ["error", "warning", "warning"]
    assert "2 of" not in found[0].says
    assert found[0].site == "b"


def test_copies_are_named_in_pairs():
    (found,) = scan_findings(
        scan_of(THREE, ("a = b", "copy cosine", 1), ("a = c", "copy cosine", 0.995))
    )
    assert found.says == "2 matrices are copies of others, 1 of them exactly: a = b; a = c."


def trained(generator, shape=(96, 64)):
    A = 0.02 * torch.randn(shape, generator=generator)
    u, v = (torch.randn(side, generator=generator) for side in shape)
    return A + (u / u.norm())[:, None] * (v / v.norm())


def test_of_a_sound_checkpoint_nothing_is_said():
    generator = torch.Generator().manual_seed(0)
    sound = {f"layers.{i}.mlp.up_proj.weight": trained(generator) for i in range(4)}
    assert scan_findings(scan(sound)) == ()


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_a_scan_without_readings_has_no_findings(rule):
    assert scan_findings(scan_of(THREE)) == ()
    assert callable(rule)
