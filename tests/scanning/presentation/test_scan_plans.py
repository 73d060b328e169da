from dataclasses import replace

import pytest

from sigmascope.records import Skipped
from sigmascope.report import text
from sigmascope.scanning.presentation import shape
from tests.report.made_scans import HOSTILE, plan


def test_the_first_lines_say_what_is_read_and_what_it_costs():
    first, second, third = text(plan()).splitlines()[:3]
    assert first == "model.safetensors: 74 matrices in 87 tensors, 17 MB to read."
    assert second == (
        "About 4.3 minutes of processor time, 2.2 minutes with 2 processes; at most 1.3 GB of "
        "memory each."
    )
    assert third == "format safetensors · torch 2.13.0+cpu"


def test_each_kind_has_a_row():
    rows = [line.split() for line in text(plan()).splitlines()]
    assert ["attention", "key", "12", "64×256", "bfloat16", "393", "kB", "12", "·"] in rows


def test_the_commonest_shape_stands_for_its_kind():
    one, two, *_ = plan().matrices
    assert shape([one, one, two]) == "512×256 +1"


def test_how_much_is_measured_is_counted():
    planned = plan()
    leading = tuple(replace(m, effort="leading") for m in planned.matrices[:1])
    said = text(replace(planned, matrices=(*leading, *planned.matrices[1:])))
    row = next(line for line in said.splitlines() if line.startswith("embedding"))
    assert row.split()[-2:] == ["·", "1"]


def test_what_is_left_out_is_counted_by_reason_with_examples():
    said = text(plan())
    assert "Left out: 13 of 87 tensors" in said
    row = next(line for line in said.splitlines() if "it is a vector" in line)
    assert row.split() == ["tensor", "12", "it", "is", "a", "vector", "blocks.0.norm.weight"]
    assert "blocks.11.norm.weight" not in said
    assert "blocks.11.norm.weight" in text(plan(), whole=True)


def test_many_reasons_are_counted_and_never_dropped_in_silence():
    many = tuple(
        Skipped(f"t{i}", "tensor", f"reason {c}") for i, c in enumerate("abcdefghijklmnopqrst")
    )
    said = text(replace(plan(), skipped=many))
    assert "… 8 more reasons" in said
    assert "reason t" in text(replace(plan(), skipped=many), whole=True)


def test_a_plan_of_nothing_can_be_shown():
    said = text(replace(plan(), matrices=(), skipped=(), tensors=0, bytes=0, about={}))
    assert said.splitlines()[0] == "model.safetensors: 0 matrices in 0 tensors, 0 bytes to read."


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_and_hostile_names_do_nothing(width):
    planned = plan(3, hostile=True)
    left = tuple(Skipped(name, name, name) for name in HOSTILE)
    said = text(replace(planned, source=HOSTILE[2], skipped=left), width=width, whole=True)
    assert all(len(line) <= width for line in said.splitlines())
    assert not set("\x1b\x07\x00\u202e\u200b") & set(said)
