"""A remedy that does nothing says so, and so does one that is given no batch."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from sigmascope.diagnosis.remedies import (
    REMEDIES,
    BatchNormalisation,
    Inapplicable,
    RankPretraining,
    RecentreWeights,
    RescaleResidual,
    base,
    remedy,
)
from sigmascope.diagnosis.remedies.base import Around, in_python, put_in_python
from tests.diagnosis.remedies.networks import network


@pytest.mark.parametrize(
    ("remedy", "options", "words"),
    [
        (BatchNormalisation(), {"norm": "batch"}, "It is there already"),
        (RecentreWeights(), {}, "largest mean shift is 0"),
        (RescaleResidual(), {}, "needs residual branches"),
        (RankPretraining(), {"depth": 0}, "before the last"),
    ],
)
def test_each_says_when_it_does_nothing(digits, remedy, options, words):
    with pytest.raises(Inapplicable, match=words):
        remedy.apply(network(**options), digits.inputs)


@pytest.mark.parametrize(
    ("batches", "words"), [([], "gives none"), ([1, 2], "pairs \\(inputs, targets\\), got int")]
)
def test_useless_batches_are_refused(as_users_see_it, batches, words):
    with pytest.raises(ValueError, match=words):
        RankPretraining().apply(network(2), batches)


class Tied(nn.Module):
    """A language model whose last layer is its embedding, with a row for padding."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8, padding_idx=3)
        self.hidden = nn.Linear(8, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.hidden(self.words(ids)).relu().mean(1))


@pytest.mark.parametrize("kind", REMEDIES, ids=lambda kind: kind.name)
def test_no_remedy_lets_padding_speak(kind):
    torch.manual_seed(0)
    model, ids = Tied(), torch.arange(24).view(6, 4) % 11
    assert not model.words.weight[3].any()
    with torch.no_grad():
        model.hidden.weight.add_(9)  # so that re-centring has something to do
    try:
        new = kind().apply(model, ids)
    except (Inapplicable, TypeError):  # one asks for targets
        return
    assert not new.words.weight[3].any()
    assert new.head.weight is new.words.weight


def test_a_weight_in_common_is_found_under_its_other_name():
    model = Tied()
    assert base.sharing(model, model.head) == "words"
    assert base.sharing(model, model.words) == "head"
    assert base.sharing(model, model.hidden) == ""
    with torch.no_grad():
        model.head.weight.mul_(100)
    with pytest.raises(Inapplicable, match="its weight in common with words"):
        remedy("quiet-output").apply(model, torch.arange(24).view(6, 4) % 11)


class Plus(Around):
    def forward(self, x):
        return self.layer(x) + 1


@pytest.mark.parametrize("bias", [True, False])
def test_weights_are_those_of_the_layer_itself(bias):
    layer = nn.Linear(3, 2, bias=bias)
    around = Plus(layer)
    assert around.weight is layer.weight
    assert around.bias is layer.bias
    names = ["layer.weight", "layer.bias"] if bias else ["layer.weight"]
    assert list(around.state_dict()) == list(dict(around.named_parameters())) == names
    layer.weight = nn.Parameter(torch.ones(2, 3))
    assert around.weight is layer.weight


def test_a_layer_without_a_weight_lends_none():
    with pytest.raises(AttributeError, match="has no attribute"):
        _ = Plus(nn.ReLU()).weight
    assert Plus(nn.ReLU()).bias is None


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_calls_what_is_wrapped_in_evaluation_too(activation):
    """Its fast path reads the weights past the wrapper: trained and used were two functions."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2), torch.randn(4, 3, 8)
    better = remedy("layer-norm").apply(model, x)
    with torch.no_grad():
        torch.testing.assert_close(better.eval()(x), better.train()(x))


class Looks(nn.Module):
    """Reads sizes off its layers, as many models do."""

    def __init__(self):
        super().__init__()
        self.rnn, self.a, self.b = nn.LSTM(6, 9, 2), nn.Linear(9, 9), nn.Linear(9, 3)

    def forward(self, x):
        state = torch.zeros(self.rnn.num_layers, x.shape[1], self.rnn.hidden_size)
        self.rnn.flatten_parameters()
        out, _ = self.rnn(x, (state, state))
        h = self.a(out[-1]) * self.b.in_features / self.a.out_features
        assert self.rnn.bias is True
        assert self.a.bias.shape == (9,)
        return self.b(h.relu())


@pytest.mark.parametrize("name", ["standardise-inputs", "layer-norm", "batch-norm"])
def test_a_wrapped_layer_still_has_what_the_model_reads_off_it(name):
    x = 10 * torch.randn(5, 12, 6, generator=torch.Generator().manual_seed(0))
    new = remedy(name).apply(Looks(), x)
    assert new(x).shape == (12, 3)
    assert copy.deepcopy(new)(x).shape == (12, 3)
    assert len(pickle.dumps(new)) > 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = next(m for m in new.modules() if isinstance(m, Around)).nothing


X, Y = torch.ones(4, 2), torch.zeros(4)


@pytest.mark.parametrize(
    ("given", "batches"),
    [
        (X, [X]),
        ((X, Y), [(X, Y)]),
        ({"x": X}, [{"x": X}]),
        ([(X, Y), [X, Y], X], [X, X, X]),
        ([(X, X, Y)], [(X, X, Y)]),
        ([{"x": X}], [{"x": X}]),
        (((X, Y) for _ in range(20)), [X] * 8),
    ],
    ids=["a tensor", "a tuple", "a mapping", "pairs", "a triple", "mappings", "very many"],
)
def test_batches_are_taken_without_their_targets_and_no_more_than_eight(given, batches):
    found = base.taken(given)
    assert len(found) == len(batches)
    for mine, true in zip(found, batches, strict=True):
        assert type(mine) is type(true)
        assert mine is true or mine == true or len(mine) == len(true)


@pytest.mark.parametrize(
    ("place", "reached", "put"),
    [
        ("", "model", None),
        ("head", "model.head", "model.head = 1"),
        ("layers.3.act", "model.layers[3].act", "model.layers[3].act = 1"),
        ("my-head", "model.get_submodule('my-head')", "setattr(model, 'my-head', 1)"),
        ("a.class", "model.get_submodule('a.class')", "setattr(model.a, 'class', 1)"),
        ("a b.0", "model.get_submodule('a b.0')",
         "setattr(model.get_submodule('a b'), '0', 1)"),
    ],
)  # fmt: skip
def test_places_are_said_as_python_reaches_them(place, reached, put):
    assert in_python(place) == reached
    assert put is None or put_in_python(place, "1") == put


@given(st.lists(st.sampled_from(["head", "my-head", "class", "a b", "model"]), min_size=1))
def test_lines_that_are_said_do_what_they_say(parts):
    model = within = nn.Module()
    for part in parts:
        within.add_module(part, nn.Module())
        within = within.get_submodule(part)
    place = ".".join(parts)
    known = {"model": model, "nn": nn}
    assert eval(in_python(place), known) is model.get_submodule(place)
    exec(put_in_python(place, "nn.ReLU()"), known)
    assert isinstance(model.get_submodule(place), nn.ReLU)
