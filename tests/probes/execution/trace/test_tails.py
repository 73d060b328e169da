"""What follows the last weight can be run by itself, on anything."""

import pytest
import torch
from fingerprints import differences, fingerprint
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.probes.structure import tail
from tests.models_zoo import MODELS


def by_hand(z):
    e = (z - z.amax(-1, keepdim=True)).exp()
    e *= 2  # in place
    return e / e.sum(-1, keepdim=True)


class Made(nn.Module):
    def __init__(self, last, after):
        super().__init__()
        self.last, self.after = last, after

    def forward(self, x):
        return self.after(self.last(x))


ENDS = {
    "none": (lambda z: z, ""),
    "softmax": (lambda z: z.softmax(-1), "softmax"),
    "by hand": (by_hand, "div"),
    "in place": (lambda z: F.relu(z, inplace=True), "relu"),
    "scaled": (lambda z: 3 * z.tanh() + 1, "add"),
    "moved": (lambda z: z.reshape(-1, 3)[:, :2].sigmoid().unsqueeze(1), "sigmoid"),
    "log": (lambda z: z.log_softmax(-1), "log_softmax"),
}


@pytest.mark.parametrize("end", ENDS)
def test_it_gives_what_the_operations_give(end):
    after, closing = ENDS[end]
    g = torch.Generator().manual_seed(0)
    x, z = torch.randn(5, 4, generator=g), torch.randn(5, 3, generator=g)
    ending = tail(Made(nn.Linear(4, 3), after), x)
    assert ending.closing == closing
    assert torch.equal(ending(ending.start), ending.output)
    assert torch.allclose(ending(z), after(z.clone()))
    assert not torch.allclose(ending(z), ending.output)


def test_it_can_be_differentiated():
    ending = tail(nn.Sequential(nn.Linear(4, 3), nn.Sigmoid()), torch.ones(2, 4))
    z = torch.zeros(2, 3, requires_grad=True)
    ending(z).sum().backward()
    assert torch.allclose(z.grad, torch.full((2, 3), 0.25))


def test_recurrent_layers_have_a_bound():
    assert tail(Made(nn.LSTM(4, 3), lambda out: out[0]), torch.ones(2, 2, 4)).bound == 1.0
    assert tail(nn.Linear(4, 3), torch.ones(2, 4)).bound == float("inf")


def test_a_weight_in_another_form_is_the_last_one():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(7, 4))

        def forward(self, x):
            return F.linear(x.relu(), self.table.clone()).softmax(-1)

    assert tail(Tied(), torch.ones(2, 4)).names == ("softmax",)


def test_what_cannot_be_run_again_is_refused():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)
            self.register_buffer("calls", torch.ones(()))

        def forward(self, x):
            z = self.head(x)
            self.calls.add_(1)  # which is taken back behind the run
            return z * self.calls

    with pytest.raises(Refusal, match="run again"):
        tail(Counting(), torch.ones(2, 4))
    with pytest.raises(Refusal, match="seen to meet data"):
        tail(Made(nn.Linear(4, 3), lambda z: torch.ones(2, 1)), torch.ones(2, 4))


def test_what_remembers_other_numbers_is_refused():
    class Observing(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)
            self.register_buffer("most", torch.full((), 1e-3))

        def forward(self, x):
            z = self.head(x)
            self.most.copy_(torch.maximum(self.most, z.abs().max()))
            return z / self.most

    model = Observing()
    before = fingerprint(model=model)
    with pytest.raises(Refusal, match="keeps a state"):
        tail(model, torch.ones(2, 4))
    assert not differences(before, fingerprint(model=model))


@pytest.mark.parametrize("name", list(MODELS)[::4])
def test_models_are_left_as_found(name):
    model, batch = MODELS[name]()
    before = fingerprint(model=model)
    try:
        ending = tail(model, batch)
    except Refusal:
        pass
    else:
        assert ending(ending.start).shape == ending.output.shape
    assert not differences(before, fingerprint(model=model))


@pytest.mark.parametrize(("end", "copies"), [("softmax", 0), ("in place", 1)])
def test_what_the_last_weight_wrote_is_copied_only_where_it_was_written_into(end, copies):
    wrote = []
    model = Made(nn.Linear(4, 3), lambda z: ENDS[end][0](wrote.append(z) or z))
    nn.init.constant_(model.last.weight, -1.0)  # what is rectified is not all positive
    ending = tail(model, torch.ones(2, 4))
    held = {ending.start.data_ptr(), ending.output.data_ptr()}
    of_model = {wrote[0].data_ptr(), ending.output.data_ptr()}
    assert len(held - of_model) == copies
