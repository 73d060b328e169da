from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.sources import default_data, open_both
from sigmascope.sources.pairs import input_shape


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("narrow", None, "begins with Linear.*`--data gaussian`"),
        ("colour", None, "begins with Conv2d.*`--data cifar10`"),
        ("colour", "gaussian", "needs the shape"),
        ("nothing", None, "ReLU has no parameters.*--data FILE"),
        ("linear", "digit", "Did you mean `digits`"),
    ],
)
def test_a_model_whose_inputs_cannot_be_told_is_refused(mine, name, data, says):
    with pytest.raises(Refusal, match=says):
        open_both(mine(name), data=data)


@pytest.mark.parametrize(
    "name", ["transformers-bert", "transformers-gpt2", "transformers-vit", "transformers-t5",
             "transformers-llama", "language-model-tied"],
)  # fmt: skip
def test_language_and_vision_models_are_given_what_they_take(name):
    pytest.importorskip("transformers")
    from models_zoo import MODELS, call

    model, _ = MODELS[name]()
    data = default_data(model, samples=4)
    assert "random tokens" in data.name or "gaussian" in data.name
    call(model, data.inputs)
    again = default_data(model, samples=4)
    assert all(torch.equal(a, b) for a, b in zip(tensors(data), tensors(again), strict=True))


def tensors(data):
    return data.inputs.values() if isinstance(data.inputs, dict) else [data.inputs]


class Configured(nn.Module):
    def __init__(self, **config):
        super().__init__()
        self.config = SimpleNamespace(**config)
        self.layer = nn.Linear(3, 2)


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        ({"num_channels": 3, "image_size": 5}, (3, 5, 5)),
        ({"num_channels": 1, "image_size": [4, 6]}, (1, 4, 6)),
        ({"num_channels": 1, "image_size": (4, 6)}, (1, 4, 6)),
        ({"num_channels": 1, "image_size": (4, 6, 8)}, (3,)),
        ({"num_channels": 1, "image_size": "big"}, (3,)),
        ({"num_channels": 1}, (3,)),
        ({"image_size": 5}, (3,)),
        ({"num_channels": 3, "image_size": 5, "vocab_size": 9}, (3,)),
    ],
)
def test_the_shape_of_images_is_that_of_the_configuration(config, shape):
    assert input_shape(Configured(**config)) == shape
    if len(shape) == 3:
        found = default_data(Configured(**config), samples=2)
        assert found.inputs["pixel_values"].shape == (2, *shape)


@pytest.mark.parametrize(
    ("first", "shape"),
    [
        (nn.Linear(7, 2), (7,)),
        (nn.BatchNorm1d(6), (6,)),
        (nn.LayerNorm([2, 5]), (2, 5)),
        (nn.Conv2d(3, 2, 1), None),
        (nn.ReLU(), None),
    ],
)
def test_the_shape_of_a_sample_is_told_by_the_first_layer(first, shape):
    assert input_shape(nn.Sequential(nn.Identity(), first)) == shape


@pytest.mark.parametrize(
    ("config", "length", "names"),
    [
        ({"vocab_size": 9}, 32, {"input_ids"}),
        ({"vocab_size": 9, "max_position_embeddings": 5}, 5, {"input_ids"}),
        ({"vocab_size": 9, "max_position_embeddings": 50}, 32, {"input_ids"}),
        ({"vocab_size": 9, "is_encoder_decoder": True}, 32, {"input_ids", "decoder_input_ids"}),
    ],
)
def test_random_tokens_fit_the_configuration(config, length, names):
    found = default_data(Configured(**config), samples=3)
    assert set(found.inputs) == names
    for ids in found.inputs.values():
        assert ids.shape == (3, length)
        assert 0 <= int(ids.min()) <= int(ids.max()) < 9
    assert f"3 sequences of {length} from 9 words" in found.name


@pytest.mark.parametrize(
    ("others", "length"), [([], 32), ([5], 5), ([50], 32), ([2], 32), ([3], 3), ([2, 7], 7)]
)
def test_random_tokens_are_no_longer_than_there_are_places(others, length):
    model = nn.Sequential(nn.Embedding(9, 4), *(nn.Embedding(size, 4) for size in others))
    assert default_data(model, samples=3).inputs.shape == (3, length)


@pytest.mark.parametrize(
    ("first", "shape"),
    [
        (nn.Linear(64, 2), (6, 64)),
        (nn.Conv2d(1, 2, 3), (6, 1, 8, 8)),
        (nn.LayerNorm(64), (6, 64)),
        (nn.BatchNorm1d(64), (6, 64)),
    ],
)
def test_digits_are_flat_but_for_convolutions(first, shape):
    assert default_data(nn.Sequential(first), samples=6).inputs.shape == shape
