"""`sigmascope scan`: what it prints and writes, and what it refuses before it measures."""

import contextlib
import json
import os
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sigmascope.integrations.processes import WorkerProcesses

NASTY = "w\x1b[31m\nFAKE.weight"


def state(seed=0):
    draw = torch.Generator().manual_seed(seed)
    names = [*(f"layers.{i}.mlp.up_proj.weight" for i in range(3)), NASTY]
    return {name: torch.randn(20, 12, generator=draw) for name in names} | {"b": torch.ones(3)}


@pytest.fixture
def scanned(sigmascope):
    """A command line where there are two checkpoints, `a.safetensors` and `b.safetensors`."""
    save_file(state(), "a.safetensors")
    save_file({k: v + 0.01 for k, v in state().items()}, "b.safetensors")
    return lambda *words: sigmascope("scan", *words)


def test_a_checkpoint_is_measured_and_written_in_every_form(scanned):
    code, out, err = scanned(
        "a.safetensors", "--html", "a.html", "--json", "a.json", "--lines", "a.jsonl", "--run",
        "a.run", "--whole",
    )  # fmt: skip
    assert code == 0
    assert "4 matrices" in out
    assert "\x1b" not in out + err
    assert not any(line.startswith("FAKE") for line in (out + err).splitlines())
    for name in ("a.html", "a.json", "a.jsonl"):
        assert f"Wrote {name}" in err
    form = json.loads(Path("a.json").read_text())
    assert form["schema"].startswith("sigmascope/scan/")
    lines = [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]
    assert {line["site"] for line in lines} == {*state()} - {"b"}


def test_a_scan_that_is_gone_on_with_writes_every_line_again(scanned):
    assert scanned("a.safetensors", "--run", "a.run")[0] == 0
    code, out, _ = scanned("a.safetensors", "--run", "a.run", "--lines", "-")
    assert code == 0
    assert len([json.loads(line) for line in out.splitlines()]) == 4


def test_a_plan_can_be_read_by_a_program_and_says_what_is_left_out(scanned):
    code, out, _ = scanned("a.safetensors", "--plan", "--json", "-")
    form = json.loads(out)
    assert code == 0
    assert len(form["matrices"]) == 4
    assert form["skipped"][0]["site"] == "b"
    code, out, _ = scanned("a.safetensors", "--plan")
    assert (code, "a vector" in out) == (0, True)


def test_findings_end_with_one_only_where_it_is_asked_for(scanned):
    save_file({"a.weight": torch.full((9, 9), float("nan"))}, "nan.safetensors")
    code, out, _ = scanned("nan.safetensors")
    assert (code, "ERROR" in out) == (0, True)
    assert scanned("nan.safetensors", "--strict")[0] == 1
    assert scanned("nan.safetensors", "--strict", "--lines", "-")[0] == 1
    assert scanned("nan.safetensors", "a.safetensors", "--strict")[0] == 1


def test_a_scan_that_saw_no_matrix_is_not_fine_where_strictness_is_asked_for(scanned):
    save_file({"a.bias": torch.ones(9)}, "vector.safetensors")
    assert [scanned("vector.safetensors", *more)[0] for more in ((), ("--strict",))] == [0, 1]


def test_two_versions(scanned):
    code, out, _ = scanned("a.safetensors", "--against", "b.safetensors", "--json", "-")
    names = {r["quantity"] for r in json.loads(out)["readings"]}
    assert code == 0
    assert "relative change" in names


def test_several_checkpoints_are_scanned_in_turn(scanned):
    code, out, err = scanned("a.safetensors", "b.safetensors")
    assert code == 0
    assert out.index("a.safetensors: 4 matrices") < out.index("b.safetensors: 4 matrices")
    assert scanned("a.safetensors", "b.safetensors", "--plan")[0] == 0
    code, out, err = scanned("a.safetensors", "none.safetensors")
    assert (code, out) == (2, "")  # before the first is measured
    for option in ("--run", "--html", "--json", "--lines"):
        code, out, err = scanned("a.safetensors", "b.safetensors", option, "x")
        assert (code, out) == (2, "")
        assert f"`{option}` belongs to one checkpoint" in err
    code, _, err = scanned("a.safetensors", "b.safetensors", "--against", "a.safetensors")
    assert (code, "`--against` belongs to one" in err) == (2, True)


BAD = [
    ((), "Name a checkpoint"),
    (("none.safetensors",), "no checkpoint `none.safetensors`"),
    (("empty.safetensors",), "is empty"),
    (("folder",), "must hold a checkpoint"),
    (("leads out",), "leads out of it"),
    (("a.safetensors", "--only", "nothing*"), "is the name of none of its 5"),
    (("a.safetensors", "--quantities", "spike"), "must be one of"),
    (("a.safetensors", "--quantities", "relative change"), "give its other version"),
    (("a.safetensors", "--exact", "--leading"), "ask for opposites"),
    (("a.safetensors", "--rules", "none.toml"), "There is no file"),
    (("a.safetensors", "--rules", "notes.txt"), "cannot be read"),
    (("a.safetensors", "--workers", "0"), "Must be >= 1"),
    (("a.safetensors", "--workers", "5000"), "Must be <= 1024"),
    (("a.safetensors", "--workers", "1000", "--memory", "1GB"), "workers of"),
    (("a.safetensors", "--memory", "much"), "must read like `8GB`"),
    (("a.safetensors", "--against", "none.pt"), "no checkpoint `none.pt`"),
    (("a.safetensors", "--html", "a.safetensors"), "is read by this command"),
    (("a.safetensors", "--json", "a.safetensors"), "is read by this command"),
    (("a.safetensors", "--run", "a.safetensors"), "is read by this command"),
    (("a.safetensors", "--lines", "a.safetensors"), "is read by this command"),
    (("a.safetensors", "--against", "b.safetensors", "--run", "b.safetensors"), "is read by this"),
    (("model", "--run", "model/model.safetensors"), "run file"),
    (("model", "--json", "model/model.safetensors"), "model.safetensors"),
    (("a.safetensors", "--json", "x", "--run", "x"), "is `--json` too"),
    (("a.safetensors", "--lines", "notes.txt"), "notes.txt"),
    (("a.safetensors", "--run", "notes.txt"), "run file"),
    (("a.safetensors", "--lines", "-", "--json", "-"), "both want the output"),
    (("a.safetensors", "--plan", "--run", "x"), "measures nothing"),
    (("s3://bucket/x", "--plan"), "s3"),
    (("http://127.0.0.1:9/x.safetensors",), "cannot be read"),
    (("a.safetensors", "--seed", "x"), "seed"),
]


@pytest.mark.parametrize(
    ("words", "says"), BAD, ids=lambda w: " ".join(w) if isinstance(w, tuple) else ""
)
def test_refusals(scanned, words, says, tmp_path):
    Path("empty.safetensors").touch()
    Path("notes.txt").write_text("mine")
    for name in ("folder", "leads out", "model"):
        Path(name).mkdir()
    save_file(state(), "model/model.safetensors")
    escape = {"weight_map": {"a.weight": "../../etc/passwd"}}
    Path("leads out/model.safetensors.index.json").write_text(json.dumps(escape))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    began = time.monotonic()
    code, out, err = scanned(*words)
    assert (code, out) == (2, "")
    assert says in err
    assert "fault of sigmascope" not in err
    assert len(err.strip().splitlines()) <= 2  # the sentence, which names the help
    assert time.monotonic() - began < 15
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_too_little_memory_is_said_of_each_matrix(scanned):
    code, out, _ = scanned("a.safetensors", "--memory", "1MB")
    assert code == 0
    assert "0 matrices" in out
    assert "more than the 1" in out


def test_a_file_that_may_not_be_read(scanned):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    Path("a.safetensors").chmod(0)
    code, out, err = scanned("a.safetensors")
    assert (code, out) == (2, "")
    assert "ermission" in err


def test_rules_of_ones_own(scanned):
    Path("mine.toml").write_text("[[rule]]\nname = 'up_proj'\nleft_out = 'not mine'\n")
    code, out, _ = scanned("a.safetensors", "--rules", "mine.toml", "--json", "-")
    form = json.loads(out)
    assert code == 0
    assert [m["site"] for m in form["plan"]["matrices"]] == [NASTY]


def test_work_is_shared_among_processes_with_the_same_numbers(scanned, monkeypatch):
    """Real ones: tests/scanning/test_running.py."""
    shared = []

    def backwards(self, run, many):
        shared.append(self.workers)
        return map(run, reversed([*many]))

    monkeypatch.setattr(WorkerProcesses, "hired", lambda self, _: contextlib.nullcontext(self))
    monkeypatch.setattr(WorkerProcesses, "__call__", backwards)
    monkeypatch.setattr("sigmascope.cli.options._cores", lambda: 2)
    forms = []
    for workers in ("1", "2"):
        out = scanned("a.safetensors", "--workers", workers, "--json", "-")[1]
        forms.append(json.loads(out)["readings"])
    assert forms[0] == forms[1]
    assert {*shared} == {2}
