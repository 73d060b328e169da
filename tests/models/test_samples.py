import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, survey, theory
from sigmascope.core.guard import Refusal
from sigmascope.models import OUTPUT, Subject
from sigmascope.models.samples import (
    RUNS,
    as_tensor,
    beside,
    chosen,
    copied,
    in_double,
    loss_name,
    mapped,
    of_output,
    pieces,
    prepared,
    rows,
    run,
    sample_count,
    samples_first,
    scalar_loss,
    spectra_of,
    tensors,
)
from tests.models_zoo import Net

X, Y = torch.arange(12.0).view(4, 3), torch.arange(4)


class Pair(NamedTuple):
    left: torch.Tensor
    right: str


def test_tensors_are_found_in_any_structure_and_changed_in_place_of_it():
    batch = {"a": (X, ["words", Y]), "b": Pair(X, "kept"), "c": None}
    assert [id(t) for t in tensors(batch)] == [id(X), id(Y), id(X)]
    doubled = mapped(batch, lambda t: 2 * t)
    assert torch.equal(doubled["a"][0], 2 * X)
    assert doubled["a"][1][0] == "words"
    assert isinstance(doubled["b"], Pair)
    assert (doubled["b"].right, doubled["c"]) == ("kept", None)


@dataclass(frozen=True)
class Record:
    score: torch.Tensor
    rest: tuple[torch.Tensor, ...]
    name: str = "record"


@dataclass
class Late:
    out: torch.Tensor
    aside: torch.Tensor | None = field(default=None, init=False)


def test_dataclasses_are_opened_by_their_fields():
    whole = Record(torch.ones(2), (torch.zeros(3), torch.ones(1)))
    assert [t.numel() for t in tensors(whole)] == [2, 3, 1]
    twice = mapped(whole, lambda t: 2 * t)
    assert (type(twice), twice.name, twice.score.tolist()) == (Record, "record", [2, 2])
    assert whole.score.tolist() == [1, 1]
    late = mapped(Late(torch.ones(2)), lambda t: 3 * t)
    assert (late.out.tolist(), late.aside) == ([3, 3], None)
    assert as_tensor(Late(torch.ones(2)))[1] == "output['out']"
    assert as_tensor(whole)[0] is whole.score
    assert [*tensors(Record)] == []


def test_one_tensor_that_comes_twice_is_copied_once():
    first, (second, other) = copied((X, [X, Y]))
    assert first is second
    assert first.data_ptr() != X.data_ptr()
    assert torch.equal(other, Y)


def test_floating_tensors_take_the_precision_of_the_model():
    batch = prepared(nn.Linear(3, 2).double(), {"x": X.clone().requires_grad_(), "y": Y})
    assert batch["x"].dtype == torch.float64
    assert not batch["x"].requires_grad
    assert batch["y"].dtype == torch.int64
    bare = (X,)
    assert prepared(nn.Flatten(), bare) is bare
    with pytest.raises(Refusal, match=r"must fit torch.float16, the precision .* got 1e\+06"):
        prepared(nn.Linear(3, 2).half(), torch.tensor([1e6, 1.0]))
    endless = prepared(nn.Linear(3, 2).half(), torch.tensor([1.0, float("inf")]))
    assert endless.isinf().tolist() == [False, True]  # it was infinite before


def test_samples_are_counted_along_a_dimension_of_the_first_tensor():
    assert sample_count({"n": 3, "x": X}, batch_dim=0) == 4
    assert sample_count((X, Y), batch_dim=1) == 3
    with pytest.raises(Refusal, match=r"samples along dimension 1, got a tensor of shape \(4,\)"):
        sample_count(Y, batch_dim=1)
    with pytest.raises(Refusal, match="must hold a tensor, got dict without any"):
        sample_count({"n": 3}, batch_dim=0)


@pytest.mark.parametrize(
    ("batch", "advice"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], r"a list or tuple without any\. .*`torch\.tensor\(numbers\)`"),
        (["hello", "world"], "Make numbers of texts"),
        ({"input_ids": [[1, 2]]}, 'return_tensors="pt"'),
        ({"text": ["hello"]}, "Make numbers of texts"),
        ({"x": np.zeros((2, 3))}, r"`torch\.as_tensor\(array\)`"),
        ((pd.DataFrame({"a": [1.0]}),), r"`torch\.tensor\(frame\.to_numpy\(\)\)`"),
        ({}, "Pass a tensor, a tuple"),
        (5, "got int without any"),
    ],
)
def test_what_holds_no_tensor_is_told_how_to_become_one(batch, advice):
    with pytest.raises(Refusal, match=advice):
        sample_count(batch, batch_dim=0)


def test_pieces_cut_what_is_as_long_as_the_batch():
    whole = torch.ones(2, 3)
    found = list(pieces((X, Y, whole, 7), size=3, batch_dim=0))
    assert [part for _, part in found] == [slice(0, 3), slice(3, 4)]
    for (x, y, rest, number), part in found:
        assert torch.equal(x, X[part])
        assert torch.equal(y, Y[part])
        assert (rest is whole, number) == (True, 7)
    turned = [p for p, _ in pieces((X.mT, Y), size=2, batch_dim=1)]
    assert [tuple(x.shape) for x, _ in turned] == [(3, 2), (3, 2)]
    assert all(y is Y for _, y in turned)


def test_samples_are_chosen_in_their_order():
    rows = torch.tensor([2, 0])
    x, rest = chosen((X, torch.ones(2, 3)), rows)
    assert torch.equal(x, X[[2, 0]])
    assert rest.shape == (2, 3)
    assert torch.equal(chosen(X.mT, rows, batch_dim=1), X.mT[:, [2, 0]])


def test_a_call_is_counted_and_works_on_a_copy():
    def spoils(x, scale=1.0):
        torch.set_grad_enabled(False)
        return x.mul_(scale)

    before, x = RUNS.count, torch.ones(2)
    with torch.enable_grad():
        assert run(spoils, {"x": x, "scale": 3.0}).tolist() == [3, 3]
        assert torch.is_grad_enabled()
    assert run(spoils, (x, 2.0)).tolist() == [2, 2]
    assert run(spoils, x).tolist() == x.tolist() == [1, 1]
    assert RUNS.count == before + 3


@pytest.mark.parametrize(
    ("output", "rule"),
    [
        (X, "the output tensor"),
        ({"loss": X, "logits": X}, "output['logits']"),
        ({"ids": Y, "mine": X, "other": X}, "output['mine']"),
        ({"logits": Y, "pred": X}, "output['pred']"),
        ((Y, None, [X]), "the first floating tensor of the output"),
    ],
)
def test_the_tensor_that_is_studied_is_chosen_by_a_rule(output, rule):
    found, said = as_tensor(output)
    assert found is X
    assert said == rule


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "got None"),
        ([], "got list"),
        (Y, r"got a torch.int64 tensor of shape \(4,\)"),
        (X[:, :0], r"got a torch.float32 tensor of shape \(4, 0\)"),
        ({"ids": Y}, "got dict"),
    ],
)
def test_an_output_without_numbers_is_refused(output, says):
    with pytest.raises(Refusal, match=f"must return a floating tensor, .*{says}"):
        as_tensor(output)


def test_targets_are_taken_to_a_model_that_lies_elsewhere():
    with torch.device("meta"):
        there = nn.Linear(2, 2)
        theirs = torch.ones(3)
    here = torch.ones(3)
    assert beside(there, here).device.type == "meta"
    assert [t.device.type for t in beside(there, (here, theirs))] == ["meta"] * 2
    assert beside(there, "spam") == "spam"
    assert beside(nn.Linear(2, 2), here) is here
    assert beside(nn.Linear(2, 2), theirs) is theirs  # somebody put them there
    assert beside(nn.ReLU(), here) is here


# ------------------------------------------------------------------------------
# What is read or written, as matrices.


def test_images_have_a_row_per_sample_and_a_row_per_pixel():
    x = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    both = rows(x, channels=1, count=2)
    assert torch.equal(both.samples, x.flatten(1))
    assert both.channels.shape == (40, 3)
    assert torch.equal(both.channels[7], x[0, :, 1, 2])


def test_flat_features_have_one_form_only():
    both = rows(torch.ones(4, 3), channels=1, count=4)
    assert set(both.forms()) == {"samples"}
    assert rows(torch.ones(4), channels=0, count=4).samples.shape == (4, 1)


@pytest.mark.parametrize(
    ("shape", "batch_dim", "expected"),
    [
        ((4, 7, 3), 0, (4, 7, 3)),
        ((7, 4, 3), 0, (4, 7, 3)),  # sequence first
        ((4, 4, 3), 1, (4, 4, 3)),
        ((12, 5), 0, (4, 3, 5)),  # windows folded into the batch
        ((7, 4), 0, (4, 7)),
        ((5, 8, 4), 0, None),  # the last dimension counts features
        ((5,), 0, None),
    ],
)
def test_samples_are_found(shape, batch_dim, expected):
    found = samples_first(torch.zeros(shape), count=4, batch_dim=batch_dim)
    assert (None if found is None else tuple(found.shape)) == expected


@pytest.mark.parametrize(
    "shape", [(4, 3), (4, 3, 2), (5, 8, 4), (4, 0)]
)  # the third has no samples
def test_rows_are_finite_if_all_entries_are(shape):
    value = torch.ones(shape)
    assert rows(value, channels=1, count=4).are_finite
    if value.numel():
        value.view(-1)[-1] = math.inf
        assert not rows(value, channels=1, count=4).are_finite


def test_a_representation_is_what_the_layer_reads():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True), nn.Linear(5, 2))
    x = torch.randn(4, 3)
    subject = Subject(model, x)
    with torch.no_grad():
        z = model[0](x)
    assert list(subject.activations) == ["0", "2", OUTPUT]
    assert torch.equal(subject.activations["0"].samples, x)
    assert torch.equal(subject.activations["2"].samples, z.relu())
    assert torch.equal(subject.preactivations["0"].samples, z)  # not what ReLU overwrote
    assert torch.equal(subject.activations[OUTPUT].samples, subject.output)


def test_an_input_overwritten_in_place_is_read_before():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            x = self.first(x)
            x += self.second(x)
            return x

    torch.manual_seed(0)
    model, x = Adds(), torch.randn(4, 3)
    with torch.no_grad():
        expected = model.first(x)
    assert torch.equal(Subject(model, x).activations["second"].samples, expected)


def test_squares_of_a_representation_neither_overflow_nor_vanish():
    wide = torch.tensor([[1e150, 1e-150]], dtype=torch.float64)
    assert spectra_of([wide])[0].mean_square == pytest.approx(5e299)
    assert spectra_of([torch.tensor([[3.0, 4.0]])])[0].mean_square == pytest.approx(12.5)
    assert spectra_of([torch.zeros(2, 2)])[0].mean_square == 0
    large = torch.full((2, 4), -1.2e154, dtype=torch.float64)  # whose squares add up to infinity
    assert spectra_of([large])[0].mean_square == pytest.approx(1.44e308)


def test_the_centred_spectrum_is_that_of_rows_less_their_mean():
    rows = torch.tensor([[1.0, 5.0], [3.0, 5.0]]).double()
    found = spectra_of([rows])[0]
    assert found.centred.sigma.tolist() == pytest.approx([2**0.5, 0], abs=1e-7)
    assert found.raw.sigma.square().sum().item() == pytest.approx(60)
    assert found.precision == 2.0**-52


def test_matrices_of_any_shapes_come_back_in_their_order():
    g = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (5, 3), (2, 7), (5, 3), (1, 1), (600, 600), (600, 600)]
    matrices = [torch.randn(shape, generator=g) + i for i, shape in enumerate(shapes)]
    for matrix, found in zip(matrices, spectra_of(matrices), strict=True):
        A = matrix.double()
        for one, of in ((found.raw, A), (found.centred, A - A.mean(0))):
            assert one.shape == tuple(A.shape)
            sigma = torch.linalg.svdvals(of)
            assert bool((one.low <= sigma + 1e-9).all())
            assert bool((sigma <= one.high + 1e-9).all())
        assert found.mean_square == pytest.approx(float(A.square().mean()))
    assert spectra_of([]) == ()


# ------------------------------------------------------------------------------
# Targets that do not belong to the outputs are refused at every door, and others are not.


INPUTS = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
WANTED = torch.randn(12, 2, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(12) % 2
IGNORED = LABELS.where(torch.arange(12) > 3, -100)


def net(outputs=2, last=None):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, outputs)]
    return nn.Sequential(*layers, *([] if last is None else [last]))


def hole(value, like=WANTED):
    return like.index_fill(0, torch.tensor(3), value)


def by_hand(output, targets):
    return (output - targets).square().mean()


one, flat = net(1), net(1, nn.Flatten(0))
REFUSED = {
    "NaN": (net(), hole(torch.nan), F.mse_loss, "2 of 24 values that are not.*(3, 0)"),
    "infinity": (net(), hole(torch.inf), by_hand, "must be finite"),
    "NaN inside a mapping": (
        net(),
        {"y": hole(torch.nan)},
        lambda o, t: F.mse_loss(o, t["y"]),
        "must be finite",
    ),
    "no targets": (net(), WANTED[:0], F.mse_loss, "one target for each sample"),
    "classes beyond the outputs": (net(), LABELS + 7, F.cross_entropy, "0 to 1.*got 7"),
    "negative classes": (net(), LABELS - 2, F.cross_entropy, "0 to 1.*got -2"),
    "classes of which none counts": (net(), 0 * LABELS - 100, F.cross_entropy, "got -100"),
    "classes as floats": (net(), LABELS.float(), F.cross_entropy, "accept the output"),
    "one-hot of another width": (
        net(),
        F.one_hot(LABELS, 3).float(),
        F.cross_entropy,
        "accept the output",
    ),
    "scores for probabilities": (net(), WANTED, F.cross_entropy, "probabilities of the classes"),
    "values for shares": (net(), WANTED, F.binary_cross_entropy_with_logits, "between 0 and 1"),
    "fewer rows": (net(), WANTED[:5], lambda o, t: by_hand(o[:5], t), "each of the 12 samples"),
    "one row for all": (net(), WANTED[:1], by_hand, "each of the 12 samples"),
    "(n) against (n, 1)": (one, WANTED[:, 0], F.mse_loss, r"\(12, 1\) and \(12,\)"),
    "(n) against (n, 1) by hand": (one, WANTED[:, 0], by_hand, r"\(12, 1\) and \(12,\)"),
    "(n, 1) against (n)": (flat, WANTED[:, :1], F.l1_loss, r"\(12,\) and \(12, 1\)"),
    "(n, 1) against (n) by hand": (flat, WANTED[:, :1], by_hand, r"\(12,\) and \(12, 1\)"),
    "(n, 1) against (n, k)": (net(), WANTED[:, :1], nn.HuberLoss(), r"\(12, 2\) and \(12, 1\)"),
    "behind a step": (
        one,
        WANTED[:, 0],
        lambda o, t: (torch.tanh(o) - 2 * t.float()).abs().mean(),
        "broadcast",
    ),
}
DOORS = {
    "profile": lambda m, t, f: survey.profile(m, INPUTS, targets=t, loss=f, views=["weights"]),
    "landscape": lambda m, t, f: theory.landscape.landscape(m, INPUTS, targets=t, loss=f),
    "trainability": lambda m, t, f: diagnosis.trainability.trainability(
        m, INPUTS, targets=t, loss=f
    ),
    "curvature": lambda m, t, f: Subject(m, INPUTS, t, f).curvature("gauss-newton"),
}


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize(("model", "targets", "loss", "says"), REFUSED.values(), ids=REFUSED)
def test_targets_that_do_not_belong_are_refused(door, model, targets, loss, says):
    with pytest.raises(Refusal, match=f"(?s){says}"):
        door(model, targets, loss)


WELCOME = {
    "values": (net(), WANTED, F.mse_loss),
    "classes": (net(), LABELS, F.cross_entropy),
    "classes, some left out": (net(), IGNORED, F.cross_entropy),
    "probabilities": (net(), WANTED.softmax(1), F.cross_entropy),
    "a column": (one, WANTED[:, 0], lambda o, t: by_hand(o[:, 0], t)),
    "shares": (net(), WANTED.sigmoid(), F.binary_cross_entropy_with_logits),
    "one-hot by hand": (net(), LABELS, lambda o, t: by_hand(o, F.one_hot(t, 2).float())),
    "weights of samples": (net(), WANTED[:, :1], lambda o, t: (o.square() * t.square()).mean()),
    "all pairs": (
        one,
        WANTED[:, 0],
        lambda o, t: ((o - o.T) * (t[:, None] - t[None]).sign()).sigmoid().mean(),
    ),
    "Gram matrices": (net(), WANTED, lambda o, t: (o @ o.T - t @ t.T).square().mean()),
    "cross products": (net(), WANTED, lambda o, t: (o @ t.T).square().mean()),
    "words": (net(), "anything", lambda o, t: o.square().mean()),
}


@pytest.mark.parametrize(("model", "targets", "loss"), WELCOME.values(), ids=WELCOME)
def test_what_a_loss_means_is_not_refused(model, targets, loss):
    before = torch.random.get_rng_state()
    assert Subject(model, INPUTS, targets, loss).output.shape[0] == 12
    assert torch.equal(before, torch.random.get_rng_state())


def test_tokens_and_turned_batches_have_their_targets():
    words, model = torch.randint(5, (3, 7)), nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    for targets in (words, words.flatten()):
        loss = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten())
        assert Subject(model, words, targets, loss).output.shape == (3, 7, 5)
    x, y = torch.randn(7, 3, 4), torch.randn(7, 3, 2)
    assert Subject(nn.Linear(4, 2), x, y, F.mse_loss, batch_dim=1).count == 3


@given(
    st.lists(st.sampled_from([1, 2, 3]), max_size=3),
    st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=2),
)
def test_squared_error_by_hand_is_of_one_shape_or_refused(shape, sizes):
    """Whatever shapes meet, a mean over other terms than the outputs is refused."""
    targets, x = torch.randn(shape), torch.randn(3, 2)
    model = nn.Sequential(nn.Linear(2, sizes[-1]), *([nn.Flatten(0)] if len(sizes) == 1 else []))
    output = model(x)
    column = targets.shape == (3, 1) and output.shape[0] == 3 and output.ndim == 2
    try:
        _ = Subject(model, x, targets, by_hand).output
    except Refusal:
        assert targets.shape != output.shape
    else:
        assert targets.shape == output.shape or column  # by hand it may be a weight of the sample


def test_classes_beyond_the_outputs_are_no_mistakes_of_the_network(as_users_see_it):
    for targets, says in (
        (LABELS + 7, "0 to 1.*got 7"),
        (LABELS - 3, "got -3"),
        (LABELS.cfloat(), "one class"),
    ):
        with pytest.raises(Refusal, match=says):
            theory.bottleneck.fit_of(Subject(net(), INPUTS), targets)
    with pytest.raises(Refusal, match="must be finite"):
        theory.bottleneck.fit_of(Subject(net(), INPUTS), hole(torch.nan))
    kept = LABELS.where(torch.arange(12) > 3, -100)
    assert (
        "% of the samples are right" in theory.bottleneck.fit_of(Subject(net(), INPUTS), kept).says
    )


def test_huge_targets_are_no_overflow():
    fit = theory.bottleneck.fit_of(Subject(net(), INPUTS), WANTED.double() * 1e300)
    assert 0.9 < fit.unexplained.value < 1.2


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (nn.Linear(4, 2), INPUTS[0]),
        (nn.Linear(4, 4), INPUTS[0]),
        (nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), INPUTS[0]),
        (nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU()), torch.randn(3, 8, 8)),
        (nn.Conv1d(2, 4, 3), torch.randn(2, 9)),
        (nn.LSTM(4, 3, batch_first=True), torch.randn(7, 4)),
        (nn.GRU(4, 3), torch.randn(7, 4)),
    ],
)
def test_a_sample_without_its_dimension_is_not_read_as_samples(model, batch):
    with pytest.raises(Refusal, match=r"reads .* as one sample\. Pass `batch\.unsqueeze\(0\)`"):
        survey.profile(model, batch)


def test_single_numbers_and_loops_over_samples_are_samples():
    assert (
        Subject(nn.Sequential(nn.Unflatten(0, (-1, 1)), nn.Linear(1, 2)), INPUTS[0]).output.shape[0]
        == 4
    )
    assert Subject(
        Net(lambda m, x: torch.stack([m.layer(row) for row in x]), layer=nn.Linear(4, 2)),
        INPUTS[:4],
    ).output.shape == (4, 2)
    assert Subject(nn.Embedding(5, 2), torch.arange(5)).output.shape == (5, 2)


def test_data_beyond_the_models_precision_are_refused_as_such(as_users_see_it):
    with pytest.raises(Refusal, match=r"must fit torch.float32, .* got 1e\+300"):
        Subject(net(), torch.full((3, 4), 1e300, dtype=torch.float64))


@pytest.mark.parametrize(("loss", "targets", "name"), [
    (F.cross_entropy, 1, "cross_entropy"),
    (nn.MSELoss(), 1, "MSELoss"),
    (lambda out, y: out, 1, "the loss given"),
    (None, 1, "squared error"),
    (F.cross_entropy, None, "squared error"),
])  # fmt: skip
def test_losses_have_names(loss, targets, name):
    assert loss_name(loss, targets) == name


SCORES = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
CLASSES = torch.tensor([0, 1, 2, 0, 1, 2])
VALUES = torch.ones(6, 3)


@pytest.mark.parametrize(
    ("rule", "loss", "targets"),
    [
        ("output['logits']", lambda o, y: F.cross_entropy(o.logits, y), CLASSES),
        ("output['logits']", lambda o, y: F.cross_entropy(o["logits"], y), CLASSES),
        ("output['logits']", lambda o, y: F.cross_entropy(o[0], y), CLASSES),
        ("output['logits']", lambda o, y: F.mse_loss(o[0], y), VALUES),  # rows would be spread
        ("output['pred']", lambda o, y: F.mse_loss(o["pred"].relu(), y), VALUES),
        ("the first floating tensor of the output", lambda o, y: F.mse_loss(o[0], y), VALUES),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_loss_of_the_whole_output_is_asked_with_the_tensor_in_its_place(rule, loss, targets):
    own = of_output(loss, SCORES, rule, targets)
    of_tensor = F.mse_loss if targets is VALUES else F.cross_entropy
    studied = SCORES.relu() if "pred" in rule else SCORES
    assert own(SCORES, targets) == of_tensor(studied, targets)
    leaf = SCORES.clone().requires_grad_()
    own(leaf, targets).backward()
    assert leaf.grad is not None


@pytest.mark.parametrize(
    "loss",
    [
        F.cross_entropy,
        lambda o, y: F.cross_entropy(o, y),
        lambda o, y: F.nll_loss(o.log_softmax(1), y),
        lambda o, y: F.cross_entropy(o[:, [0, 1, 2]], y),
    ],
)
def test_a_loss_of_the_tensor_stays_as_it_is_whatever_the_output_is(loss):
    for rule in ("the output tensor", "output['logits']"):
        assert of_output(loss, SCORES, rule, CLASSES) is loss


def test_what_a_loss_reads_that_is_not_studied_is_named():
    own = of_output(lambda o, y: o.hidden_states[0].mean(), SCORES, "output['logits']", CLASSES)
    with pytest.raises(Refusal, match=r"reads `.hidden_states` .* output\['logits'\] alone"):
        scalar_loss(own, SCORES, CLASSES)


def test_asking_draws_no_number_of_the_users():
    before = torch.get_rng_state()
    of_output(lambda o, y: o.logits.bernoulli().mean(), SCORES, "output['logits']", CLASSES)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("loss", "targets", "says"),
    [
        (F.cross_entropy, torch.zeros(6, 1, dtype=torch.long), r"`targets\.squeeze\(-1\)`: pass"),
        (F.cross_entropy, torch.zeros(6), r"It takes `targets\.long\(\)`: pass that"),
        (F.cross_entropy, torch.zeros(6, 1), r"`targets\.squeeze\(-1\)\.long\(\)`: pass"),
        (F.cross_entropy, torch.eye(6)[:, :3].long(), r"It takes `targets\.float\(\)`: pass"),
        (F.cross_entropy, [0] * 6, r"It takes `torch\.as_tensor\(targets\)`: pass that"),
        (F.cross_entropy, torch.zeros(6) + 0.5, "Pass targets and a loss that fit the output"),
        (nn.CrossEntropyLoss, torch.zeros(6).long(), r"that class: `CrossEntropyLoss\(\)`"),
        (lambda out, y: (out.sum(), {"seen": y}), torch.zeros(6), r"tuple\. Return the loss alone"),
        (lambda out, y: float(out.sum()), torch.zeros(6), r"type float\. Return the tensor, as it"),
        (lambda out, y: out[:, 0], torch.zeros(6), r"got \(6,\)\. Reduce it with \.mean\(\)"),
    ],
)
def test_of_targets_that_a_loss_does_not_take_the_form_is_named_that_it_does(loss, targets, says):
    held = targets.clone() if isinstance(targets, torch.Tensor) else list(targets)
    with pytest.raises(Refusal, match=says):
        scalar_loss(loss, torch.zeros(6, 3), targets)
    assert bool((torch.as_tensor(held) == torch.as_tensor(targets)).all())


def test_a_loss_with_numbers_of_its_own_takes_outputs_in_double():
    weight, y = torch.rand(3), torch.tensor([0, 1, 2, 0])
    out = torch.randn(4, 3, dtype=torch.float64)
    exact = F.cross_entropy(out, y, weight.double())
    for loss in (nn.CrossEntropyLoss(weight), lambda o, t: F.cross_entropy(o, t, weight)):
        with pytest.raises(RuntimeError):
            loss(out, y)
        found = in_double(loss)(out, y)
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, exact)
    with pytest.raises(ZeroDivisionError):
        in_double(lambda o, t: 1 / 0)(out, y)


def test_what_a_loss_adds_up_in_single_precision_is_written_where_it_lies():
    weight, y = torch.rand(3), torch.tensor([0, 1, 2, 0])
    out = torch.randn(4, 3, dtype=torch.float64)

    def loss(o, t):
        total = torch.zeros(())
        total.add_(F.cross_entropy(o, t, weight))
        beside = torch.ones(3, dtype=torch.bfloat16) * torch.ones(3)  # with nothing in double
        assert beside.dtype == torch.float32
        return total

    exact = F.cross_entropy(out, y, weight.double()).float()
    torch.testing.assert_close(in_double(loss)(out, y), exact)
