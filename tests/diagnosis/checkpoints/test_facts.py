"""Facts of a scan by matrix and kind, and findings over many matrices."""

from sigmascope.diagnosis.checkpoints import Facts, told, worst
from sigmascope.records import Kind
from tests.diagnosis.checkpoints.made import matrix, scan_of

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
