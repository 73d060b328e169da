import json
import re

import pytest
import torch

from sigmascope import open_data, open_model

SMALL = ("remedy", "mlp?depth=8&width=16", "--samples", "32")
UNTRAINED = ("--budget", "0.01s")  # no copy has time to be trained


def test_all_are_tried_and_ranked(sigmascope):
    code, out, _ = sigmascope("remedy", "mlp?depth=3&width=6", "--samples", "16")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("Remedies, each applied to a copy")
    assert out.index("batch-norm") < out.index("Not applicable") < out.index("rescale-residual")


def test_the_new_profile_is_shown_beside_the_old_one(sigmascope, tmp_path):
    words = (*SMALL, *UNTRAINED, "--apply", "rank-pretraining", "--save", "fixed.pt")
    code, out, err = sigmascope(*words)
    assert code == 0
    assert "rank-collapse" in out
    assert "→" in out
    assert "Wrote fixed.pt; load it with `--checkpoint fixed.pt`." in err
    saved = torch.load(tmp_path / "my models" / "fixed.pt", weights_only=True)
    assert float(saved["hidden.3.linear.bias"].abs().max()) == 0
    code, out, _ = sigmascope("profile", *SMALL[1:], "--checkpoint", "fixed.pt")
    assert code == 0
    assert "rank-collapse at" not in out


SPECS = {
    "batch-norm": SMALL[1],
    "end-in-softmax": SMALL[1],  # whose weights fit the old code, which ends in no softmax
    "rescale-residual": "mlp?depth=6&width=24&residual=1",  # a strength is no weight
    "unit-scale+layer-norm": SMALL[1],
}


@pytest.mark.parametrize("name", SPECS)
def test_what_is_saved_says_how_to_load_it_and_so_it_is_loaded(
    name, sigmascope, tmp_path, monkeypatch
):
    words = ("remedy", SPECS[name], "--samples", "32", *UNTRAINED)
    err = sigmascope(*words, "--apply", name, "--save", "a.pt")[2]
    code = err.split("`")[1]
    data = open_data("digits", samples=32)
    model = open_model(SPECS[name], data=data).module
    names = {"model": model, "batch": data.inputs}
    monkeypatch.chdir(tmp_path / "my models")
    exec(code, names)  # as pasted
    saved = torch.load("a.pt")
    assert names["model"] is not model
    assert all(torch.equal(v, saved[k]) for k, v in names["model"].state_dict().items())


def test_json_has_both_sides(sigmascope):
    form = json.loads(sigmascope(*SMALL, "--apply", "best", "--json", "-")[1])
    (one,) = form["treatments"]
    assert form["schema"] == "sigmascope/treatments/1"
    assert "rank-collapse" in one["cured"]
    curves = [one[side]["curves"]["participation_ratio"] for side in ("before", "after")]
    assert curves[0][-1] < 1.1 < curves[1][-1]


def test_batch_normalisers_are_switched(sigmascope):
    words = ("remedy", "mlp?depth=3&width=16&norm=batch", "--samples", "32")
    out = sigmascope(*words, *UNTRAINED)[1]
    assert "The model's 3 batch normalisers, switched:" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--apply", "rank-pretrainng"), "Did you mean `rank-pretraining`"),
        (("--apply", "recentre-weights"), "Re-centring needs"),
        (("--save", "a.pt"), "`--save` needs `--apply NAME`"),
        (("--apply", "batch-norm", "--save", "no/a.pt"), "mkdir -p no"),
    ],
)
def test_refusals(sigmascope, words, says):
    code, out, err = sigmascope(*SMALL, *words)
    assert (code, out) == (2, "")
    assert says in err


def test_a_healthy_model_has_no_best(sigmascope):
    words = ("remedy", "mlp?depth=2&width=24", "--samples", "32", "--apply", "best")
    code, _, err = sigmascope(*words, *UNTRAINED)
    assert code == 2
    assert "Nothing was found" in err


def test_what_there_is_no_time_for_is_named(sigmascope):
    code, out, _ = sigmascope(*SMALL, *UNTRAINED)
    assert code == 0
    assert "Not tried, as the budget had no time left: " in out
    code, _, err = sigmascope(*SMALL, *UNTRAINED, "--apply", "best")
    if code == 0:  # the first of all applies
        assert re.search(r"The best of \d: for \d+ more the budget had no time", err)
    else:
        assert re.search(r"got none: \d do not, for \d+ there was no time", err)
