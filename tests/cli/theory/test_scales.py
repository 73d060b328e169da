import json

import pytest
import torch


def test_it_answers_and_the_answer_holds(sigmascope):
    code, out, err = sigmascope("scale", "40", "--condition", "3", "--probability", "0.9")
    assert (code, err) == (0, "")
    assert "below 3, whatever units are on" in out
    assert "with a chance of 0.9" in out
    assert "He's" in out
    form = json.loads(sigmascope("scale", "40", "--probability", "0.9", "--json", "-")[1])
    g = torch.Generator().manual_seed(0)
    worst = []
    for _ in range(100):
        W = form["std"] * torch.randn(40, 40, generator=g, dtype=torch.float64)
        on = (torch.rand(2, 40, generator=g) < 0.5).double()
        on[1, 0] = 1
        s = torch.linalg.svdvals((on[0][:, None] * W + torch.eye(40, dtype=W.dtype)) * on[1])
        worst.append(float(s[0] / s[: int(on[1].sum())].min()))
    assert sum(k > 3 for k in worst) <= 10
    assert max(worst) > 1.3


def test_a_sharper_law_allows_more(sigmascope):
    of = lambda *words: json.loads(sigmascope("scale", "200", *words, "--json", "-")[1])["std"]
    assert of() < of("--law", "tracy-widom")
    assert of("--condition", "2") < of() < of("--condition", "9")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("1",), "Must be >= 2"),
        (("8", "--condition", "1"), "`condition` must be above 1"),
        (("8", "--activation", "leaky", "--condition", "3"), "`condition` must be above 100"),
        (("8", "--probability", "1"), "0 < probability < 1"),
        (("8", "--json", "nowhere/a.json"), "mkdir -p nowhere"),
    ],
)
def test_refusals(sigmascope, words, says):
    code, out, err = sigmascope("scale", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert 0 < err.count("\n") <= 2  # the sentence, which names the help
