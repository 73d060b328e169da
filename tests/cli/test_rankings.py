import json
from pathlib import Path

import pytest

SMALL = ("rank", "mlp?depth=1&width=8", "mlp?depth=40&width=8", "--data", "digits")


def test_it_answers_and_writes_the_same(sigmascope):
    code, out, err = sigmascope(*SMALL, "--samples", "32", "--json", "order.json")
    assert (code, err) == (0, "Wrote order.json\n")
    lines = out.splitlines()
    assert "How far training will come" in lines[0]
    assert lines[4].split()[:2] == ["1", "mlp?depth=1&width=8"]
    assert "No rate took it further than a constant output" in out
    kept = json.loads(Path("order.json").read_text(encoding="utf-8"))
    assert kept["schema"] == "sigmascope/ranking/1"
    assert [d["place"] for d in kept["designs"]] == [1, 2]
    assert kept["designs"][0]["forecast"]["value"] > kept["designs"][1]["forecast"]["value"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "got 0 names"),
        (("mine.py:build",), "two or more designs, each named once, got one alone"),
        (("mlp", "mlp"), "got 2 names of 1 designs"),
        (("mine.py:build", "mine.py:segment", "--data", "gaussian?shape=6"), "has no targets"),
        (("mlp", "mlp?depth=2", "--passes", "9"), "at least 54 passes"),
        (("mlp", "mlp?depth=2", "--json", "nowhere/a.json"), "mkdir -p nowhere"),
        (("mlp", "mlp?depth=-1"), "0 or more, got -1"),
    ],
)
def test_refusals(sigmascope, words, says):
    code, out, err = sigmascope("rank", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert 0 < err.count("\n") <= 2  # the sentence, which names the help
