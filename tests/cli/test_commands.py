"""The command line where all is well."""

import csv
import io
import json
import re
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from jsonschema import Draft202012Validator
from torch.nn import functional as F

from sigmascope import __version__, diagnosis, report, sources, theory

COMMANDS = ("profile", "check", "theorems", "export")
SMALL = ("profile", "mlp?depth=2&width=8", "--samples", "16")
COLLAPSING = ("profile", "mlp?depth=32&width=24", "--samples", "32", "--views", "representations")


def numbers(text):
    """Everything measured in a JSON profile but how long it took."""
    form = json.loads(text)
    return form["readings"], form["checks"], form["findings"], form["skipped"]


def strictly(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_first_line_is_the_coverage(sigmascope):
    code, out, err = sigmascope(*SMALL)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == ("Measured 3 of 3 layers (weights 3 of 3); nothing left out.")


def test_json_on_standard_output_is_alone_strict_and_valid(sigmascope):
    code, out, err = sigmascope(*SMALL, "--json", "-")
    assert (code, err) == (0, "")
    form = strictly(out)
    schema = report.SCHEMA
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(form)
    assert sigmascope(*SMALL, "--json=-")[1].splitlines()[:2] == out.splitlines()[:2]


def test_json_in_a_file_is_what_would_be_printed(sigmascope, tmp_path):
    code, out, err = sigmascope(*SMALL, "--json", "a b.json")
    assert (code, err) == (0, "Wrote a b.json\n")
    assert out.startswith("Measured")
    written = (tmp_path / "my models" / "a b.json").read_text()
    assert numbers(written) == numbers(sigmascope(*SMALL, "--json", "-")[1])


def test_a_page_is_written_and_nothing_beside_it(sigmascope, tmp_path):
    code, out, err = sigmascope(*SMALL, "--html", "a page.html", "--json", "-")
    assert (code, err) == (0, "Wrote a page.html\n")
    strictly(out)
    home = tmp_path / "my models"
    assert sorted(p.name for p in home.iterdir()) == ["a page.html", "mine.py"]
    assert (home / "a page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    "arguments",
    [SMALL, ("profile", "mine.py:build", "--data", "mine.py:loader")],
    ids=["built-in", "own code that draws and shuffles"],
)
def test_one_seed_gives_one_set_of_numbers(sigmascope, arguments):
    again = [sigmascope(*arguments, "--json", "-", "--seed", s)[1] for s in ("5", "5", "6")]
    assert numbers(again[0]) == numbers(again[1])
    assert numbers(again[0]) != numbers(again[2])


def test_the_python_route_gives_the_same_numbers(sigmascope):
    out = sigmascope("profile", "mlp?depth=3&width=8&norm=batch", "--samples", "16", "--json", "-")[
        1
    ]
    g = torch.Generator().manual_seed(0)
    model, data = sources.open_both("mlp?depth=3&width=8&norm=batch", samples=16, generator=g)
    measured = diagnosis.assess(
        model.module, data.inputs, targets=data.targets, loss=F.cross_entropy
    )
    form = report.json_form(measured, diagnosis.rules.diagnose(measured))
    assert numbers(out) == numbers(json.dumps(form))


def test_two_steps_go_into_one_run_file_and_out_again(sigmascope, tmp_path):
    for step in ("0", "7"):
        code, _, err = sigmascope(*SMALL, "--run", "my.run", "--step", step)
        assert (code, err) == (0, f"Appended step {step} to my.run\n")
    home = tmp_path / "my models"
    rows = {}
    for form in ("csv", "json", "parquet"):
        assert sigmascope("export", "my.run", "--to", form)[::2] == (
            0,
            f"Wrote my-readings.{form}\n",
        )
        path = home / f"my-readings.{form}"
        rows[form] = {
            "csv": lambda p: list(csv.DictReader(io.StringIO(p.read_text()))),
            "json": lambda p: strictly(p.read_text()),
            "parquet": lambda p: pq.read_table(p).to_pylist(),
        }[form](path)
    assert {row["step"] for row in rows["json"]} == {0, 7}
    assert rows["json"] == rows["parquet"]
    assert [float(r["value"]) for r in rows["csv"]] == [r["value"] for r in rows["json"]]
    readings = strictly(sigmascope(*SMALL, "--json", "-")[1])["readings"]
    assert [r["value"] for r in rows["json"] if r["step"] == 7] == [r["value"] for r in readings]


def test_any_table_is_exported_to_a_file_of_any_name(sigmascope, tmp_path):
    sigmascope(*SMALL, "--run", "my.run")
    out = ("--table", "layers", "--out", "the layers.json")
    assert sigmascope("export", "my.run", "--to", "json", *out)[0] == 0
    layers = strictly((tmp_path / "my models" / "the layers.json").read_text())
    assert [layer["kind"] for layer in layers] == ["Linear"] * 3


def test_strict_tells_the_collapsing_network_from_the_healthy_one(sigmascope):
    code, out, _ = sigmascope(*COLLAPSING, "--strict")
    assert code == 1
    assert re.search("ERROR +rank-collapse", out)
    assert sigmascope(*COLLAPSING)[0] == 0
    healthy = ("profile", "mlp?depth=32&width=24&norm=batch", *COLLAPSING[2:])
    code, out, _ = sigmascope(*healthy, "--strict")
    assert code == 0
    assert "No findings" in out


def test_theorems_are_checked_layer_by_layer(sigmascope):
    code, out, err = sigmascope("check", *SMALL[1:])
    assert (code, err) == (0, "")
    assert "rank-participation: 4 holds" in out
    form = strictly(sigmascope("check", *SMALL[1:], "--json", "-")[1])
    assert form["schema"] == "sigmascope/checks/1"
    assert {c["theorem"] for c in form["checks"]} <= {t.name for t in theory.THEOREMS}
    only = ("--theorem", "soft-rank", "rank-participation", "--json", "-")
    some = strictly(sigmascope("check", *SMALL[1:], *only)[1])["checks"]
    assert {c["theorem"] for c in some} == {"soft-rank", "rank-participation"}


def test_every_theorem_is_listed_with_its_source(sigmascope):
    code, out, _ = sigmascope("theorems")
    assert code == 0
    for theorem in theory.THEOREMS:
        assert theorem.name in out
        assert theorem.source in out


def test_some_views_are_measured_without_the_others(sigmascope):
    out = sigmascope(*SMALL, "--views", "weights", "gradients", "--json", "-")[1]
    assert {r["view"] for r in strictly(out)["readings"]} == {"weights", "gradients"}


def test_a_checkpoint_replaces_the_weights(sigmascope):
    state = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)
    ).state_dict()
    state["0.weight"] = 2 * torch.eye(5, 6)
    torch.save({"model": state}, "mine.pt")
    own = ("profile", "mine.py:build", "--data", "mine.py:batch", "--views", "weights")
    readings = strictly(sigmascope(*own, "--checkpoint", "mine.pt", "--json", "-")[1])["readings"]
    (norm,) = [r for r in readings if (r["site"], r["quantity"]) == ("0.weight", "spectral norm")]
    assert norm["low"] <= 2.0 <= norm["high"]


def test_a_file_of_arrays_is_measured(sigmascope):
    x = np.random.default_rng(0).standard_normal((12, 6)).astype(np.float32)
    np.savez("my data.npz", x=x, y=np.arange(12) % 3)
    code, out, _ = sigmascope("profile", "mine.py:build", "--data", "my data.npz")
    assert code == 0
    assert "my data.npz, all 12 samples" in out
    assert "nothing left out" in out


@pytest.mark.parametrize(
    ("model", "data", "first"),
    [
        ("Two", "named", "Measured 2 of 2 layers"),  # every argument of forward, by its name
        ("Decoder", "images", "Measured 2 of 2 layers"),  # its last gradients cannot be split
        ("segment", "classes", "Measured 1 of 1 layers"),  # a class for every pixel
    ],
)
def test_models_of_many_kinds_are_measured(sigmascope, model, data, first):
    code, out, err = sigmascope("profile", f"mine.py:{model}", "--data", f"mine.py:{data}")
    assert (code, err) == (0, "")
    assert out.startswith(first)


def test_a_model_may_want_its_samples_second(sigmascope):
    arguments = ("profile", "mine.py:Recurrent", "--data", "mine.py:series", "--batch-dim", "1")
    code, out, _ = sigmascope(*arguments, "--samples", "6")
    assert code == 0
    assert out.startswith("Measured 2 of 2 layers (weights 9 of 9)")
    assert "[11, 6, 6]" in out


def test_a_local_hugging_face_folder_is_measured(sigmascope):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=40, n_embd=8, n_layer=1, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    config.architectures = ["GPT2LMHeadModel"]
    config.save_pretrained("tiny gpt2")
    code, out, err = sigmascope("profile", "tiny gpt2", "--samples", "4", "--outputs", "2")
    assert (code, err) == (0, "")
    assert "GPT2LMHeadModel" in out
    assert "weights random" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_a_line_to_paste(sigmascope, command):
    code, out, _ = sigmascope(command, "--help")
    assert code == 0
    assert f"Example: sigmascope {command}" in out
    assert "--no-" not in out
    assert "--empty-" not in out


def test_help_names_every_command_and_the_version(sigmascope):
    code, out, _ = sigmascope("--help")
    assert code == 0
    assert all(command in out for command in COMMANDS)
    assert sigmascope("--version")[1].strip() == __version__


def test_help_does_not_wait_for_torch():
    words = (
        "import sys; from sigmascope import cli; sys.argv = ['sigmascope', 'profile', '--help']\n"
        "try: cli.main()\nfinally: print('torch' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-1] == "False"
