import json
from pathlib import Path

import pytest

from sigmascope.diagnosis.presentation import SCHEMA
from tests.diagnosis.scripts.loops import FAULTY, code as written

TRAIN = """
import torch
from torch import nn

def program():
    g = torch.Generator().manual_seed(0)
    classes = torch.randint(3, (192,), generator=g)
    centres = torch.rand(3, 12, generator=g) * 255
    inputs = 0.5 * centres[classes] + torch.rand(192, 12, generator=g) * 127
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(1))
    return {"model": model, "data": (inputs, classes), "loss": nn.CrossEntropyLoss(),
            "optimizer": "sgd", "lr": 1e-4, "batch_size": 32, "epochs": 4}

def untrained(): return {k: v for k, v in program().items() if k in ("model", "data")}
def raises(): raise FileNotFoundError("pixels.npy")
def nothing(): program()
def odd(): return {"model": program()["model"], "net": 3}
"""


@pytest.fixture
def diagnose(sigmascope):
    Path("train.py").write_text(TRAIN)
    return lambda *words: sigmascope("diagnose", *words)


def test_it_says_what_is_wrong_and_writes_it_as_page_and_json_again_and_again(diagnose):
    words = ("train.py:program", "--samples", "64", "--json", "a.json", "--html", "a.html")
    code, out, err = diagnose(*words)
    assert code == 0
    assert err.splitlines()[-2:] == ["Wrote a.json", "Wrote a.html"]  # behind what may take long
    assert out.startswith("Measured 2 of 2 layers")
    assert "training sgd at 0.0001, batches of 32, 4 epochs" in " ".join(out.split())
    assert "Probability at your settings" in out
    assert "causes: " in out
    assert "double-softmax" in out
    assert "unscaled-inputs" in out
    assert out.index("double-softmax") < out.index("\nTraining\n") < out.index("\nas planned  ")
    assert "Cures, each trained" not in out
    page = Path("a.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>\n<!-- a page of sigmascope -->")
    assert '"name":"double-softmax"' in page
    kept = json.loads(Path("a.json").read_text(encoding="utf-8"))
    assert diagnose(*words, "--strict")[0] == 1  # there is an error; what it wrote, it writes
    again = json.loads(Path("a.json").read_text(encoding="utf-8"))
    assert [again[k] for k in ("findings", "readings")] == [kept["findings"], kept["readings"]]
    Path("a.json").write_text("mine")
    assert diagnose(*words)[0] == 2
    assert Path("a.json").read_text() == "mine"


def test_cures_are_tried_on_request_and_written_out(diagnose):
    code, out, err = diagnose("train.py:program", "--samples", "64", "--cure", "--json", "a.json")
    assert (code, err.splitlines()[-1]) == (0, "Wrote a.json")
    assert "Cures, each trained on a copy as you train, the best first" in out
    kept = json.loads(Path("a.json").read_text(encoding="utf-8"))["cures"]
    assert kept["schema"] == "sigmascope/cures/1"
    best = kept["tried"][0]
    assert best["after"] >= max(c["after"] for c in kept["tried"]) - 0.03
    assert best["patch"]
    assert all(line in out for line in (best["diff"].splitlines() or best["patch"]))
    assert any(c["diff"].startswith("--- train.py\n") for c in kept["tried"])


def test_json_is_valid_and_alone_on_the_output_and_another_seed_gives_another(diagnose):
    validator = pytest.importorskip("jsonschema").Draft202012Validator(SCHEMA)

    def form(seed):
        words = ("train.py:program", "--samples", "64", "--json", "-", "--seed", seed)
        code, out, _ = diagnose(*words)
        assert code == 0
        return json.loads(out, parse_constant=lambda word: pytest.fail(word))

    one, other = form("3"), form("4")
    validator.validate(one)
    assert "double-softmax" in [f["name"] for f in one["findings"]]
    assert {"training", "setup"} <= {r["view"] for r in one["readings"]}
    assert "cures" not in one
    assert one["readings"] != other["readings"]


def test_without_an_optimizer_nothing_is_said_of_training(diagnose):
    code, out, _ = diagnose("train.py:untrained", "--samples", "64")
    assert code == 0
    assert "\nTraining\n" not in out
    assert "Probability at your settings" not in out
    assert "how the program trains could not speak" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("gone.py:program",), "There is no file `gone.py`"),
        (("train.py",), "`train.py` has `program`"),
        (("train.py:raises",), "`train.py:raises` raised FileNotFoundError: pixels.npy"),
        (("train.py:nothing",), "got None"),
        (("train.py:odd",), "`model` and `data` must be there; got model, net"),
        (("train.py:untrained", "--cure"), "name an optimizer"),
        (("train.py:program", "--html", "nowhere/a.html"), "mkdir -p nowhere"),
        (("train.py:program", "--samples", "0"), "--samples"),
    ],
)
def test_refusals(diagnose, words, says):
    code, out, err = diagnose(*words)
    assert (code, out) == (2, "")
    assert says in err
    assert 0 < err.count("\n") <= 2  # the sentence, which names the help


def test_what_there_is_no_time_for_is_said(diagnose):
    code, out, _ = diagnose("train.py:program", "--cure", "--budget", "0.001s")
    assert code == 0
    words = " ".join(out.split())
    assert "allow more, `--budget 1min`" in words
    assert "all cures" in words


@pytest.fixture
def script(sigmascope):
    Path("loop.py").write_text(written(*FAULTY["no-step"]))
    how = ("--steps", "8", "--seconds", "20")
    return lambda *words: sigmascope("diagnose", "loop.py", *how, *words)


def test_a_script_has_a_page_too(script):
    code, out, err = script("--html", "a.html", "--json", "a.json")
    assert (code, err.splitlines()[-2:]) == (0, ["Wrote a.json", "Wrote a.html"])
    page = Path("a.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>\n<!-- a page of sigmascope -->")
    for finding in json.loads(Path("a.json").read_text(encoding="utf-8"))["findings"]:
        assert finding["name"] in page
        assert finding["name"] in out


def test_what_could_not_be_written_is_refused_before_the_script_runs(script):
    Path("loop.py").write_text("open('ran', 'w')")
    Path("mine.html").write_text("mine")
    for words in (
        ("--html", "mine.html"),
        ("--html", "nowhere/a.html"),
        ("--html", "a.html", "--json", "a.html"),
        ("--html", "a.html", "--write", "a.html"),
        ("--html", "loop.py"),
    ):
        assert script(*words)[0] == 2
    assert not Path("ran").exists()
    assert Path("mine.html").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            ["train.py", "--loss", "mse", "--samples", "9"],
            "`--samples` and `--loss` belong to a program",
        ),
        (["train.py", "--budget", "9s"], "`--budget` belongs to a program"),
        (["train.py:program", "--steps", "9"], "`--steps` belongs to a script"),
        (
            ["train.py:program", "--scratch", "x", "--write", "y.py"],
            "`--scratch` and `--write` belong to a script",
        ),
    ],
)
def test_options_that_would_be_ignored_are_refused(sigmascope, words, named):
    code, _, err = sigmascope("diagnose", *words)
    assert code == 2
    assert named in err
