import re

import pytest
import torch
from torch import nn

from sigmascope import survey
from sigmascope.core.guard import Refusal
from sigmascope.models.layers import (
    called,
    explaining,
    in_words,
    plain,
    require_finite_batch,
    require_real,
)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_one_value_that_is_not_finite_is_enough_to_refuse_a_batch(bad):
    x = torch.ones(3, 4)
    x[1, 2] = bad
    with pytest.raises(
        Refusal, match=r"`batch` must be finite, got a value that is not at \(1, 2\)"
    ):
        require_finite_batch(nn.Linear(4, 2), x)
    require_finite_batch(nn.Linear(3, 2), torch.ones(2, 3))


class Filled(nn.Linear):
    def forward(self, x):
        return super().forward(x.nan_to_num(0, 0, 0))


class Masked(nn.Linear):
    def forward(self, x, mask):
        return super().forward(x) + (0 * mask).nan_to_num(0)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_a_model_is_made_for_is_taken(bad):
    x = torch.ones(3, 4)
    x[1, 2] = bad
    require_finite_batch(Filled(4, 2), x)
    mask = torch.full((3, 1), bad)
    require_finite_batch(Masked(4, 2), (torch.ones(3, 4), mask))
    with pytest.raises(Refusal, match="finite"):
        require_finite_batch(Masked(4, 2), (x, mask))


def test_an_exception_is_told_with_the_line_where_we_met_it(as_users_see_it):
    with pytest.raises(AttributeError) as caught:
        plain("not a tensor")
    says = r"it failed with AttributeError: 'str' .* \(at models/layers\.py:\d+\)"
    assert re.fullmatch(says, in_words(caught.value))
    assert in_words(Refusal("Give more.")) == "Give more."
    assert in_words(RuntimeError()) == "it failed with RuntimeError, without words"
    assert in_words(RuntimeError("two\n  lines")) == "it failed with RuntimeError: two lines"


def test_the_numbers_of_a_tensor_in_a_form_that_can_be_computed_with(as_users_see_it):
    eight = torch.tensor([0.5, 2.0]).to(torch.float8_e4m3fn)
    assert (plain(eight).dtype, plain(eight).tolist()) == (torch.float32, [0.5, 2.0])
    assert plain(torch.eye(2).to_sparse()).tolist() == [[1, 0], [0, 1]]
    half = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    assert (plain(half).dtype, plain(half).requires_grad) == (torch.bfloat16, False)


def test_weights_are_asked_to_be_real_and_dense(as_users_see_it):
    require_real({"a": torch.ones(2)}, "It")
    with pytest.raises(Refusal, match=r"^It needs real, dense weights, got `b`, which is complex"):
        require_real({"a": torch.ones(2), "b": torch.ones(2) * 1j}, "It")
    with pytest.raises(Refusal, match=r"got `c`, which is of layout torch.sparse_coo"):
        require_real({"c": torch.eye(2).to_sparse()}, "It")


def failing(error):
    with explaining():
        raise error


def test_what_autograd_says_becomes_a_refusal_and_nothing_else_does(as_users_see_it):
    with pytest.raises(Refusal, match="must stay as it was, got one that was changed in place"):
        failing(RuntimeError("one of the variables has been modified by an inplace operation"))
    with pytest.raises(Refusal, match=r"differentiable, got RuntimeError: no such thing\. E"):
        failing(RuntimeError("no such\n thing."))
    with pytest.raises(Refusal, match=r"^mine$"):
        failing(Refusal("mine"))
    with pytest.raises(Refusal, match="got KeyError: 'a'"):
        failing(KeyError("a"))  # of a model that runs again on the way back
    with pytest.raises(AttributeError), explaining():  # raised by a line of ours
        plain("not a tensor")


class Fails(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.layer, self.error = nn.Linear(3, 2), error

    def forward(self, x, y=None):
        raise self.error


def test_what_a_model_raises_is_shown_with_its_batch():
    says = (
        r"must run on the batch \(float32\[4, 3\], int64\[2\]\), got KeyError: 'page 2'\. "
        r"Its first layer is `layer`, Linear\(in_features=3, .*\)\. Pass a batch of the shape"
    )
    with pytest.raises(Refusal, match=says):
        called(Fails(KeyError("page 2")), (torch.ones(4, 3), torch.ones(2).long()))
    images = nn.Sequential(nn.Conv2d(3, 2, 3))
    with pytest.raises(Refusal, match=r"Channels come second: pass `x\.movedim\(-1, 1\)`\.$"):
        called(images, torch.ones(4, 8, 8, 3))
    with pytest.raises(Refusal, match="Pass a batch of the shape that forward expects"):
        called(images, torch.ones(4, 1, 8, 8))
    with pytest.raises(
        Refusal, match=r"one row of numbers for each sample.*nn\.Flatten.*pass `x\.flatten\(1\)`"
    ):
        called(nn.Sequential(nn.Linear(64, 2)), torch.ones(4, 1, 8, 8))
    with pytest.raises(Refusal, match=r"as floats \(\.float\(\)\)\.$"):
        called(nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), torch.ones(4, 8, 8).byte())
    with pytest.raises(Refusal, match="without targets, which go by `targets=`"):
        called(images, (torch.ones(4, 3, 8, 8), torch.ones(4)))
    with pytest.raises(Refusal, match=r"are those that forward takes: x, y\.$"):
        called(Fails(ValueError()), {"pixels": torch.ones(4, 3)})
    with pytest.raises(Refusal, match="got SystemExit: 3"):
        called(Fails(SystemExit(3)), torch.ones(4, 3))
    with pytest.raises(Refusal, match=r"^mine$"):
        called(Fails(Refusal("mine")), torch.ones(4, 3))
    with pytest.raises(KeyboardInterrupt):
        called(Fails(KeyboardInterrupt()), torch.ones(4, 3))


def test_numbers_beyond_an_embedding_are_told_with_its_size():
    net = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(12, 2))
    with pytest.raises(Refusal, match=r"go from 3 to 50, and the smallest embedding takes 0 to 49"):
        survey.profile(net, torch.tensor([[3, 4, 50], [5, 6, 7]]))


def test_packed_sequences_have_no_dimension_of_samples():
    packed = nn.utils.rnn.pack_sequence([torch.ones(3, 4), torch.ones(2, 4)])
    for batch in (packed, (packed,), {"input": packed}):
        with pytest.raises(Refusal, match=r"got a PackedSequence.* pack them inside of forward"):
            survey.profile(nn.GRU(4, 5), batch)


@pytest.mark.filterwarnings("ignore::Warning")
def test_layers_that_were_quantised_are_told_from_none():
    floats = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    packed = torch.ao.quantization.quantize_dynamic(floats, {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(Refusal, match=r"quantisation\. Pass the model that was"):
        survey.profile(packed, torch.ones(3, 4))


def test_layers_of_complex_numbers_are_left_out_as_such():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.last = nn.Linear(4, 3, dtype=torch.complex64), nn.Linear(3, 2)

        def forward(self, x):
            return self.last(self.wide(x.to(torch.complex64)).abs())

    measured = survey.profile(Net(), torch.randn(6, 4))
    (skipped,) = [s for s in measured.skipped if s.site == "wide.weight"]
    assert skipped.why == "of complex numbers, which are not measured"
