import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.sources import open_both


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

    from sigmascope.sources import default_data

    model, _ = MODELS[name]()
    data = default_data(model, samples=4)
    assert "random tokens" in data.name or "gaussian" in data.name
    call(model, data.inputs)
    again = default_data(model, samples=4)
    assert all(torch.equal(a, b) for a, b in zip(tensors(data), tensors(again), strict=True))


def tensors(data):
    return data.inputs.values() if isinstance(data.inputs, dict) else [data.inputs]
