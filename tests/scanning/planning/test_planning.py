"""A plan is made from headers: no number of a tensor is read for it."""

import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sigmascope.checkpoints import Stored
from sigmascope.scanning import plan, scan
from sigmascope.scanning.planning import Settings, quantities_named, worked_out
from tests.scanning.checkpoints import SMALL, stored


def test_no_tensor_is_read_for_a_plan(monkeypatch, tmp_path):
    def read(self, *_):
        raise AssertionError(f"{self.name} was read")

    monkeypatch.setattr(Stored, "read", read)
    for heads in (False, True):
        assert plan(stored(tmp_path), heads=heads).matrices
        assert plan(stored(tmp_path), against=stored(tmp_path)).matrices


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what is read")
def test_the_bytes_that_a_plan_reads_are_those_of_headers(tmp_path):
    save_file(
        {f"layers.{i}.w": torch.zeros(1024, 1024) for i in range(16)}, tmp_path / "a.safetensors"
    )
    plan(str(tmp_path / "a.safetensors"))
    before = _read()
    plan(str(tmp_path / "a.safetensors"))
    assert _read() - before < 2**20 < (tmp_path / "a.safetensors").stat().st_size / 32


def _read():
    return int(Path("/proc/self/io").read_text().split()[1])


def test_what_a_plan_says_is_what_a_scan_does(tmp_path):
    planned, found = plan(stored(tmp_path)), scan(stored(tmp_path))
    assert planned.matrices == found.matrices
    assert planned.tensors == len(SMALL)
    assert planned.bytes == sum(t.nbytes for t in SMALL.values()) - SMALL["norm.bias"].nbytes
    assert 0 < planned.seconds < 60
    assert 2**28 < planned.memory < 2**30


def test_a_checkpoint_of_nothing_takes_no_time():
    empty = plan({})
    assert (empty.matrices, empty.seconds, empty.memory, empty.bytes) == ((), 0.0, 0, 0)
    assert scan({}).readings == ()


def test_kernels_of_every_dimension_are_planned_as_kernels():
    sizes = {"plain": (), "line": (3,), "image": (3, 3), "space": (3, 3, 3)}
    state = {f"{name}.weight": torch.randn(6, 4, *size) for name, size in sizes.items()}
    forms = {m.site: (m.form, m.rows, m.cols) for m in plan(state).matrices}
    assert forms == {
        "line.weight": ("kernel", 6, 12), "image.weight": ("kernel", 6, 36),
        "space.weight": ("kernel", 6, 108), "plain.weight": ("matrix", 6, 4),
    }  # fmt: skip


def test_seeds_do_not_depend_on_what_else_is_measured():
    wanted = quantities_named(None)
    seeds = lambda **asked: {
        t.matrix.site: t.seed for t in worked_out(SMALL, Settings(wanted=wanted, **asked)).tasks
    }
    some = seeds(only=("layers.1*",))
    assert some.items() <= seeds().items()
    assert len({*seeds().values()}) == len(seeds())
    assert not {*seeds(seed=1).values()} & {*seeds().values()}


def test_less_memory_takes_the_largest_values_only_and_then_leaves_out():
    large = {"a.weight": torch.empty(4000, 4000)}
    whole = plan(large)
    assert whole.matrices[0].effort == "full"
    less = plan(large, memory=whole.memory - 1)
    assert less.matrices[0].effort == "leading"
    assert less.memory < whole.memory
    assert not plan(large, memory=less.memory - 1).matrices
    just = plan(large, memory=less.memory)  # as much as is needed is enough
    assert just.matrices == less.matrices
    assert just.skipped == less.skipped


def test_a_large_checkpoint_is_planned_in_a_moment():
    with torch.device("meta"):
        state = {f"layers.{i}.w": torch.empty(8192, 8192) for i in range(2)}
    state = {n: torch.empty(1).expand(64, 64) for n in state} | {
        f"layers.{i}.mlp.experts.{e}.w1.weight": torch.empty(8, 8)
        for i in range(20) for e in range(100)
    }  # fmt: skip
    began = time.process_time()
    found = plan(state)
    assert len(found.matrices) == len(state)
    assert time.process_time() - began < 10
