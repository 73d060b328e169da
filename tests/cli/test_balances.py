import json
from pathlib import Path

import pytest
import torch
from torch import nn

from sigmascope.networks import build

NET = "mlp?depth=2&width=8"


def test_it_lists_what_is_conserved_and_what_is_not(sigmascope):
    code, out, err = sigmascope("balances", NET, "--data", "digits", "--samples", "32")
    assert (code, err) == (0, "")
    assert out.startswith("Gradient flow conserves")
    assert "‖hidden.1.linear.weight[:, u]‖² - ‖hidden.0.linear.weight[u]‖²" in " ".join(out.split())
    assert "In no balance" in out
    assert "which no weight scales" in out


def test_its_json_has_every_number(sigmascope):
    form = json.loads(sigmascope("balances", NET, "--json", "-")[1])
    assert form["schema"] == "sigmascope/balances/1"
    kinds = {i["kind"] for i in form["invariants"]}
    assert kinds <= {"neuron", "pair", "column sum"}
    assert all(i["rate"] <= i["tolerance"] for i in form["invariants"])
    assert {f["tensor"] for f in form["fixed"]} >= {"hidden.0.linear.weight", "readout.weight"}


def test_it_draws_the_tree_of_a_tiny_network(sigmascope):
    mine = ("mine.py:build", "--data", "mine.py:batch")
    code, _, err = sigmascope("balances", *mine, "--tree", "t.svg")
    assert code == 0
    assert "Wrote t.svg" in err
    svg = Path("t.svg").read_text()
    assert svg.startswith("<svg")
    assert svg.count("<rect") + svg.count("<circle") == 1 + 5 + 5 * 6 + 5 + 1
    refused = sigmascope("balances", NET, "--data", "digits", "--tree", "u.svg")
    assert refused[:2] == (2, "")  # before anything is measured


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
    assert err.count("\n") == 1


def test_a_model_that_draws_leaves_nothing_drawn(sigmascope):
    Path("draws.py").write_text(
        "import torch\n"
        "from torch import nn\n\n"
        "class Draws(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.seen = nn.Linear(6, 3), 0\n"
        "    def forward(self, x):\n"
        "        torch.rand(())\n"
        "        self.seen += 1\n"
        "        return self.a(x)\n\n"
        "model = Draws()\n"
    )
    state = torch.get_rng_state()
    code, _, err = sigmascope(
        "balances", "draws.py:model", "--data", "mine.py:batch", "--tree", "t.svg"
    )
    assert (code, Path("t.svg").exists()) == (0, True), err
    assert torch.equal(torch.get_rng_state(), state)
