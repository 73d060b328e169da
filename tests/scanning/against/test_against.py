"""Two versions of a checkpoint: every matrix is compared, or it is said why not."""

from collections import Counter

import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.scanning import plan, scan
from tests.scanning.checkpoints import SMALL, numbers, stored


def value(found, name, site):
    (reading,) = found.series(name, site=site)
    return reading.estimate


def test_the_same_checkpoint_twice_has_not_moved():
    found = scan(SMALL, against={k: v.clone() for k, v in SMALL.items()})
    for reading in found.series("relative change"):
        assert reading.estimate.value == 0
        assert reading.estimate.high < 1e-150  # the root of the least number there is
    assert {r.quantity for r in found.readings} == {
        "relative change",
        "best scale",
        "turned change",
        "change norm",
    }
    assert "nothing has changed" in {s.why for s in found.skipped}


def test_the_same_numbers_stored_more_widely_have_not_moved():
    narrow = {"a.weight": torch.randn(12, 9).bfloat16()}
    for wide in (torch.float32, torch.float64):
        found = scan(narrow, against={"a.weight": narrow["a.weight"].to(wide)})
        assert value(found, "relative change", "a.weight").value == 0


def test_a_change_is_measured():
    A, D = torch.randn(30, 20), torch.randn(30, 20)
    found = scan({"a.weight": A}, against={"a.weight": A + 0.1 * D})
    truth = float((0.1 * D).double().norm() / A.double().norm())
    assert value(found, "relative change", "a.weight").value == pytest.approx(truth, rel=1e-5)
    norm = float(torch.linalg.matrix_norm((0.1 * D).double(), 2))
    assert value(found, "change norm", "a.weight").value == pytest.approx(norm, rel=1e-4)


def test_what_has_no_counterpart_is_said_once_and_truly():
    one = {
        "a.weight": torch.randn(9, 8), "gone.weight": torch.randn(4, 4), "v": torch.ones(3),
        "s.weight": torch.randn(4, 5), "unread.weight": torch.randn(4, 4),
    }  # fmt: skip
    two = {
        "a.weight": torch.randn(9, 8), "new.weight": torch.randn(4, 4), "v": torch.ones(3),
        "s.weight": torch.randn(4, 6), "unread.weight": torch.ones(4, 4, dtype=torch.int64),
        "new.bias": torch.ones(3),
    }  # fmt: skip
    found = plan(one, against=two)
    why = {s.site: s.why for s in found.skipped}
    assert [m.site for m in found.matrices] == ["a.weight"]
    assert why["gone.weight"] == "only in the first checkpoint"
    assert why["new.weight"] == "only in the second checkpoint"
    assert why["s.weight"] == "of shape [4, 5] in one, [4, 6] in the other"
    assert why["unread.weight"].startswith("in the second: int64")
    assert why["new.bias"].startswith("only in the second checkpoint: a vector")
    assert set(Counter(s.site for s in found.skipped).values()) == {1}
    assert {*why, "a.weight"} == {*one, *two}
    back = {s.site: s.why for s in plan(two, against=one).skipped}
    assert back["unread.weight"].startswith("int64")
    assert {*back, "a.weight"} == {*one, *two}


def test_a_run_file_takes_it_up_again(tmp_path):
    moved = {k: (v + 0.01 * torch.randn(v.shape)).to(v.dtype) for k, v in SMALL.items()}
    one, two = stored(tmp_path), stored(tmp_path, moved, "moved.safetensors")
    run = tmp_path / "a.run"

    def cut(job, many):
        for batch in many:
            yield job(type(batch)(batch.jobs[:2]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(one, against=two, run=run, mapper=cut)
    assert numbers(scan(one, against=two, run=run)) == numbers(scan(one, against=two))


def test_quantities_that_would_not_be_read_are_refused():
    with pytest.raises(Refusal, match="give its other version"):
        scan(SMALL, quantities=["relative change"])
    with pytest.raises(Refusal, match="Of two versions one of"):
        scan(SMALL, against=SMALL, quantities=["stable rank"])
    both = plan(SMALL, against=SMALL, quantities=["stable rank", "relative change"])
    assert both.matrices


def test_memory_is_that_of_both_and_their_difference():
    large = {"a.weight": torch.empty(3000, 3000)}
    alone, both = plan(large, effort="leading"), plan(large, against=large, effort="leading")
    assert both.memory > alone.memory + large["a.weight"].nbytes
    (left,) = plan(large, against=large, memory=alone.memory + 2**20, effort="leading").skipped
    assert "comparing both takes" in left.why
