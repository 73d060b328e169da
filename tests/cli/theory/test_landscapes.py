import json

import pytest
import torch

from sigmascope.models import networks


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
        (["--layers", "readout"], "`--layers` needs `--curvature`"),
        (["--surface", "nowhere.pt"], "must be random, hessian or a checkpoint file"),
        (["--surface", "random", "--points", "1"], "`points` must be at least 3"),
        (["--surface", "random", "--squared"], "Losses depend on targets"),
        (["--html", "no/such/folder.html"], "does not exist"),
        (["--json", "no/such/folder.json"], "does not exist"),
    ],
)
def test_misuse_is_one_sentence(sigmascope, words, says):
    code, out, err = sigmascope("landscape", "mlp?depth=2&width=8", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err


def test_curvature_surface_regions_and_the_page(sigmascope, tmp_path):
    page = tmp_path / "out.html"
    code, out, err = sigmascope(
        "landscape", "mlp?depth=2&width=8", "--samples", "20", "--curvature", "hessian",
        "--surface", "hessian", "--points", "5", "--regions", "--html", str(page),
    )  # fmt: skip
    assert code == 0
    assert err.strip() == f"Wrote {page}"
    assert "Hessian of cross-entropy" in out
    assert "the directions of the largest and of the smallest curvature" in out
    assert "Regions of the input space" in out
    assert "mlp?depth=2&amp;width=8 · sigmascope landscape" in page.read_text()


def test_the_line_to_a_checkpoint_and_the_curvature_of_layers(sigmascope, tmp_path):
    other = networks.mlp(inputs=64, outputs=10, depth=2, width=8)
    torch.save(other.state_dict(), tmp_path / "other.pt")
    code, out, _ = sigmascope(
        "landscape", "mlp?depth=2&width=8", "--samples", "20", "--surface",
        str(tmp_path / "other.pt"), "--curvature", "gauss-newton", "--layers", "hidden.1.linear",
        "readout", "--points", "5", "--json", "-",
    )  # fmt: skip
    assert code == 0
    form = json.loads(out)
    assert [p["site"] for p in form["curvature"]["parts"]] == ["hidden.1.linear", "readout"]
    assert form["surface"]["along"] == ""
    assert len(form["surface"]["losses"][0]) == 11  # five on each side, and the middle
    assert form["regions"] is None
