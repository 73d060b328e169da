"""Targets that do not belong to the outputs are refused at every door, and others are not."""

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, survey, theory
from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.probes.samples import loss_name

X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
Y = torch.randn(12, 2, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(12) % 2
IGNORED = LABELS.where(torch.arange(12) > 3, -100)


def net(outputs=2, last=None):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, outputs)]
    return nn.Sequential(*layers, *([] if last is None else [last]))


def hole(value, like=Y):
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
    "no targets": (net(), Y[:0], F.mse_loss, "one target for each sample"),
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
    "scores for probabilities": (net(), Y, F.cross_entropy, "probabilities of the classes"),
    "values for shares": (net(), Y, F.binary_cross_entropy_with_logits, "between 0 and 1"),
    "fewer rows": (net(), Y[:5], lambda o, t: by_hand(o[:5], t), "each of the 12 samples"),
    "one row for all": (net(), Y[:1], by_hand, "each of the 12 samples"),
    "(n) against (n, 1)": (one, Y[:, 0], F.mse_loss, r"\(12, 1\) and \(12,\)"),
    "(n) against (n, 1) by hand": (one, Y[:, 0], by_hand, r"\(12, 1\) and \(12,\)"),
    "(n, 1) against (n)": (flat, Y[:, :1], F.l1_loss, r"\(12,\) and \(12, 1\)"),
    "(n, 1) against (n) by hand": (flat, Y[:, :1], by_hand, r"\(12,\) and \(12, 1\)"),
    "(n, 1) against (n, k)": (net(), Y[:, :1], nn.HuberLoss(), r"\(12, 2\) and \(12, 1\)"),
    "behind a step": (
        one,
        Y[:, 0],
        lambda o, t: (torch.tanh(o) - 2 * t.float()).abs().mean(),
        "broadcast",
    ),
}
DOORS = {
    "profile": lambda m, t, f: survey.profile(m, X, targets=t, loss=f, views=["weights"]),
    "landscape": lambda m, t, f: theory.landscape.landscape(m, X, targets=t, loss=f),
    "trainability": lambda m, t, f: diagnosis.trainability.trainability(m, X, targets=t, loss=f),
    "curvature": lambda m, t, f: Subject(m, X, t, f).curvature("gauss-newton"),
}


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize(("model", "targets", "loss", "says"), REFUSED.values(), ids=REFUSED)
def test_targets_that_do_not_belong_are_refused(door, model, targets, loss, says):
    with pytest.raises(Refusal, match=f"(?s){says}"):
        door(model, targets, loss)


WELCOME = {
    "values": (net(), Y, F.mse_loss),
    "classes": (net(), LABELS, F.cross_entropy),
    "classes, some left out": (net(), IGNORED, F.cross_entropy),
    "probabilities": (net(), Y.softmax(1), F.cross_entropy),
    "a column": (one, Y[:, 0], lambda o, t: by_hand(o[:, 0], t)),
    "shares": (net(), Y.sigmoid(), F.binary_cross_entropy_with_logits),
    "one-hot by hand": (net(), LABELS, lambda o, t: by_hand(o, F.one_hot(t, 2).float())),
    "weights of samples": (net(), Y[:, :1], lambda o, t: (o.square() * t.square()).mean()),
    "all pairs": (
        one,
        Y[:, 0],
        lambda o, t: ((o - o.T) * (t[:, None] - t[None]).sign()).sigmoid().mean(),
    ),
    "Gram matrices": (net(), Y, lambda o, t: (o @ o.T - t @ t.T).square().mean()),
    "cross products": (net(), Y, lambda o, t: (o @ t.T).square().mean()),
    "words": (net(), "anything", lambda o, t: o.square().mean()),
}


@pytest.mark.parametrize(("model", "targets", "loss"), WELCOME.values(), ids=WELCOME)
def test_what_a_loss_means_is_not_refused(model, targets, loss):
    before = torch.random.get_rng_state()
    assert Subject(model, X, targets, loss).output.shape[0] == 12
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
            theory.bottleneck.fit_of(Subject(net(), X), targets)
    with pytest.raises(Refusal, match="must be finite"):
        theory.bottleneck.fit_of(Subject(net(), X), hole(torch.nan))
    kept = LABELS.where(torch.arange(12) > 3, -100)
    assert "% of the samples are right" in theory.bottleneck.fit_of(Subject(net(), X), kept).says


def test_huge_targets_are_no_overflow():
    fit = theory.bottleneck.fit_of(Subject(net(), X), Y.double() * 1e300)
    assert 0.9 < fit.unexplained.value < 1.2


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (nn.Linear(4, 2), X[0]),
        (nn.Linear(4, 4), X[0]),
        (nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), X[0]),
        (nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU()), torch.randn(3, 8, 8)),
        (nn.Conv1d(2, 4, 3), torch.randn(2, 9)),
        (nn.LSTM(4, 3, batch_first=True), torch.randn(7, 4)),
        (nn.GRU(4, 3), torch.randn(7, 4)),
    ],
)
def test_a_sample_without_its_dimension_is_not_read_as_samples(model, batch):
    with pytest.raises(Refusal, match=r"reads .* as one sample\. Pass `batch\.unsqueeze\(0\)`"):
        survey.profile(model, batch)


class Looped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return torch.stack([self.layer(row) for row in x])


def test_single_numbers_and_loops_over_samples_are_samples():
    assert (
        Subject(nn.Sequential(nn.Unflatten(0, (-1, 1)), nn.Linear(1, 2)), X[0]).output.shape[0] == 4
    )
    assert Subject(Looped(), X[:4]).output.shape == (4, 2)
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
