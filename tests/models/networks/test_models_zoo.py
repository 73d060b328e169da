"""The zoo itself: every model runs, silently, and is the same each time."""

import pytest
import torch
from models_zoo import MODELS, call
from torch import Tensor


def tensors(output):
    if isinstance(output, Tensor):
        return [output]
    values = output.values() if isinstance(output, dict) else output
    return [t for value in values if value is not None for t in tensors(value)]


def is_random(name):
    """Dropout in train mode, on purpose."""
    return name in {"dropout", "transformer-encoder-train"}


@pytest.mark.parametrize("name", MODELS)
def test_runs_and_is_the_same_each_time(name):
    before = torch.get_rng_state()
    (model, batch), (again, same) = MODELS[name](), MODELS[name]()
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        first, second = tensors(call(model, batch)), tensors(call(again, same))
    assert all(t.isfinite().all() for t in first if t.is_floating_point())
    if not is_random(name):
        pairs = zip(first, second, strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)


def test_is_as_large_as_promised():
    assert len(MODELS) >= 30
