"""Reading a trained network from the command line."""

import json
from pathlib import Path


def test_a_network_is_read(sigmascope):
    words = ("bottleneck", "mlp?depth=2&width=16", "--data", "digits")
    code, out, err = sigmascope(*words, "--picture", "c.svg")
    assert code == 0
    assert out.startswith("UNKNOWN  ")
    assert "passes on" in out
    assert "Wrote c.svg" in err
    assert Path("c.svg").read_text().count("<circle") == 128
    form = json.loads(sigmascope(*words, "--json", "-")[1])
    assert form["schema"] == "sigmascope/bottleneck/1"
