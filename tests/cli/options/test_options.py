"""The model and the data that the user names."""

import numpy as np
import pytest
import torch

from tests.cli.forms import SMALL, numbers, strictly


@pytest.mark.parametrize(
    "arguments",
    [SMALL, ("profile", "mine.py:build", "--data", "mine.py:loader")],
    ids=["built-in", "own code that draws and shuffles"],
)
def test_one_seed_gives_one_set_of_numbers(sigmascope, arguments):
    again = [sigmascope(*arguments, "--json", "-", "--seed", s)[1] for s in ("5", "5", "6")]
    assert numbers(again[0]) == numbers(again[1])
    assert numbers(again[0]) != numbers(again[2])


def test_a_checkpoint_replaces_the_weights(sigmascope):
    state = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)
    ).state_dict()
    state["0.weight"] = 2 * torch.eye(5, 6)
    torch.save({"model": state}, "mine.pt")
    own = ("profile", "mine.py:build", "--data", "mine.py:batch", "--views", "weights")
    readings = strictly(sigmascope(*own, "--checkpoint", "mine.pt", "--json", "-")[1])["readings"]
    (norm,) = [r for r in readings if (r["site"], r["quantity"]) == ("0.weight", "spectral norm")]
    assert norm["low"] <= 2.0 <= norm["high"]


def test_a_file_of_arrays_is_measured(sigmascope):
    x = np.random.default_rng(0).standard_normal((12, 6)).astype(np.float32)
    np.savez("my data.npz", x=x, y=np.arange(12) % 3)
    code, out, _ = sigmascope("profile", "mine.py:build", "--data", "my data.npz")
    assert code == 0
    assert "my data.npz, all 12 samples" in out
    assert "nothing left out" in out


@pytest.mark.parametrize(
    ("model", "data", "first"),
    [
        ("Two", "named", "Measured 2 of 2 layers"),  # every argument of forward, by its name
        ("Decoder", "images", "Measured 2 of 2 layers"),  # its last gradients cannot be split
        ("segment", "classes", "Measured 1 of 1 layers"),  # a class for every pixel
    ],
)
def test_models_of_many_kinds_are_measured(sigmascope, model, data, first):
    code, out, err = sigmascope("profile", f"mine.py:{model}", "--data", f"mine.py:{data}")
    assert (code, err) == (0, "")
    assert out.startswith(first)


def test_a_model_may_want_its_samples_second(sigmascope):
    arguments = ("profile", "mine.py:Recurrent", "--data", "mine.py:series", "--batch-dim", "1")
    code, out, _ = sigmascope(*arguments, "--samples", "6")
    assert code == 0
    assert out.startswith("Measured 2 of 2 layers (weights 9 of 9)")
    assert "[11, 6, 6]" in out
