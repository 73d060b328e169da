"""Two checkpoints are compared by name, or on data with the model they belong to."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from sigmascope.models.networks import build
from tests.cli.networks import NET
from tests.runs_made import SITES, made


def test_weights_of_eight_bits_and_of_no_rows_are_compared(sigmascope):
    state = {"a": torch.arange(16.0).reshape(4, 4), "none": torch.zeros(0, 4)}
    torch.save({k: v.to(torch.float8_e4m3fn) for k, v in state.items()}, "eight.pt")
    code, out, err = sigmascope("compare", "eight.pt", "eight.pt", "--json", "-")
    assert code == 0, err
    assert "nan" not in out.lower()
    torch.save({"none": torch.zeros(0, 4)}, "none.pt")
    code, _, err = sigmascope("compare", "none.pt", "none.pt")
    assert code == 2
    assert "must hold a weight" in err


def checkpoints(scale=1.0):
    g = torch.Generator().manual_seed(0)
    net = build(NET, inputs=(64,), outputs=10, generator=g)
    torch.save(net.state_dict(), "a.pt")
    with torch.no_grad():
        first = next(m for m in net.modules() if isinstance(m, nn.Linear))
        first.weight *= scale
    torch.save(net.state_dict(), "b.pt")


def test_checkpoints_are_compared_without_a_model(sigmascope):
    checkpoints(2.0)
    code, out, err = sigmascope("compare", "a.pt", "b.pt")
    assert (code, err) == (0, "")
    assert "1 of " in out
    assert "hidden.0.linear.weight" in out
    form = json.loads(sigmascope("compare", "a.pt", "b.pt", "--json", "-")[1])
    moved = [c for c in form["changes"] if c["moved"]]
    assert [c["quantity"] for c in moved] == ["Frobenius norm"]
    assert moved[0]["after"]["value"] == pytest.approx(2 * moved[0]["before"]["value"], rel=1e-6)


def test_balances_between_checkpoints_are_judged(sigmascope):
    checkpoints(1.5)
    of = ("--model", NET, "--data", "digits", "--learning-rate", "0.01", "--loss-drop", "0.1")
    code, out, _ = sigmascope("compare", "a.pt", "b.pt", *of, "--strict")
    assert code == 1
    assert "balance-broken" in out
    checkpoints(1.0)
    code, out, _ = sigmascope("compare", "a.pt", "b.pt", *of, "--strict")
    assert code == 0
    assert "holds" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("a.pt", "none.pt"), "none.pt"),
        (("a.pt", "b.pt", "--learning-rate", "0.1"), "which need `--model`"),
        (("a.pt", "b.pt", "--momentum", "1"), "Must be < 1"),
        (("a.pt", "b.pt", "--model", "mlp?depth=3&width=8"), "does not fit the model"),
    ],
)
def test_refusals(sigmascope, words, says):
    checkpoints()
    code, out, err = sigmascope("compare", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert 0 < err.count("\n") <= 2  # the sentence, which names the help


def test_two_runs_are_compared(sigmascope):
    made(Path("a.run"), 90)
    made(Path("b.run"), 90, {"lr": "0.1"}, apart=50)
    code, out, err = sigmascope("compare", "a.run", "b.run")
    assert (code, err) == (0, "")
    assert "They part at step 5" in out
    assert "Until step 50 they are bit for bit the same; step 51 is not" in out
    assert sigmascope("compare", "a.run", "b.run", "--strict")[0] == 1
    assert sigmascope("compare", "a.run", "a.run", "--strict")[0] == 0
    form = json.loads(sigmascope("compare", "a.run", "b.run", "--json", "-")[1])
    assert form["schema"] == "sigmascope/parting/1"
    assert (form["same_until"], form["differs_at"]) == (50, 51)
    assert {p["site"] for p in form["parted"]} == {*SITES[3:]}
    assert form["settings"] == [{"name": "lr", "first": None, "second": "0.1"}]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("a.run", "a.pt"), "a.run is a run file and a.pt is none. Name another run"),
        (("a.pt", "a.run"), "a.run is a run file and a.pt is none"),
        (("a.run", "none.run"), "a.run is a run file and none.run is not there"),
        (("a.run", "a.run", "--model", "mlp"), "leave `--model`, the data and the learning rate"),
        (("a.run", "a.run", "--learning-rate", "1"), "leave `--model`"),
        (("a.run", "a.run", "--data", "digits"), "leave `--model`"),
    ],
)
def test_runs_go_with_runs_alone(sigmascope, words, says):
    made(Path("a.run"), 2)
    checkpoints()
    code, out, err = sigmascope("compare", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert 0 < err.count("\n") <= 2  # the sentence, which names the help
