import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.sources import Data, fitted, open_data


def test_no_samples_are_refused():
    with pytest.raises(Refusal, match="1 or more, got 0"):
        open_data("digits", samples=0)


def test_floating_inputs_follow_the_model():
    module = torch.nn.Linear(4, 2).double()
    data = fitted(open_data("gaussian?shape=4"), module)
    assert data.inputs.dtype == torch.float64
    assert data.name.endswith("as float64")
    ids = Data({"ids": torch.ones(2, 3).long(), "mask": torch.ones(2, 3)}, None, "x", None)
    assert [t.dtype for t in fitted(ids, module).inputs.values()] == [torch.int64, torch.float64]
    pair = Data((torch.ones(2, 3), torch.ones(2, 3).double()), None, "x", None)
    assert [t.dtype for t in fitted(pair, module).inputs] == [torch.float64] * 2
    assert fitted(data, module) is data
    assert fitted(data, torch.nn.ReLU()) is data
