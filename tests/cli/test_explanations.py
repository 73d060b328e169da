"""`sigmascope explain`."""

import json


def test_a_name_is_explained(sigmascope):
    code, out, _ = sigmascope("explain", "dead-units")
    assert code == 0
    assert out.startswith("dead-units: finding")
    assert "cured by" in out


def test_without_a_name_all_are_listed(sigmascope):
    code, out, _ = sigmascope("explain")
    assert code == 0
    assert {"alarm of a watch", "quantity", "theorem"} <= set(out.splitlines())
    assert "  participation ratio" in out.splitlines()


def test_json_takes_the_place_of_the_text(sigmascope):
    code, out, _ = sigmascope("explain", "batch-norm", "--json", "-")
    assert code == 0
    (sense,) = json.loads(out)["senses"]
    assert "rank-collapse" in sense["for"]
