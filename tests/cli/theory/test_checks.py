"""Theorems are listed, and checked by name."""

from sigmascope import theory
from tests.cli.forms import SMALL, strictly


def test_theorems_are_checked_layer_by_layer(sigmascope):
    code, out, err = sigmascope("check", *SMALL[1:])
    assert (code, err) == (0, "")
    assert "rank-participation: 4 holds" in out
    form = strictly(sigmascope("check", *SMALL[1:], "--json", "-")[1])
    assert form["schema"] == "sigmascope/checks/1"
    assert {c["theorem"] for c in form["checks"]} <= {t.name for t in theory.THEOREMS}
    only = ("--theorem", "soft-rank", "rank-participation", "--json", "-")
    some = strictly(sigmascope("check", *SMALL[1:], *only)[1])["checks"]
    assert {c["theorem"] for c in some} == {"soft-rank", "rank-participation"}


def test_every_theorem_is_listed_with_its_source(sigmascope):
    code, out, _ = sigmascope("theorems")
    assert code == 0
    out = " ".join(out.split())  # long sources go on in another line
    for theorem in theory.THEOREMS:
        assert theorem.name in out
        assert theorem.source in out
