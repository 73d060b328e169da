import json

import pytest

SMALL = ("predict", "--width", "6", "--layers", "200", "--chains", "8")


def test_it_answers(sigmascope):
    code, out, err = sigmascope(*SMALL, "--depth", "900")
    assert (code, err) == (0, "")
    assert "Without normalisation: collapses." in out
    assert "of 6 directions survive at any depth" in out
    assert "chain-soft-rank: 1 vacuous" in out
    assert "chain-size-sharp: 1 holds" in out


def test_the_same_words_give_the_same_numbers(sigmascope):
    first, second = (json.loads(sigmascope(*SMALL, "--json", "-")[1]) for _ in range(2))
    assert first == second
    other = json.loads(sigmascope(*SMALL, "--seed", "1", "--json", "-")[1])
    assert other["participation_ratio"]["value"] != first["participation_ratio"]["value"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--width", "0"), "Must be >= 1"),
        (("--gamma", "-1"), "Must be > 0"),
        (("--gamma", "0.001"), "ask for that"),
        (("--weights", "gausian"), "gaussian"),
        (("--width", "1"), "`width` must be 2 or more"),
        (("--layers", "2", "--chains", "1", "--gamma", "0.5"), "`layers` must be 32 or more"),
        (("--json", "nowhere/a.json"), "mkdir -p nowhere"),
    ],
)
def test_refusals(sigmascope, words, says):
    code, out, err = sigmascope("predict", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert 0 < err.count("\n") <= 2  # the sentence, which names the help
