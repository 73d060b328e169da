import pytest
import torch

from sigmascope.core import guard
from sigmascope.core.guard import Refusal
from sigmascope.models import networks
from sigmascope.sources import Data, Model, open_data, open_model


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Built-in networks


def test_a_built_in_network_takes_its_shape_from_the_data():
    data = open_data("digits", samples=16)
    model = open_model("mlp?depth=2&width=8", data=data, generator=generator())
    assert isinstance(model, Model)
    assert model.module(data.inputs).shape == (16, 10)
    assert (model.origin, model.weights) == ("built-in", "random")
    again = networks.build(
        "mlp?depth=2&width=8", inputs=(1, 8, 8), outputs=10, generator=generator()
    )
    assert torch.equal(model.module.readout.weight, again.readout.weight)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("mlpp?depth=3", "Did you mean `mlp`"),
        ("mlp?dept=3", "Did you mean `depth`"),
        ("mlp?width=0", "1 or more, got 0"),
        ("mlp?width=10000000000", "GiB or more for its weights.*make `depth` or `width` smaller"),
        ("mlq", "There is no model `mlq`.*Did you mean `mlp`"),
        ("bert-base-uncased", "nothing is fetched"),
        ("weights.safetensors", "holds weights, not a model"),
        ("", "There is no model ``"),
        ("lab.ipynb", "is a notebook, .* call `ss.profile"),
        ("lab.ipynb:build", "is a notebook, .* or write the function into a file"),
    ],
)
def test_a_network_that_is_not_there_is_refused(as_users_see_it, spec, says):
    with pytest.raises(Refusal, match=says):
        open_model(spec, data=open_data("digits", samples=4))


def test_a_built_in_network_needs_data_of_one_tensor():
    pair = Data((torch.ones(2, 3), torch.ones(2, 3)), None, "pair", None)
    for data in (None, pair):
        with pytest.raises(Refusal, match="takes the shape of its inputs from the data"):
            open_model("mlp", data=data)
    with pytest.raises(Refusal, match="For data that are not images use `mlp`"):
        open_model("resnet", data=open_data("gaussian?shape=64"))


@pytest.mark.parametrize(
    ("weights", "trained"),
    [
        ("random", False),
        ("random: the folder holds a config.json only", False),
        ("as the code made them", False),
        ("from weights.pt", True),
        ("from folder, except head, which are not in it and random", True),
    ],
)
def test_loaded_weights_are_told_from_those_that_were_made(weights, trained):
    assert Model(torch.nn.Identity(), "m", "python", weights).trained is trained


@pytest.mark.parametrize(
    ("depth", "width", "needed"),
    [(3, 100, 3 * 4 * 100**2), (2, 5, 2 * 10_000), (0, 100, 4 * 100**2)],
)
def test_a_network_is_weighed_before_it_is_built(depth, width, needed):
    spec, data = f"mlp?depth={depth}&width={width}", open_data("gaussian?shape=4", samples=2)
    with guard.memory(needed):
        open_model(spec, data=data)
    with guard.memory(needed - 1), pytest.raises(Refusal, match="for its weights"):
        open_model(spec, data=data)
