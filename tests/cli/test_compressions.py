import json

import pytest
import torch


def test_it_says_what_can_be_saved_and_keeps_it(sigmascope):
    words = ("compress", "mlp?depth=2&width=64", "--data", "digits", "--tolerance", "0.3")
    code, out, err = sigmascope(*words, "--samples", "400", "--save", "thin.pt")
    assert code == 0
    assert "layers can be of lower rank" in out
    assert "nn.Sequential(nn.Linear(" in out
    assert "Wrote thin.pt" in err
    form = json.loads(sigmascope(*words, "--samples", "400", "--json", "-")[1])
    assert form["schema"] == "sigmascope/compression/1"
    kept = torch.load("thin.pt")
    site = form["layers"][0]["site"]
    assert kept[f"{site}.0.weight"].shape[0] == form["layers"][0]["rank"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("mlp", "--tolerance", "1.5"), "Must be < 1"),
        (("mlp", "--data", "digits", "--samples", "2"), "four samples or more"),
    ],
)
def test_refusals(sigmascope, words, says):
    code, out, err = sigmascope("compress", *words)
    assert (code, out) == (2, "")
    assert says in err
