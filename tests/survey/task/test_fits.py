"""Outputs, targets and losses side by side."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.models import Subject
from sigmascope.survey.task import TaskFit, fit_of, is_endless
from sigmascope.survey.task.fits import _end, _together_and_apart, enough

N = 64
G = torch.Generator().manual_seed(0)
X = torch.randn(N, 6, generator=G)
CLASSES = torch.randint(4, (N,), generator=G)
YES = torch.randint(2, (N, 1), generator=G).float()


def fit(last, loss, targets, width=4):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, width), *last)
    return fit_of(Subject(model, X, targets, loss), loss, targets)


@pytest.mark.parametrize(
    ("last", "least", "most"),
    [
        ([], -math.inf, math.inf),
        ([nn.ReLU()], 0.0, math.inf),
        ([nn.Sigmoid()], 0.0, 1.0),
        ([nn.Tanh()], -1.0, 1.0),
        ([nn.Hardtanh(-2, 3)], -2.0, 3.0),
        ([nn.Softmax(-1)], 0.0, 1.0),
        ([nn.LogSoftmax(-1)], -math.inf, 0.0),
        ([nn.Softplus()], 0.0, math.inf),
    ],
)
def test_the_range_is_measured(last, least, most):
    found = fit(last, F.mse_loss, torch.randn(N, 4, generator=G))
    assert found.least == pytest.approx(least, abs=1e-3)
    assert found.most == pytest.approx(most, abs=1e-3)
    assert found.shares is isinstance((last or [0])[0], nn.Softmax)
    assert not found.constant


def test_a_softmax_over_one_unit_is_one():
    found = fit([nn.Softmax(-1)], F.binary_cross_entropy, YES, width=1)
    assert found.constant
    assert (found.least, found.most) == (1.0, 1.0)


def test_double_softmax_leaves_what_arithmetic_says():
    """Scores between 0 and 1: log(1 + 3/e) is the least of any of four classes."""
    found = fit([nn.Softmax(-1)], F.cross_entropy, CLASSES)
    assert found.reach == pytest.approx(math.log(1 + 3 / math.e), rel=1e-4)
    assert found.beyond == pytest.approx(math.log(1 + 3 / math.e) / found.same, rel=1e-3)
    assert found.undecided == 0.0  # the classes can be told apart all the same


@pytest.mark.parametrize("scale", [0.5, 1.0 - 1e-4, 1.0 + 1e-2, 2.0, 100.0])
def test_how_far_targets_are_beyond_a_tanh(scale):
    targets = scale * torch.tensor([1.0, -1.0]).repeat(N // 2)[:, None]
    found = fit([nn.Tanh()], F.mse_loss, targets, width=1)
    assert found.beyond == pytest.approx(max(0.0, 1 - 1 / scale) ** 2, abs=2e-4)


def test_outputs_that_are_spread_over():
    loss = lambda o, y: (o - y).square().mean()
    assert fit([], loss, torch.randn(N, 1, generator=G)).spread
    assert not fit([], loss, torch.randn(N, 4, generator=G)).spread
    assert not fit([], F.cross_entropy, CLASSES).spread


def test_healthy_ends_reach_everything():
    for last, loss, targets, width in (
        ([], F.cross_entropy, CLASSES, 4),
        ([nn.LogSoftmax(-1)], F.nll_loss, CLASSES, 4),
        ([nn.Sigmoid()], F.binary_cross_entropy, YES, 1),
        ([], F.binary_cross_entropy_with_logits, YES, 1),
        ([], F.mse_loss, 100 * torch.randn(N, 1, generator=G), 1),
        ([nn.Sigmoid()], F.mse_loss, YES, 1),
    ):
        found = fit(last, loss, targets, width)
        assert not found.beyond > 1e-3, (last, loss)


@pytest.mark.parametrize(
    ("reached", "sign", "end"),
    [
        ([1.0, 5.0, 50.0], 1.0, 50.0),  # ten times is no growth without end
        ([1.0, 5.0, 50.1], 1.0, math.inf),
        ([1.0, 5.0, 50.1], -1.0, -math.inf),
        ([0.0, 0.1, 10.0], 1.0, 10.0),  # below one, one counts
        ([0.0, 0.1, 10.1], 1.0, math.inf),
        ([7.0, 5.0, 6.0], -1.0, -7.0),  # the farthest, whenever it was reached
    ],
)
def test_an_end_of_the_range(reached, sign, end):
    assert _end(reached, sign) == end


def focal(output, y, gamma=2.0):
    each = F.cross_entropy(output, y, reduction="none")
    return ((1 - (-each).exp()) ** gamma * each).mean()


def dice(output, y):
    p = output.sigmoid()
    return 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)


HEALTHY = {  # loss, targets, last module
    "cross-entropy": (F.cross_entropy, CLASSES, None),
    "weighted": (nn.CrossEntropyLoss(torch.tensor([1.0, 5.0, 0.2, 1.0])), CLASSES, None),
    "smoothed": (nn.CrossEntropyLoss(label_smoothing=0.2), CLASSES, None),
    "focal": (focal, CLASSES, None),
    "log-softmax": (F.nll_loss, CLASSES, nn.LogSoftmax(-1)),
    "margin": (nn.MultiMarginLoss(), CLASSES, None),
    "one-hot squares": (F.mse_loss, F.one_hot(CLASSES, 4).float(), None),
    "one-hot yes or no": (F.binary_cross_entropy_with_logits, F.one_hot(CLASSES, 4).float(), None),
    "dice": (dice, F.one_hot(CLASSES, 4).float(), None),
    "values": (F.mse_loss, torch.randn(N, 4, generator=G), None),
    "absolute": (F.l1_loss, 5 + torch.randn(N, 4, generator=G), None),
    "huber": (nn.HuberLoss(), torch.randn(N, 4, generator=G), None),
    "similar": (lambda o, y: 1 - F.cosine_similarity(o, y).mean(),
                torch.randn(N, 4, generator=G), None),
    "counts": (nn.PoissonNLLLoss(), torch.poisson(torch.full((N, 4), 3.0), G), None),
    "in logarithms": (lambda o, y: (o - y.abs().log1p()).square().mean(),
                      torch.randn(N, 4, generator=G), None),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_of_healthy_losses_nothing_is_said(name, scale):
    loss, targets, last = HEALTHY[name]
    scaled = lambda o, y: scale * loss(o, y)
    found = fit([last] if last else [], scaled, targets)
    assert found.reversed is None
    assert not found.unpaired
    assert found.omitted == ()
    assert not found.unread


@pytest.mark.parametrize("name", [n for n in HEALTHY if n not in ("in logarithms", "counts")])
def test_a_loss_of_the_other_sign_is_reversed(name):
    loss, targets, last = HEALTHY[name]
    found = fit([last] if last else [], lambda o, y: -loss(o, y), targets)
    assert found.reversed is not None
    right, wrong = found.reversed
    assert right > wrong


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sign", [1, -1])
def test_a_loss_that_is_linear_in_the_output_has_no_right_answer_to_be_reversed(sign, seed):
    """As a critic's: which of two answers is better is chance."""
    y = torch.randn(N, 2, generator=torch.Generator().manual_seed(seed)).sign()
    assert fit([], lambda o, y: sign * (o * y).mean(), y, 2).reversed is None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("width", [4, 8])
def test_columns_of_an_embedding_are_no_scores(seed, width):
    """A criterion with weights of its own knows no column as that of a class."""
    own = torch.randn(4, width, generator=torch.Generator().manual_seed(seed))
    for sign in (1, -1):
        loss = lambda o, y, s=sign: s * F.cross_entropy(F.normalize(o) @ F.normalize(own).mT, y)
        assert fit([], loss, CLASSES, width).reversed is None


@pytest.mark.parametrize("seed", range(4))
def test_two_columns_of_an_embedding_are_no_scores_of_two_classes(seed):
    own = torch.randn(2, 2, generator=torch.Generator().manual_seed(seed))
    for sign in (1, -1):
        loss = lambda o, y, s=sign: s * F.cross_entropy(o @ own.mT, y)
        assert fit([], loss, CLASSES % 2, 2).reversed is None


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_that_are_moved_are_scores(sign):
    prior = torch.tensor([0.0, 2.0, -1.0, 0.5])
    found = fit([], lambda o, y: sign * F.cross_entropy(o + prior, y), CLASSES)
    assert (found.reversed is None) is (sign == 1)


ONE = torch.randn(N, 1, generator=torch.Generator().manual_seed(4))
SHARES = torch.tensor([0.1, 0.5, 0.9])


def pinball(o, y):
    above = y - o
    return torch.maximum(SHARES * above, (SHARES - 1) * above).mean()


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_columns_that_all_stand_for_one_target_are_reversed_with_the_sign(power, sign):
    loss = (lambda o, y: (o - y).abs().pow(power).mean()) if power else pinball
    found = fit([], lambda o, y: sign * loss(o, y), ONE, 3)
    assert (found.reversed is None) is (sign == 1)


@pytest.mark.parametrize("width", [1, 2])
def test_what_is_to_be_near_a_target_and_not_at_it_is_not_reversed(width):
    apart = lambda o, y: (0.1 * (o - y).square() - (o - y).square().tanh()).mean()
    assert fit([], apart, ONE, width).reversed is None


def mixture(o, y, kind=torch.distributions.Normal, shares=lambda scores: scores):
    scores, mean, spread = o.chunk(3, -1)
    density = kind(mean, 0.1 + spread.exp()).log_prob(y)
    return -torch.logsumexp(shares(scores) + density, -1).mean()


def shared(o, y):
    return mixture(o, y, shares=lambda scores: scores.log_softmax(-1))


def students(o, y):
    scores, mean, spread, tails = o.chunk(4, -1)
    density = torch.distributions.StudentT(1 + tails.exp(), mean, 0.1 + spread.exp())
    return -torch.logsumexp(scores + density.log_prob(y), -1).mean()


ADRIFT = {
    "of one spread": (
        lambda o, y: -(o[:, :3] - (o[:, 3:] - y).square()).logsumexp(1).mean(), ONE, 6,
    ),
    "of Student's t": (students, ONE, 8),
    "scores of a mixture": (lambda o, y: mixture(o, y), ONE, 6),
    "of one part": (lambda o, y: mixture(o, y), ONE, 3),
    "of Laplace": (lambda o, y: mixture(o, y, torch.distributions.Laplace), ONE, 12),
}  # fmt: skip
MOORED = {
    "a column that is not read": (lambda o, y: (o[:, :1] - y).square().mean(), ONE, 2),
    "logarithms of shares": (F.nll_loss, CLASSES, 4),  # of which another rule speaks
    "values far below": (lambda o, y: (o - y - 90).abs().mean(), ONE, 1),
    "shares of a mixture": (shared, ONE, 6),
    "cross-entropy": (F.cross_entropy, CLASSES, 4),
    "a critic": (lambda o, y: (o * y).mean(), ONE.sign(), 1),
    "a contrast": (lambda o, y: (o[::2] * y[::2].abs() - o[1::2] * y[1::2].abs()).mean(), ONE, 1),
    "a policy": (lambda o, y: (o.log_softmax(1)[:, 0] * y[:, 0].abs()).mean(), ONE, 4),
    "a normal density": (
        lambda o, y: (o[:, 1] + (o[:, 0] - y[:, 0]).square() / o[:, 1].exp().square()).mean(),
        ONE, 2,
    ),
    "a quantile": (pinball, ONE, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", [*ADRIFT, *MOORED])
@pytest.mark.parametrize("scale", [1e-2, 1.0, 50.0])
def test_what_is_added_to_columns_comes_off_no_loss_that_holds_them(name, scale):
    loss, targets, width = (ADRIFT | MOORED)[name]
    found = fit([], lambda o, y: scale * loss(o, y), targets, width)
    assert found.adrift is (name in ADRIFT)


@pytest.mark.parametrize("last", [nn.LogSoftmax(-1), nn.Tanh(), nn.LogSigmoid()])
def test_outputs_that_are_held_do_not_drift(last):
    loss = lambda o, y: mixture(torch.cat([o, 0 * o, 0 * o], 1), y)
    assert fit([], loss, ONE).adrift
    assert not fit([last], loss, ONE).adrift


VALUES = torch.randn(N, 4, generator=G)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize(
    ("loss", "unpaired"),
    [
        (lambda o, y: (o - y).mean() ** 2, True),
        (lambda o, y: (o - y).mean().abs(), True),
        (lambda o, y: (o - y).mean(), True),
        (lambda o, y: (y - o).sum(), True),
        (lambda o, y: (o.mean(0) - y.mean(0)).square().sum(), True),  # a target of each column
        (F.l1_loss, False),
        (F.mse_loss, False),
        (nn.HuberLoss(), False),
        (lambda o, y: torch.cdist(o, y).mean() - torch.cdist(o, o).mean() / 2, False),  # of sets
        (lambda o, y: -(o * y.sign()).mean(), False),  # a critic
        (lambda o, y: -(o * (y > 0)).mean(), False),
        (lambda o, y: o.mean(), False),  # which reads no targets
    ],
)
def test_errors_that_are_averaged_first_tell_no_sample_apart(loss, unpaired, size):
    assert fit([], loss, size * VALUES).unpaired is unpaired


def test_quantiles_of_large_targets_are_told_apart():
    levels = torch.tensor([0.1, 0.3, 0.7, 0.9])
    loss = lambda o, y: torch.maximum(levels * (y - o), (levels - 1) * (y - o)).mean()
    assert not fit([], loss, 1e5 + VALUES[:, :1]).unpaired
    assert not fit([], loss, torch.full((N, 1), 1e5)).unpaired


class Left(nn.Module):
    """What is left of the noise that was added."""

    def forward(self, z):
        return z - torch.randn(N, 1, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("last", "loss", "targets", "evenly"),
    [
        ([], F.mse_loss, torch.zeros(N, 1), True),
        ([], F.mse_loss, torch.full((N, 1), 700.0), True),
        ([nn.Tanh()], F.mse_loss, torch.full((N, 1), 5.0), True),  # as far as it goes
        ([nn.Sigmoid()], F.binary_cross_entropy, torch.ones(N, 1), True),
        ([], F.binary_cross_entropy_with_logits, torch.zeros(N, 1), True),
        ([Left()], F.mse_loss, torch.zeros(N, 1), False),
        ([], F.mse_loss, YES, False),  # two of them
    ],
)
def test_whether_one_thing_for_all_samples_gives_the_only_target(last, loss, targets, evenly):
    assert fit(last, loss, targets, 1).evenly is evenly


@pytest.mark.parametrize("left_out", range(4))
@pytest.mark.parametrize("last", [None, nn.LogSoftmax(-1)])
def test_a_class_that_a_loss_ignores_is_told_with_its_share(left_out, last):
    loss = nn.NLLLoss if last else nn.CrossEntropyLoss
    found = fit([last] if last else [], loss(ignore_index=left_out), CLASSES)
    share = (left_out == CLASSES).double().mean().item()
    assert found.omitted == ((left_out, pytest.approx(share)),)
    weights = (torch.arange(4) != left_out).float()
    assert fit([last] if last else [], loss(weights), CLASSES).omitted == found.omitted


@pytest.mark.parametrize(
    "loss",
    [lambda o, y: o.square().mean(), lambda o, y: (o @ o.mT).logsumexp(1).mean(),
     lambda o, y: (o - o.detach().roll(1, 0)).square().mean() + 0 * y.sum()],
)  # fmt: skip
@pytest.mark.parametrize("targets", [CLASSES, torch.randn(N, 4, generator=G)])
def test_targets_that_no_loss_reads_are_told(loss, targets):
    assert fit([], loss, targets).unread


OUT = torch.randn(N, 6, generator=G)
HALF = torch.rand(N, 6, generator=G)


def elbo(sign):
    def loss(o, y):
        shares, mean, log = o[:, :6], o[:, 6:9], o[:, 9:]
        divergence = -0.5 * (1 + log - mean.square() - log.exp()).sum(1).mean()
        return F.binary_cross_entropy(shares, y) + sign * divergence

    return loss


ENDLESS = {
    "an error that is maximised": (OUT, HALF, lambda o, y: -F.mse_loss(o, y)),
    "a divergence that is taken away": (torch.cat([HALF, OUT], 1), HALF, elbo(-1.0)),
    "a distance without a margin": (
        OUT, HALF, lambda o, y: F.mse_loss(o[::2], y[::2]) - F.mse_loss(o[1::2], y[1::2]),
    ),
    "a variance without an end": (OUT, HALF, lambda o, y: F.l1_loss(o, y) - o.var()),
}  # fmt: skip
HELD = {
    "a squared error": (OUT, HALF, F.mse_loss),
    "a divergence": (torch.cat([HALF, OUT], 1), HALF, elbo(1.0)),
    "classes": (OUT, CLASSES, F.cross_entropy),
    "a sum over probabilities": (HALF, HALF.round(), lambda o, y: F.binary_cross_entropy(o, y)),
    "a normal density": (
        OUT, HALF, lambda o, y: F.gaussian_nll_loss(o[:, :3], y[:, :3], o[:, 3:].exp()),
    ),
    "a critic": (OUT, HALF, lambda o, y: o[::2].mean() - o[1::2].mean()),
    "a policy": (OUT, CLASSES, lambda o, y: (o.log_softmax(1)[:, 0] * (y - 1.5)).mean()),
    "a margin": (
        OUT, HALF, lambda o, y: F.mse_loss(o, y) + F.relu(1 - o.norm(dim=1)).mean(),
    ),
    "an entropy": (OUT, HALF, lambda o, y: -(o.softmax(1) * o.log_softmax(1)).sum(1).mean()),
    "an overlap": (HALF, HALF.round(), lambda o, y: 1 - 2 * (o * y).sum() / (o + y).sum()),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("margin", [None, 1.0])
@pytest.mark.parametrize("least", [-math.inf, 0.0])
def test_distances_that_are_to_grow_without_a_margin_are_endless_whatever_the_draw(
    seed, margin, least
):
    """Of some samples the loss falls as fast as it rises for others along its gradient.

    Distances above alone grow along it and not against it.
    """
    g = torch.Generator().manual_seed(seed)
    shape = (N, 6) if seed % 2 else (N, 2, 3)
    out, targets = torch.randn(shape, generator=g), torch.rand(shape, generator=g)

    def loss(o, y):
        assert o.shape == y.shape
        apart = (o - y).flatten(1)
        near, far = apart[::2].square().sum(1), apart[1::2].clamp(min=least).square().sum(1)
        return near.mean() - (far if margin is None else far.clamp(max=margin)).mean()

    assert is_endless(loss, out, targets) is (margin is None)


@pytest.mark.parametrize("name", [*ENDLESS, *HELD])
def test_a_loss_is_endless_that_falls_faster_than_outputs_grow(name):
    output, targets, loss = (ENDLESS | HELD)[name]
    assert is_endless(loss, output, targets) == (name in ENDLESS)
    if name not in (*ENDLESS, "a sum over probabilities"):
        assert not is_endless(loss, 100 * output, targets)


@pytest.mark.parametrize(
    ("ids", "width", "made"),
    [
        ([0, 0, 1, 1], 2, True),
        ([0, 0, 1, 1], 1, False),  # of one number nothing lies together
        ([0, 1, 2, 2], 2, False),  # most have nobody to lie with
        ([0, 0, 0, 0], 2, False),
    ],
)
def test_embeddings_are_made_up_where_several_samples_are_of_each_class(ids, width, made):
    pairs = _together_and_apart(torch.zeros(4, width), torch.tensor(ids))
    assert bool(pairs) == made
    for together, apart in pairs:
        assert torch.equal(together.sort(0).values, apart.sort(0).values)
        near = torch.cdist(together, together)
        assert near[0, 1] < near[0, 2]


FROM_THE_LOSS = ("needs", "spread", "unread", "omitted", "unpaired")
ASKED = {
    **HEALTHY,
    "ignored": (nn.CrossEntropyLoss(ignore_index=2), CLASSES, None),
    "a step": (lambda o, y: (o.round() - y).square().mean(), VALUES, None),
    "spread": (lambda o, y: (o - y).square().mean(), VALUES[:, :1], None),
    "averaged first": (lambda o, y: (o - y).mean() ** 2, VALUES, None),
    "not read": (lambda o, y: o.square().mean(), VALUES, None),
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ASKED)
def test_what_a_loss_is_some_samples_tell_as_all_do(name, sign, monkeypatch):
    """Where outputs are many; what is then not searched for is not told either."""
    loss, targets, last = ASKED[name]
    signed = lambda o, y: sign * loss(o, y)
    whole = fit([last] if last else [], signed, targets)
    asked = []
    monkeypatch.setattr("sigmascope.survey.task.fits.LARGEST", N)
    some = fit(
        [last] if last else [], lambda o, y: (asked.append(len(o)), signed(o, y))[1], targets
    )
    assert asked.count(N // 4) > asked.count(N)
    for field in FROM_THE_LOSS:
        assert getattr(some, field) == getattr(whole, field), field
    assert (some.labels is None) == (whole.labels is None)
    if some.labels is not None:
        assert (some.labels.kind, some.labels.distinct) == (
            whole.labels.kind,
            whole.labels.distinct,
        )
    if name not in ("in logarithms", "counts"):  # where outputs and targets are on other scales
        assert (some.reversed is None) == (whole.reversed is None)
    assert some.large
    assert not whole.large
    assert math.isnan(some.free)
    assert not some.known


@pytest.mark.parametrize("name", [*ENDLESS, *HELD])
def test_whether_a_loss_is_endless_some_samples_tell_as_all_do(name, monkeypatch):
    output, targets, loss = (ENDLESS | HELD)[name]
    monkeypatch.setattr("sigmascope.survey.task.fits.LARGEST", output.numel() // 4)
    assert is_endless(loss, output, targets) == (name in ENDLESS)


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (lambda o, y: (torch.arange(1.0, N + 1) * F.cross_entropy(o, y, reduction="none")).mean(),
         CLASSES),  # a weight for each sample, which a loss has by heart
        (lambda o, y: F.cross_entropy(o, y.expand(N)), CLASSES[:1]),  # one target for all
        (lambda o, y: F.cross_entropy(o, y["class"]), {"class": CLASSES}),
    ],
)  # fmt: skip
def test_a_loss_that_takes_all_samples_alone_is_asked_of_all(loss, targets, monkeypatch):
    output = torch.randn(N, 4, generator=G)
    monkeypatch.setattr("sigmascope.survey.task.fits.LARGEST", N)
    few, theirs = enough(loss, output, targets)
    assert few is output
    assert theirs is targets


@pytest.mark.parametrize(("most", "rows"), [(1, 2), (4 * 9, 9), (4 * N - 1, N - 1), (4 * N, N)])
def test_samples_that_are_enough_are_spread_over_all(most, rows, monkeypatch):
    monkeypatch.setattr("sigmascope.survey.task.fits.LARGEST", most)
    output = torch.arange(N)[:, None].expand(N, 4).float()
    few, theirs = enough(F.cross_entropy, output, CLASSES)
    at = few[:, 0].long()
    assert len(few) == rows
    assert torch.equal(theirs, CLASSES[at])
    assert (int(at[0]), int(at[-1])) == (0, N - 1)
    assert int(at.diff().max()) <= -(-N // (rows - 1))


def falls(power, *, until=math.inf, then=None, beside=0.0):
    """A loss that falls with a power of the size of outputs, up to one, and otherwise beyond."""

    def loss(o, y):
        size = (o - y).square().mean().sqrt()
        beyond = bool(size > until)
        if beyond and then is None:
            raise ValueError("too far")
        return beside + (then * size if beyond else -(size**power))

    return loss


@pytest.mark.parametrize(
    ("loss", "endless"),
    [
        (falls(1.3), False),
        (falls(1.7), True),
        (falls(2.0, until=50.0, then=0.0), False),  # it is held farther out
        (falls(2.0, until=50.0, then=math.nan), False),
        (falls(2.0, until=50.0), False),
        (falls(2.0, until=50.0, then=-math.inf), True),
        (falls(2.0, until=500.0, then=0.0), True),
        (falls(2.0, beside=1e7), False),  # beside it the fall is small
        (falls(2.0, beside=1e3), True),
    ],
)
def test_a_fall_is_without_end_where_it_is_steep_for_long_and_large(loss, endless):
    assert is_endless(loss, OUT, HALF) is endless


@pytest.mark.parametrize(
    ("now", "same", "free", "room", "over"),
    [
        (3.0, 2.0, 0.5, 0.1, 1.5),
        (-1.0, 2.0, 0.5, 0.1, 0.0),  # below zero is not far
        (3.0, 0.55, 0.5, 0.1, math.nan),  # a constant fits
        (3.0, -1.0, -2.0, 0.1, math.nan),  # of no size that another could be told by
        (3.0, 0.0, -2.0, 0.1, math.nan),
        (3.0, 0.75, 0.5, 0.25, math.nan),
    ],
)
def test_the_first_loss_is_over_a_constants_where_a_constant_does_not_fit(
    now, same, free, room, over
):
    found = TaskFit(None, None, now=now, same=same, free=free, room=room)
    assert found.over_constant == pytest.approx(over, nan_ok=True)


@pytest.mark.parametrize(
    ("reach", "same", "free", "beyond"),
    [
        (2.0, 5.0, 1.0, 0.25),
        (0.9, 5.0, 1.0, 0.0),
        (9.0, 5.0, 1.0, 2.0),
        (2.0, 1.0, 1.0, math.nan),
        (2.0, 0.5, 1.0, math.nan),
        (2.0, math.inf, 1.0, math.nan),
        (math.inf, 5.0, 1.0, math.nan),
        (1.75, 2.0, 1.5, 0.5),
    ],
)
def test_what_is_out_of_reach_counts_in_steps_to_the_best_constant(reach, same, free, beyond):
    found = TaskFit(None, None, same=same, free=free, reach=reach)
    assert found.beyond == pytest.approx(beyond, nan_ok=True)
