"""What a model does not read is found in whatever it is handed, and nothing else is."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from sigmascope.models.structure.inputs import read_filling, unread_inputs
from tests.fingerprints import differences, fingerprint
from tests.models_zoo import Net


def of(function):
    """A model that is a function of its inputs and of one linear layer."""
    run = lambda m, *given, **named: function(m.layer, *given, **named)
    return Net(run, layer=nn.Linear(4, 3))


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def unread(model, batch, *, batch_dim=0, count=6):
    with torch.random.fork_rng():
        found = unread_inputs(model, batch, batch_dim=batch_dim, count=count)
    return {each.name: pytest.approx(each.share) for each in found}


X, Y = numbers(6, 4), numbers(6, 5)
MASK = (torch.arange(5) < torch.tensor([[5], [4], [3], [2], [1], [5]])).float()
IDS = torch.randint(0, 9, (6, 5), generator=torch.Generator().manual_seed(0))
CUT = torch.tensor([1, 1, 1, 0])
HALVES = lambda f, a, b: f(torch.cat([a[:, :2], b[:, :2]], 1))
ROW = lambda f, x, other: f(x)
LENGTHS = {"x": X, "other": torch.arange(6)}
STRIDE = nn.Sequential(nn.Conv2d(2, 3, 3, stride=2), nn.Flatten())
CASES = {  # model, batch, and what of it is not read
    "all of it": (of(lambda f, x: f(x)), X, {}),
    "the wrong half": (of(lambda f, x: f(x[:, :2].repeat(1, 2))), X, {"": 0.5}),
    "a layer whose column is zero": (of(lambda f, x: f(x * CUT)), X, {"": 0.25}),
    "a mask that is passed along": (of(ROW), (X, MASK), {"1": 1.0}),
    "a mask that is used": (of(lambda f, x, m: f(x) + m.sum(1, True)), (X, MASK), {}),
    "a mask that is the same for all": (of(ROW), (X, torch.ones(6, 5)), {}),
    "by names": (of(ROW), LENGTHS, {"other": 1.0}),
    "ids": (of(lambda f, x, ids: f(x) + ids.float().sum(1, True)), (X, IDS), {}),
    "ids that are not used": (of(ROW), (X, IDS), {"1": 1.0}),
    "both in part": (of(HALVES), (X, Y), {"0": 0.5, "1": 0.6}),
    "rounded": (of(lambda f, x: f(x.round())), 9 * X, {}),  # without a gradient, and read
    "nothing at all": (of(lambda f, x, m: f(torch.ones(6, 4))), (X, MASK), {"*": 1.0}),
    "two that are rounded away": (
        of(lambda f, a, b: f(1e-30 * a) + 1 + 1e-30 * b[:, :1]),
        (X, Y),
        {},
    ),
    "a sum that forgets it": (of(lambda f, x: f(1e-30 * x) + 1), X, {}),  # rounded, and read
    "at random": (of(lambda f, x, m: f(x) + torch.rand(())), (X, MASK), {}),
    "channels": (STRIDE, numbers(6, 2, 6, 6), {"": 11 / 36}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_read_is_found_and_nothing_else(name):
    model, batch, wanted = CASES[name]
    assert unread(model, batch) == wanted


def test_samples_may_lie_along_another_dimension():
    model = of(lambda f, x: f(x.transpose(0, 1)[:, 0]))
    assert unread(model, numbers(3, 6, 4), batch_dim=1) == {"": pytest.approx(2 / 3)}


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, 9)), st.sampled_from([nn.ReLU(), nn.Tanh(), nn.Identity()]))
def test_columns_that_are_left_out_are_counted_whatever_follows(left_out, follows):
    kept = torch.tensor([float(k not in left_out) for k in range(10)])
    layers = nn.Sequential(nn.Linear(10, 32), follows, nn.Linear(32, 2))
    found = unread(of(lambda f, x: layers(x * kept)), numbers(6, 10))
    share = len(left_out) / 10
    assert found == ({"*" if share == 1 else "": pytest.approx(share)} if share else {})


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2)).train()
    before = fingerprint(model=model)
    assert unread(model, X) == {}
    assert not differences(before, fingerprint(model=model))


class Words(nn.Module):
    """A mean over the words that a function of the mask keeps."""

    def __init__(self, keep):
        super().__init__()
        self.embed, self.layer, self.keep = nn.Embedding(10, 4), nn.Linear(4, 3), keep

    def forward(self, ids, mask):
        keep = self.keep(mask)[..., None]
        return self.layer((self.embed(ids) * keep).sum(1) / keep.sum(1).clamp_min(1))


FILLED = torch.where(MASK > 0, IDS.clamp_min(1), 0)


@pytest.mark.parametrize("as_held", [lambda m: m, lambda m: m.long(), lambda m: m.bool()])
def test_a_mask_the_other_way_round_hides_what_differs(as_held):
    keeps, hides = Words(lambda m: m.float()), Words(lambda m: 1 - m.float())
    mask = as_held(MASK)
    for model, held in ((keeps, mask), (hides, as_held(1 - MASK))):
        assert unread_inputs(model, (FILLED, held), batch_dim=0, count=6) == ()
    for model, held in ((hides, mask), (keeps, as_held(1 - MASK))):
        (found,) = unread_inputs(model, (FILLED, held), batch_dim=0, count=6)
        assert (found.name, found.by) == ("0", "1")
        assert found.share > 0.5


class Reader(nn.Module):
    """Reads ids, and says something of the last state, of that of its own last place, or of all."""

    def __init__(self, what, *, batch_first=True):
        super().__init__()
        self.what, self.embed = what, nn.Embedding(9, 4)
        self.rnn = nn.GRU(4, 5, batch_first=batch_first)

    def forward(self, ids):
        x = self.embed(ids)
        out, last = self.rnn(x if self.rnn.batch_first else x.transpose(0, 1))
        out = out if self.rnn.batch_first else out.transpose(0, 1)
        if self.what == "last":
            return last[0]
        own = ids != 0
        if self.what == "own":
            return out[torch.arange(len(ids)), own.sum(1) - 1]
        return (out * own[..., None]).sum(1) if self.what == "masked" else out.mean(1)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    ("what", "reads"), [("last", True), ("own", False), ("masked", False), ("mean", True)]
)
def test_what_fills_rows_is_read_or_not(what, reads, batch_first):
    g = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 9, (8, 12), generator=g)
    for k in range(8):
        ids[k, k + 5 :] = 0
    model = Reader(what, batch_first=batch_first)
    fills = sum(12 - k - 5 for k in range(7) if k < 6) / 96  # one place is equal to itself
    share = read_filling(model, ids, model.rnn)
    assert share == (pytest.approx(fills) if reads else 0)
    even = ids.clone()
    even[:, 6:] = 0
    even[:, :6] = torch.randint(1, 9, (8, 6), generator=g)
    assert read_filling(model, even, model.rnn) == 0  # rows of one length may be what they are
    assert read_filling(model, torch.randint(1, 9, (8, 12), generator=g), model.rnn) in (0, 0.0)
    assert model.training
