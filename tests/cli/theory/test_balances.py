import json
from pathlib import Path

import torch

from tests.cli.networks import NET


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
