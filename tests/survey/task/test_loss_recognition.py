"""What targets are is told by their values and the shape of the output."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.survey.task import (
    Needs,
    constant_loss,
    free_starts,
    labels_of,
    least_loss,
    needs_of,
    room_of,
)
from sigmascope.survey.task.loss_recognition import _constants, domain_of, tail_starts

SAMPLES = 64


def ids(kinds, *shape):
    return torch.arange(torch.Size(shape).numel()).remainder(kinds).reshape(shape)


KINDS = {
    "classes": (torch.zeros(SAMPLES, 5), ids(5, SAMPLES)),
    "pixels": (torch.zeros(SAMPLES, 5, 4, 4), ids(5, SAMPLES, 4, 4)),
    "tokens": (torch.zeros(SAMPLES, 7, 5), ids(5, SAMPLES, 7)),
    "one of many": (torch.zeros(SAMPLES, 5), torch.eye(5)[ids(5, SAMPLES)]),
    "several of many": (
        torch.zeros(SAMPLES, 3),
        (ids(8, SAMPLES)[:, None] >> torch.arange(3) & 1).float(),
    ),
    "yes or no": (torch.zeros(SAMPLES, 1), ids(2, SAMPLES, 1).float()),
    "ids as values": (torch.zeros(SAMPLES, 1), ids(10, SAMPLES, 1).float()),
    "from one": (torch.zeros(SAMPLES, 1), 1 + ids(4, SAMPLES, 1).float()),
    "values": (torch.zeros(SAMPLES, 1), torch.linspace(0, 1, SAMPLES)[:, None]),
    "counts": (torch.zeros(SAMPLES, 1), ids(60, SAMPLES, 1).float()),
    "even numbers": (torch.zeros(SAMPLES, 1), 10 * ids(6, SAMPLES, 1).float()),
}
NAMES = {"pixels": "classes", "tokens": "classes", "from one": "ids as values",
         "counts": "values", "even numbers": "values"}  # fmt: skip


def test_labels_that_a_loss_compares_with_one_output_each_are_wanted_in_its_form():
    """It squeezes the output, or the targets."""
    yes = ids(2, SAMPLES).float()
    for output, targets in ((yes[:, None], yes), (yes, yes[:, None]), (yes, yes)):
        found = labels_of(output, targets)
        assert (found.kind, found.wanted.shape) == ("yes or no", output.shape)
        assert torch.equal(found.wanted.float(), output)
    assert labels_of(torch.zeros(SAMPLES, 2), yes).wanted is None


@pytest.mark.parametrize("case", KINDS)
def test_kinds(case):
    output, targets = KINDS[case]
    found = labels_of(output, targets)
    assert found.kind == NAMES.get(case, case)
    assert found.exclusive is (found.kind in ("classes", "one of many"))


@pytest.mark.parametrize("case", ["classes", "pixels", "tokens", "one of many"])
def test_one_output_is_wanted_of_each_row(case):
    output, targets = KINDS[case]
    found = labels_of(output, targets)
    assert found.distinct == 5
    assert bool((found.wanted.sum(found.dim) == 1).all())
    if targets.dtype == torch.long:
        assert torch.equal(found.wanted.to(torch.int8).argmax(found.dim), targets)


def test_what_the_loss_leaves_out_is_not_wanted():
    targets = ids(5, SAMPLES)
    targets[:10] = -100
    found = labels_of(torch.zeros(SAMPLES, 5), targets)
    assert int(found.counted.sum()) == SAMPLES - 10
    assert not bool(found.wanted[:10].any())
    assert labels_of(torch.zeros(SAMPLES, 5), torch.full((SAMPLES,), -100)) is None


def test_what_fits_no_shape_is_told_as_far_as_it_goes():
    output = torch.zeros(SAMPLES, 3)
    assert labels_of(output, ids(5, SAMPLES, 2)).wanted is None
    assert labels_of(output, torch.zeros(0)) is None
    assert labels_of(output, torch.zeros(SAMPLES, 3, dtype=torch.complex64)) is None


# ------------------------------------------------------------------------------
# How low a loss gets, against what arithmetic says.


MANY, WIDE = 60, 3
G = torch.Generator().manual_seed(0)
OF_CLASSES = torch.randint(WIDE, (MANY,), generator=G)
OF_YES = (torch.rand(MANY, 1, generator=G) < 0.3).float()
OF_VALUES = 40 + 3 * torch.randn(MANY, 2, generator=G)


def entropy(p):
    return -(p * p.log()).sum().item()


def binary(p):
    p = float(p.mean())
    return -(p * math.log(p) + (1 - p) * math.log(1 - p))


SHARES = OF_CLASSES.bincount().double() / MANY


@pytest.mark.parametrize(
    ("loss", "width", "targets", "least"),
    [
        (F.cross_entropy, WIDE, OF_CLASSES, entropy(SHARES)),
        (
            lambda p, y: F.nll_loss(p.log(), y),
            WIDE,
            OF_CLASSES,
            None,
        ),  # unbounded, and nan at zero
        (F.binary_cross_entropy, 1, OF_YES, binary(OF_YES)),
        (F.binary_cross_entropy_with_logits, 1, OF_YES, binary(OF_YES)),
        (F.mse_loss, 2, OF_VALUES, float(OF_VALUES.double().var(0, correction=0).mean())),
        (F.l1_loss, 2, OF_VALUES, float((OF_VALUES - OF_VALUES.median(0).values).abs().mean())),
    ],
)
def test_the_best_constant(loss, width, targets, least):
    found = constant_loss(torch.full((MANY, width), 0.3), targets, loss)
    if least is None:
        assert math.isfinite(found)
    else:
        assert found == pytest.approx(least, rel=2e-3)


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_a_constant_is_one_for_all_samples_wherever_the_output_has_them(kind):
    """Time first is the same task as samples first, of which each place has its own constant."""
    steps, output = 7, torch.randn(MANY, 7, WIDE, generator=G)
    if kind == "classes":
        targets = torch.randint(WIDE, (MANY, steps), generator=G)
        loss = lambda o, y: F.cross_entropy(o.flatten(0, 1), y.flatten())
        late = lambda o, y: F.cross_entropy(o.flatten(0, 1), y.T.flatten())
    else:
        targets = torch.randn(MANY, steps, WIDE, generator=G)
        loss, late = F.mse_loss, lambda o, y: F.mse_loss(o, y.transpose(0, 1))
    found = constant_loss(output, targets, loss)
    assert constant_loss(output.transpose(0, 1), targets, late) == pytest.approx(found, rel=1e-3)
    if kind == "values":
        truth = float(targets.double().var(0, correction=0).mean())
        assert found == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("dim", [0, 1])
def test_the_mean_of_the_targets_is_tried_wherever_the_samples_are(dim):
    targets = torch.randn(MANY, 7, WIDE, generator=G)
    output = torch.zeros(MANY, 7, WIDE).transpose(0, dim)
    mean = targets.mean(0, keepdim=True).transpose(0, dim)
    assert any(s.shape == mean.shape and s.equal(mean) for s in _constants(output, targets, dim))


def test_a_loss_that_is_nowhere_finite_has_none():
    loss = lambda o, y: (o - y).mean() / 0
    assert constant_loss(torch.zeros(MANY, 2), OF_VALUES, loss) == math.inf


def test_a_search_that_gains_nothing_more_ends():
    """The entropy of the labels is reached in a few steps; behind them all is rounding."""
    targets, asked = torch.arange(90).sqrt().long(), []

    def loss(output, targets):
        asked.append(1)
        return F.cross_entropy(output, targets)

    found = constant_loss(torch.zeros(90, 10), targets, loss)
    shares = targets.bincount().double() / 90
    assert found == pytest.approx(float(-(shares * shares.log()).sum()), rel=1e-6)
    assert len(asked) < 50


@pytest.mark.parametrize(
    ("loss", "width", "targets"),
    [
        (F.cross_entropy, WIDE, OF_CLASSES),
        (F.binary_cross_entropy, 1, OF_YES),
        (F.binary_cross_entropy_with_logits, 1, OF_YES),
        (F.mse_loss, 2, OF_VALUES),
    ],
)
def test_the_best_of_all_outputs(loss, width, targets):
    output = torch.zeros(MANY, width)
    starts = free_starts(output, targets, labels_of(output, targets))
    found, best = least_loss(lambda o: o, starts, targets, loss)
    assert found == pytest.approx(0.0, abs=1e-4)
    assert float(loss(best, targets)) == pytest.approx(found, abs=1e-6)


def test_within_a_range_the_best_is_the_nearest():
    """Two labels at once under a softmax: (1, 1, 0) is nearest at (1/2, 1/2, 0)."""
    targets = torch.tensor([[1.0, 1.0, 0.0]]).expand(MANY, 3)
    starts = [torch.zeros(MANY, 3), torch.randn(MANY, 3, generator=G)]
    found, best = least_loss(lambda z: z.softmax(-1), starts, targets, F.mse_loss)
    assert found == pytest.approx(0.5 / 3, rel=1e-3)
    assert torch.allclose(best[0], torch.tensor([0.5, 0.5, 0.0]), atol=0.02)


@pytest.mark.parametrize("now", [1e12, math.nan, math.inf])
@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (F.cross_entropy, torch.arange(8) % 4),
        (F.mse_loss, torch.eye(4).repeat(2, 1)),
        (F.binary_cross_entropy, torch.eye(4).repeat(2, 1)),  # takes nothing beyond 0 and 1
    ],
)
def test_losses_are_told_apart_however_large_the_models_is(loss, targets, now):
    room = room_of(loss, torch.full((8, 4), 1e9), targets, now)
    assert 0 < room < 1e-5
    assert room_of(loss, torch.zeros(8, 4), targets, 1e-3) == pytest.approx(1e-9)


def test_a_loss_that_bears_nothing_made_up_is_measured_by_its_own_size():
    def picky(output, targets):
        raise ValueError

    assert room_of(picky, torch.zeros(3, 1), torch.zeros(3, 1), 5.0) == pytest.approx(5e-6)


# ------------------------------------------------------------------------------
# What a loss asks of outputs is told by what it does with outputs that are made up.


N, K, EPS = 48, 5, 1e-7
CLASSES = torch.arange(N).remainder(K)
HOT = torch.eye(K)[CLASSES]
YES = torch.arange(N).remainder(2).float()[:, None]
VALUES = torch.linspace(-2, 3, N)[:, None]


def clipped(p, y):
    p = p.clamp(EPS, 1 - EPS)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()


def shares(p, y):
    p = (p / p.sum(-1, keepdim=True)).clamp(EPS, 1 - EPS)
    return -(F.one_hot(y, K) * p.log()).sum(-1).mean()


PROBABILITIES = {
    "binary": (F.binary_cross_entropy, 1, YES, "each"),
    "binary, clipped": (clipped, 1, YES, "each"),
    "binary of each": (clipped, K, HOT, "each"),
    "shares": (shares, K, CLASSES, "shares"),
    "picked": (lambda p, y: F.nll_loss(p.clamp_min(EPS).log(), y), K, CLASSES, "picked"),
    "scores of logarithms": (
        lambda p, y: F.cross_entropy(p.clamp(EPS, 1 - EPS).log(), y), K, CLASSES, "shares",
    ),
    "focal": (
        lambda p, y: (-(1 - p) ** 2 * y * p.clamp_min(EPS).log()
                      - p**2 * (1 - y) * (1 - p).clamp_min(EPS).log()).mean(), 1, YES, "each",
    ),
}  # fmt: skip
OTHERS = {
    "cross-entropy": (F.cross_entropy, K, CLASSES, "scores"),
    "soft cross-entropy": (F.cross_entropy, K, HOT, "scores"),
    "binary of logits": (F.binary_cross_entropy_with_logits, 1, YES, "each"),
    "squared": (F.mse_loss, 1, VALUES, "each"),
    "squared of classes": (F.mse_loss, K, HOT, "each"),
    "absolute": (F.l1_loss, 1, VALUES, "each"),
    "hinge": (F.multi_margin_loss, K, CLASSES, "scores"),
    "negative log likelihood": (F.nll_loss, K, CLASSES, "picked"),
    "cosine": (lambda o, y: -F.cosine_similarity(o, y).mean(), K, HOT, "each"),
}


SOFT = 0.9 * HOT + 0.1 / K


@pytest.mark.parametrize(
    ("loss", "targets", "logarithms"),
    [
        (F.nll_loss, CLASSES, True),
        (nn.KLDivLoss(reduction="batchmean"), SOFT, True),
        (lambda o, y: 7 * F.kl_div(o, y, reduction="sum"), SOFT, True),
        (nn.KLDivLoss(reduction="batchmean", log_target=True), SOFT.log(), True),
        (lambda o, y: -(torch.arange(N)[:, None] * y * o).sum(), SOFT, True),  # weighted samples
        (lambda o, y: -(y * o).sum(), 2 * SOFT, False),  # no probabilities
        (lambda o, y: (y * o).sum(), SOFT, False),
        (lambda o, y: -(y * o.log_softmax(-1)).sum(), SOFT, False),
        (F.mse_loss, SOFT, False),
    ],
)
def test_losses_of_logarithms(loss, targets, logarithms):
    assert asked(loss, K, targets).logarithms is logarithms


def test_rounding_is_no_logarithm():
    """Of directions alone: outputs that are all the same have the same one, but for rounding."""
    ids = YES[:, 0]
    pairs = lambda o, y: F.cosine_embedding_loss(o[:, :8], o[:, 8:], y)
    found = needs_of(pairs, torch.zeros(N, 16), ids, labels_of(torch.zeros(N, 16), ids))
    assert not found.probabilities


def asked(loss, width, targets):
    output = torch.zeros(N, width)
    return needs_of(loss, output, targets, labels_of(output, targets))


@pytest.mark.parametrize("name", [*PROBABILITIES, *OTHERS])
def test_losses_of_probabilities_are_told_from_those_of_other_numbers(name):
    loss, width, targets, coupling = (PROBABILITIES | OTHERS)[name]
    found = asked(loss, width, targets)
    assert found.probabilities == (name in PROBABILITIES)
    assert (found.coupling, found.indifferent) == (coupling, False)
    assert name in OTHERS or found.least == 0.0


def test_a_loss_of_positive_numbers_is_none_of_probabilities():
    found = asked(lambda o, y: (o - y * (o + EPS).log()).mean(), 1, VALUES.abs())
    assert (found.least, found.most, found.probabilities) == (0.0, math.inf, False)


@pytest.mark.parametrize(
    ("loss", "width", "targets", "stepped"),
    [
        (F.cross_entropy, 1, torch.zeros(N, dtype=torch.long), False),  # a softmax over one score
        (lambda o, y: (0 * o).sum() + y.sum(), 1, VALUES, False),
        (lambda o, y: (o.detach() - y).square().mean(), 1, VALUES, True),
        (lambda o, y: (o.round() - y).square().mean(), 1, VALUES, True),
        (lambda z, y: F.mse_loss(z.argmax(-1).float(), y.float()), K, CLASSES, True),
        (lambda z, y: (z.argmax(-1) != y).float().mean(), K, CLASSES, True),
    ],
)
def test_indifferent_losses(loss, width, targets, stepped):
    assert asked(loss, width, targets) == Needs(indifferent=True, stepped=stepped)


def test_a_loss_that_bears_nothing_made_up_is_not_known():
    def loss(o, y):
        raise ValueError

    assert asked(loss, 1, VALUES) is None


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, 2] * 4, "ids as values"),
        (([0, 1, 2] * 4)[:-1], "values"),  # not often enough
        ([1, 2, 3] * 4, "ids as values"),
        ([2, 3, 4] * 4, "values"),  # nothing counts from two
        ([-1, 0, 1] * 4, "values"),
        ([0, 2] * 9, "values"),  # too few
        ([0, 2, 4, 6] * 4, "ids as values"),
        ([0, 3, 6] * 4, "values"),  # most are left out
        ([0, 1, 2.5] * 4, "values"),
        ([*range(200)] * 4, "ids as values"),
        ([*range(201)] * 4, "values"),
    ],
)
def test_few_whole_numbers_that_come_again_and_again_may_be_ids(values, kind):
    targets = torch.tensor(values, dtype=torch.float32)[:, None]
    assert labels_of(torch.zeros(len(values), 1), targets).kind == kind


def test_rows_of_two_numbers_are_no_ids():
    targets = torch.tensor([[0.0, 1], [1, 2], [2, 0]]).repeat(8, 1)
    assert labels_of(torch.zeros(24, 2), targets).kind == "values"


@pytest.mark.parametrize("dim", [1, -1])
def test_outputs_are_logarithms_of_shares_where_every_row_of_them_is(dim):
    scores = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(0))
    shares = scores.log_softmax(dim)
    for apart, found in ((0.0, shares), (9e-4, shares), (-9e-4, shares), (1.1e-3, scores)):
        assert torch.allclose(domain_of(shares + apart)(scores), found)
    one = scores.clone()
    one[0] = shares[0]
    assert torch.equal(domain_of(one)(scores), scores)
    assert torch.equal(domain_of(torch.zeros(6, 1))(torch.ones(6, 1)), torch.ones(6, 1))


@pytest.mark.parametrize(
    "case", ["classes", "pixels", "one of many", "several of many", "yes or no"]
)
def test_a_side_for_each_label_is_among_the_starts(case):
    output, targets = KINDS[case]
    labels = labels_of(output, targets)
    for starts in (free_starts(output, targets, labels), tail_starts(output, output, labels)):
        sides = [s for s in starts if torch.equal(s > 0, labels.wanted) and s.min() < 0]
        assert sorted(float(s.abs().max()) for s in sides) == [1.0, 10.0, 100.0]
        assert any(torch.equal(s, labels.wanted.float()) for s in starts)


def test_targets_that_are_no_labels_have_no_sides():
    output, targets = torch.ones(SAMPLES, 3), torch.rand(SAMPLES, 3) + 2
    starts = free_starts(output, targets, labels_of(output, targets))
    assert [s.unique().numel() for s in starts[:3]] == [1, 1, 1]
    assert torch.equal(starts[3], targets)
    assert len(starts) == len(free_starts(output, targets, None)) == 4
    assert len(tail_starts(torch.ones(SAMPLES, 7), output, None)) == 4


def test_the_two_best_starts_go_on_and_the_lower_end_counts():
    wells = torch.tensor([[0.0, 10.0, 20.0]])
    starts = [torch.tensor([[at]]) for at in (28.0, 10.5, 1.2)]  # the third is in the deepest

    def loss(deep):
        return lambda o, y: ((o - wells).square() + torch.tensor([deep])).amin()

    found, best = least_loss(lambda o: o, starts, None, loss([1.0, 2.0, -50.0]))
    assert (found, float(best)) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-3))
    found, best = least_loss(lambda o: o, starts, None, loss([2.0, 1.0, -50.0]))
    assert (found, float(best)) == (pytest.approx(1.0), pytest.approx(10.0, abs=1e-3))


def test_a_loss_that_is_zero_at_every_share_asks_for_none():
    targets = torch.randn(SAMPLES, 4, generator=torch.Generator().manual_seed(0))
    loss = lambda o, y: F.relu(o.abs() - 2).mean() + 0 * y.sum()
    found = needs_of(loss, torch.zeros(SAMPLES, 4), targets, None)
    assert found is not None
    assert (found.least, found.most, found.indifferent) == (-math.inf, math.inf, False)
