import json

import pytest


def test_a_built_in_network_on_digits(sigmascope):
    code, out, err = sigmascope("landscape", "mlp?depth=3&width=16", "--samples", "20")
    assert (code, err) == (0, "")
    assert "under cross-entropy, as it is" in out
    assert "hidden.2.linear" in out


def test_a_skip_an_activation_and_json(sigmascope):
    code, out, _ = sigmascope(
        "landscape", "mlp?depth=3&width=16", "--samples", "20", "--skip", "hidden.1", "--rho", "0",
        "1", "--activation", "leaky", "--double", "--squared", "--json", "-",
    )  # fmt: skip
    assert code == 0
    form = json.loads(out)
    assert form["loss"] == "squared error"
    assert [v["says"] for v in form["variants"]] == [
        "as it is", "with leaky", "skip 1 around hidden.1, leaky",
    ]  # fmt: skip
    assert form["variants"][0]["layers"][0]["floor"] > 1e6  # float64


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rho", "1"], "`--rho` needs `--skip`"),
        (["--skip", "hidden.7"], "got 'hidden.7'"),
        (["--json", "no/such/folder.json"], "does not exist"),
    ],
)
def test_misuse_is_one_sentence(sigmascope, words, says):
    code, out, err = sigmascope("landscape", "mlp?depth=2&width=8", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err
