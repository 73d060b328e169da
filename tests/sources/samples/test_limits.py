"""At a limit a thing is built or read; one beyond, it is refused before anything is."""

import json

import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.sources import Data, open_data, open_model

DEEPEST, DIGITS, WIDEST = 10000, 18, 100_000


def labelled(largest):
    return Data(torch.ones(2, 3), torch.tensor([0, largest]), "two", largest + 1)


def test_a_network_has_outputs_up_to_the_widest():
    model = open_model("mlp?depth=0", data=labelled(WIDEST - 1)).module
    assert model(torch.ones(2, 3)).shape == (2, WIDEST)
    with pytest.raises(Refusal, match=f"at most {WIDEST} outputs, got classes up to {WIDEST}"):
        open_model("mlp?depth=0", data=labelled(WIDEST))


def test_a_network_is_not_deeper_than_the_deepest():
    with pytest.raises(Refusal, match=f"more than the {DEEPEST} layers that are built here"):
        open_model(f"mlp?depth={DEEPEST + 1}&width=1", data=labelled(1))


def test_a_configuration_is_not_deeper_than_the_deepest(tmp_path):
    config = {"model_type": "no-such-model", "num_hidden_layers": DEEPEST + 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(Refusal, match=rf"{DEEPEST + 1} layers \(`num_hidden_layers`\)"):
        open_model(str(tmp_path))


def test_a_size_in_words_is_not_longer_than_its_digits():
    with pytest.raises(Refusal, match="GiB"):
        open_data(f"gaussian?shape={'9' * DIGITS}")
    with pytest.raises(Refusal, match="must read like 64 or 3x32x32"):
        open_data(f"gaussian?shape={'9' * (DIGITS + 1)}")
    for size in ("depth", "width"):
        with pytest.raises(Refusal, match="of no size that could be built"):
            open_model(f"mlp?{size}={'9' * (DIGITS + 1)}", data=labelled(1))
