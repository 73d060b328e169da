"""Profiles by command: text, JSON and page, and the numbers of the Python route."""

import json
import re

import numpy as np
import pytest
import torch
from jsonschema import Draft202012Validator
from torch.nn import functional as F

from sigmascope import diagnosis, report, sources
from tests.cli.forms import SMALL, numbers, strictly
from tests.sampling import some

COLLAPSING = ("profile", "mlp?depth=32&width=24", "--samples", "32", "--views", "representations")


def test_the_first_line_is_the_coverage(sigmascope):
    code, out, err = sigmascope(*SMALL)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == ("Measured 3 of 3 layers (weights 3 of 3); nothing left out.")


def test_json_on_standard_output_is_alone_strict_and_valid(sigmascope):
    code, out, err = sigmascope(*SMALL, "--json", "-")
    assert (code, err) == (0, "")
    form = strictly(out)
    schema = diagnosis.presentation.SCHEMA
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(form)
    assert sigmascope(*SMALL, "--json=-")[1].splitlines()[:2] == out.splitlines()[:2]


@pytest.mark.parametrize("name", some(["a b.svg", "a.pdf", "a.png"]))
def test_a_figure_is_written_and_may_be_written_again(sigmascope, tmp_path, name):
    for _ in range(2):
        code, _, err = sigmascope(*SMALL, "--plot", name)
        assert (code, err) == (0, f"Wrote {name}\n")
    written = (tmp_path / "my models" / name).read_bytes()
    assert written.startswith((b"%PDF", b"<?xml", b"\x89PNG"))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jpg", None, r"must name a file that ends in .pdf, .svg, .png, got `a.jpg`"),
        (
            "mine.pdf",
            b"%PDF-1.7 of somebody\n%%EOF\n",
            "no file of this kind that sigmascope wrote",
        ),
        ("no/a.pdf", None, "does not exist"),
    ],
)
def test_where_no_figure_can_be_written_is_said_before_anything_is_measured(
    sigmascope, tmp_path, name, content, says
):
    place = tmp_path / "my models" / name
    if content is not None:
        place.write_bytes(content)
    code, out, err = sigmascope(*SMALL, "--plot", name)
    assert (code, out) == (2, "")
    assert re.search(says, err)
    assert content is None or place.read_bytes() == content


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


def test_the_probability_is_left_out_where_there_is_no_time_for_it(sigmascope):
    code, out, err = sigmascope(*SMALL, "--budget", "0.001s")
    assert (code, err) == (0, "")
    assert "Probability of fitting" not in out
    assert "allow more, `--budget 1min`" in " ".join(out.split())


def test_loaded_weights_are_probed_on_request(sigmascope):
    own = ("profile", "mine.py:build", "--data", "mine.py:batch", "--views", "setup")
    weights = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    torch.save(weights.state_dict(), "mine.pt")
    loaded = (*own, "--checkpoint", "mine.pt")
    probed = [
        "Probability of fitting" in sigmascope(*words)[1]
        for words in (own, loaded, (*loaded, "--fit"), (*own, "--no-fit"))
    ]
    assert probed == [True, False, True, False]
    assert "it was not asked for: `--fit`" in " ".join(sigmascope(*loaded)[1].split())


@pytest.mark.parametrize("words", ["0", "-1", "abc", "1e9min", ""])
@pytest.mark.parametrize("command", ["profile", "remedy", "rank", "diagnose"])
def test_bad_budgets_are_refused_before_anything_is_read(sigmascope, command, words):
    names = ("nowhere", "nothing") if command == "rank" else ("nowhere",)
    code, out, err = sigmascope(command, *names, f"--budget={words}")
    assert (code, out) == (2, "")
    assert f"must be above zero and read like `60s`, `2min` or `1h`, got `{words}`" in err


def test_the_python_route_gives_the_same_numbers(sigmascope):
    out = sigmascope("profile", "mlp?depth=3&width=8&norm=batch", "--samples", "16", "--json", "-")[
        1
    ]
    g = torch.Generator().manual_seed(0)
    model, data = sources.open_both("mlp?depth=3&width=8&norm=batch", samples=16, generator=g)
    measured = diagnosis.assess(
        model.module, data.inputs, targets=data.targets, loss=F.cross_entropy
    )
    form = report.json_form(measured, diagnosis.judge(measured))
    assert numbers(out) == numbers(json.dumps(form))


def test_strict_tells_the_collapsing_network_from_the_healthy_one(sigmascope):
    code, out, _ = sigmascope(*COLLAPSING, "--strict")
    assert code == 1
    assert re.search("ERROR +rank-collapse", out)
    assert sigmascope(*COLLAPSING)[0] == 0
    healthy = ("profile", "mlp?depth=32&width=24&norm=batch", *COLLAPSING[2:])
    code, out, _ = sigmascope(*healthy, "--strict")
    assert code == 0
    assert "No findings" in out


def test_some_views_are_measured_without_the_others(sigmascope):
    out = sigmascope(*SMALL, "--views", "weights", "gradients", "--json", "-")[1]
    assert {r["view"] for r in strictly(out)["readings"]} == {"weights", "gradients"}


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


@pytest.mark.parametrize("command", ["profile", "landscape", "remedy", "balances", "check"])
def test_a_loss_for_data_without_targets_is_refused(command, sigmascope, tmp_path):
    np.save(tmp_path / "my models" / "x.npy", np.ones((8, 6), "float32"))
    words = (command, "mlp?depth=1&width=4", "--data", "x.npy", "--loss", "mse")
    code, out, err = sigmascope(*words)
    assert (code, out) == (2, "")
    assert "targets" in err
    assert "leave" in err


def test_squared_error_and_another_loss_exclude_one_another(sigmascope):
    code, _, err = sigmascope("landscape", "mlp?depth=1", "--squared", "--loss", "mse")
    assert code == 2
    assert "`--squared` takes squared error, got `--loss mse` as well: leave one away." in err
