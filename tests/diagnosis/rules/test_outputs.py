"""Every end of a model beside every loss and every kind of targets: what is said, and silence.

The grid is the searcher: what is right for a pair follows from what the loss takes (probabilities,
scores, values), not from a list of faults that were seen."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.core.records import Profile
from sigmascope.diagnosis import judge
from sigmascope.diagnosis.rules import RULES
from sigmascope.diagnosis.rules.outputs import (
    indifferent_loss,
    out_of_reach,
    single_target,
    softmax_in_the_loss,
)
from tests.diagnosis.readings import BELOW, fact, profile as of, reading, said
from tests.models_zoo import Net

TWICE = "softmax-in-the-loss"
N, K, EPS = 64, 4, 1e-7
G = torch.Generator().manual_seed(0)
X = torch.randn(N, 6, generator=G)
IDS = torch.arange(N).remainder(K)
FIT = {
    "constant-output", "indifferent-loss", "unpaired-loss", "classes-on-one-output",
    "spread-targets", "shared-classes", "raw-output", "unsuited-closing", "double-softmax",
    "single-target", "out-of-reach", "squared-error-for-classes", "unfit-targets",
}  # fmt: skip


def clipped(p, y):
    p = p.clamp(EPS, 1 - EPS)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()


def shares(p, y):
    y = F.one_hot(y, p.shape[-1]) if y.dtype == torch.long else y
    return -(y * (p / p.sum(-1, keepdim=True)).clamp(EPS, 1 - EPS).log()).sum(-1).mean()


def logarithm(p, y):
    return F.nll_loss(p.clamp_min(EPS).log(), y)


def squared(p, y):
    return (p - y).square().mean()


def found(width, last, loss, targets):
    torch.manual_seed(0)
    end = [] if last is None else [last]
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, width), *end)
    profile = survey.profile(model, X, targets=targets, loss=loss, views=["setup"])
    return {f.name: f.severity for f in judge(profile) if f.name in FIT}


ENDS = {
    "raw": None,
    "relu": nn.ReLU(),
    "tanh": nn.Tanh(),
    "sigmoid": nn.Sigmoid(),
    "softmax": nn.Softmax(-1),
    "log": nn.LogSoftmax(-1),
}
CLASS_LOSSES = {  # of one class of many: the ends that go with it
    "scores": (F.cross_entropy, {"raw", "log"}),
    "shares": (shares, {"softmax"}),
    "picked": (logarithm, {"softmax"}),
    "logarithms": (F.nll_loss, {"log"}),
}


@pytest.mark.parametrize(("end", "name"), [*itertools.product(ENDS, CLASS_LOSSES)])
def test_one_class_of_many(end, name):
    loss, right = CLASS_LOSSES[name]
    names = found(K, ENDS[end], loss, IDS)
    if end in right:
        assert names == {}
    else:
        assert len(names) == 1, names
        assert set(names) <= {"raw-output", "unsuited-closing", "double-softmax"}
        assert ("raw-output" in names) is (end == "raw")
        assert ("double-softmax" in names) is ((end, name) == ("softmax", "scores"))


def twice(z, y):
    return F.cross_entropy(z.softmax(-1), y)


def smoothed(z, y):
    return F.cross_entropy(z, y, label_smoothing=0.2)


@pytest.mark.parametrize("k", [2, 4, 100])
@pytest.mark.parametrize("loss", [twice, smoothed, F.cross_entropy])
def test_a_loss_that_makes_shares_of_shares(loss, k):
    torch.manual_seed(0)
    targets = torch.arange(N).remainder(k)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, k))
    profile = survey.profile(model, X, targets=targets, loss=loss, views=["setup"])
    names = {f.name: f.severity for f in judge(profile) if f.name in {*FIT, TWICE}}
    assert names == ({TWICE: "warning"} if loss is twice else {})


def test_the_floor_of_a_softmax_of_a_softmax():
    facts = (
        reading("distinct targets", 4.0, "(targets)"),
        fact("kind of targets", "classes"),
        fact("taken by the loss", "any numbers"),
        fact("counted by the loss", "scores"),
    )
    speaks = lambda floor: said(softmax_in_the_loss, *facts, reading("least loss", floor))
    floor = lambda k: math.log1p((k - 1) / math.e)
    spoken = [k for k in (4, 4.007, 4.009, 5, 3) if speaks(floor(k))]
    assert spoken == [4, 4.007, 5]


BINARY = {
    "probability": (F.binary_cross_entropy, {"sigmoid"}),
    "clipped": (clipped, {"sigmoid"}),
    "logits": (F.binary_cross_entropy_with_logits, {"raw"}),
}


@pytest.mark.parametrize(("end", "name"), [*itertools.product(["raw", "relu", "sigmoid"], BINARY)])
def test_yes_or_no(end, name):
    loss, right = BINARY[name]
    if name == "probability" and end != "sigmoid":
        loss = clipped  # torch's own raises, which is a finding of its own
    names = found(1, ENDS[end], loss, IDS.remainder(2).float()[:, None])
    assert (names == {}) is (end in right), names


@pytest.mark.parametrize("least", [0, 1])
def test_a_loss_that_is_a_softmax_over_one_output(least):
    alone = lambda p, y: -(y * p.log_softmax(-1)).sum(-1).mean()
    assert next(iter(found(1, None, alone, (IDS + least).float()[:, None]))) == "indifferent-loss"


def test_a_loss_in_steps_is_no_softmax_over_one_output():
    """What to do differs: more outputs are of no use to a loss of `argmax`."""
    said = {}
    one = "constant, of one column"
    for form in ("in steps", "constant", one):
        for zeros in (0.0, 0.5):
            (said[form, zeros],) = indifferent_loss(
                of(fact("indifferent loss", form), reading("loss of zeros", zeros, "(loss)"))
            )
    assert "argmax" in said["in steps", 0.0].says
    assert [key for key, f in said.items() if "softmax" in f.says] == [(one, 0.0)]
    assert [key for key, f in said.items() if "one output" in f.remedies[0]] == [(one, 0.0)]


def test_a_loss_that_calls_the_model_itself():
    facts = [fact("indifferent loss", "constant, of one column"),
             reading("loss of zeros", 0.4, "(loss)")]  # fmt: skip
    fits = reading("probability of fitting", 0.1, "(model)", "setup")
    assert "no-progress" in {f.name for f in judge(of(*facts, fits))}
    steps = reading("Polyak step", 1.0, "(loss)", "setup")
    (only,) = judge(of(*facts, fits, steps))
    assert (only.name, only.severity) == ("indifferent-loss", "note")
    assert "calls the model" in only.says


def triplets(sign):
    """Hinges of distances within a class less those beyond it, or the other way round."""

    def loss(out, y):
        apart = torch.cdist(out, out)
        same = y[:, None] == y
        within = apart.masked_fill(~same, -1.0).amax(1)
        beyond = apart.masked_fill(same, 1e6).amin(1)
        return F.softplus(sign * (within - beyond)).mean()

    return loss


@pytest.mark.parametrize("width", [2, 3, 6])
def test_a_loss_of_embeddings_that_draws_classes_apart(width):
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, width))
    told = []
    for sign in (1.0, -1.0):
        profile = survey.profile(model, X, targets=IDS, loss=triplets(sign), views=["setup"])
        told.append({f.name: f.severity for f in judge(profile)}.get("reversed-loss"))
    assert told == [None, "error"]


class Mixture(nn.Module):
    """Probabilities of classes by each of some experts, or their logarithms."""

    def __init__(self, *, logs, norm=True):
        super().__init__()
        self.logs, self.norm = logs, norm
        self.expert = nn.Parameter(torch.randn(8, K, generator=torch.Generator().manual_seed(0)))

    def forward(self, z):
        each = self.expert.softmax(-1) if self.norm else self.expert.sigmoid()
        p = z.softmax(-1) @ each
        return (p + 1e-9).log() if self.logs else p


@pytest.mark.parametrize(
    ("logs", "name", "said"),
    [
        (True, "logarithms", set()),
        (False, "shares", set()),
        (False, "picked", set()),
        (False, "scores", {"double-softmax"}),
        (False, "logarithms", {"unsuited-closing"}),
    ],
)
def test_rows_that_sum_to_one_by_what_the_model_is_are_probabilities(logs, name, said):
    loss = CLASS_LOSSES[name][0]
    assert {*found(8, Mixture(logs=logs), loss, IDS)} == said
    other = {*found(8, Mixture(logs=logs, norm=False), loss, IDS)}  # these do not: are they held?
    raw = not logs and name == "logarithms"
    assert other == ({"unsuited-closing"} if logs else {"raw-output"} if raw else set())


def test_how_far_a_mixture_of_probabilities_may_come_is_not_told():
    """The search for the best outputs takes what the last weight writes for any numbers."""
    mixed = nn.Sequential(nn.Linear(6, 8), Mixture(logs=False))
    ended = nn.Sequential(nn.Linear(6, K), nn.Softmax(-1))
    task = {"targets": IDS, "loss": F.cross_entropy, "views": ["setup"]}
    assert not survey.profile(mixed, X, **task).series("out of reach")
    assert survey.profile(ended, X, **task).series("out of reach")


VALUES, BITS = torch.randn(N, 2, generator=G), (IDS[:, None] >> torch.arange(2) & 1).float()
SHARED = {"shared-classes": "error", "squared-error-for-classes": "note"}
YES, HOT = IDS.remainder(2).float()[:, None], torch.eye(K)[IDS]
SOFT, KL = 0.9 * torch.eye(K)[IDS] + 0.1 / K, nn.KLDivLoss(reduction="batchmean")


@pytest.mark.parametrize(
    ("width", "last", "loss", "targets", "names"),
    [
        # values, within the end and beyond it
        (2, None, squared, VALUES, {}),
        (2, nn.Tanh(), squared, VALUES.clamp(-0.9, 0.9), {}),
        (2, nn.Sigmoid(), squared, VALUES.sigmoid(), {}),
        (2, nn.Softplus(), squared, VALUES.exp(), {}),
        (2, nn.ReLU(), squared, 30 * VALUES, {"out-of-reach": "warning"}),
        *(
            (2, ENDS[end], squared, 30 * VALUES, {"out-of-reach": "error"})
            for end in ("tanh", "sigmoid", "softmax")
        ),
        # errors that are averaged first, shapes that are spread, one class only
        (2, None, lambda o, y: (o - y).mean() ** 2, VALUES, {"unpaired-loss": "error"}),
        (2, None, lambda o, y: (o - y).mean(), VALUES, {"unpaired-loss": "error"}),
        (5, None, squared, VALUES[:, :1], {"spread-targets": "error"}),
        (K, None, F.cross_entropy, torch.zeros_like(IDS), {"single-target": "error"}),
        # a constant end is all that is said
        (1, nn.Softmax(-1), clipped, YES, {"constant-output": "error"}),
        (3, nn.Threshold(1e9, 0.5), squared, YES.expand(-1, 3), {"constant-output": "error"}),
        # labels that hold together, and that do not
        (2, nn.Softmax(-1), squared, BITS, SHARED),
        (2, nn.Sigmoid(), clipped, BITS, {}),
        (K, nn.Softmax(-1), squared, HOT, {"squared-error-for-classes": "note"}),
        (K, nn.Sigmoid(), clipped, HOT, {"unsuited-closing": "warning"}),
        # logarithms beside rows of probabilities
        (K, nn.Softmax(-1), KL, SOFT, {"unsuited-closing": "warning"}),
        (K, None, KL, SOFT, {"raw-output": "error"}),
        (K, nn.LogSoftmax(-1), KL, SOFT, {}),
        # classes by number on one output
        *(
            (1, end, loss, (IDS + least).float()[:, None], {"classes-on-one-output": severity})
            for least in (0, 1)
            for end, loss, severity in ((nn.Sigmoid(), clipped, "error"), (None, squared, "note"))
        ),
    ],
)
def test_an_end_beside_a_loss_and_targets(width, last, loss, targets, names):
    assert found(width, last, loss, targets) == names


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("value", [0.0, 1.0, 3.0])
def test_one_value_is_no_class(value, width):
    # data are put in behind the last weight, as the residual of an equation
    drawn = lambda z: torch.randn(z.shape, generator=torch.Generator().manual_seed(1))
    left = Net(lambda self, z: z - drawn(z))
    targets = torch.full((N, width), value)
    assert found(width, None, squared, targets) == {"single-target": "error"}
    assert found(width, left, squared, targets) == {"single-target": "note"}


@pytest.mark.parametrize(
    ("batch", "severity"), [("8 samples", "error"), ("7 samples", "warning"), ("1 sample", None)]
)
def test_how_many_targets_are_enough(batch, severity):
    one = Profile((reading("distinct targets", 1, "(targets)"),),
                  about={"batch": batch})  # fmt: skip
    assert {f.severity for f in single_target(one)} == ({severity} if severity else set())


@pytest.mark.parametrize(
    ("beyond", "severity"),
    [(0.05 * BELOW, None), (0.05, "warning"), (0.5 * BELOW, "warning"), (0.5, "error")],
)
def test_how_far_is_too_far(beyond, severity):
    searched = reading("out of reach", beyond, "(output)", "setup", "tanh")
    searched = replace(searched, estimate=replace(searched.estimate, how="quasi-newton"))
    kind = fact("kind of targets", "values")
    end = reading("greatest output", 1.0, "(output)", "setup", "tanh")
    assert said(out_of_reach, searched, kind, end).get("out-of-reach") == severity
    # without an end it may be the search that failed; without a form of targets nothing is wanted
    noted = severity and "note"
    assert said(out_of_reach, searched, kind).get("out-of-reach") == noted
    other = replace(searched, estimate=replace(searched.estimate, how="another search"))
    assert said(out_of_reach, other, kind, end).get("out-of-reach") == noted
    assert said(out_of_reach, searched, end) == {}


@pytest.mark.parametrize("name", ["constant output", "indifferent loss", "spread targets"])
def test_what_makes_the_rest_meaningless_silences_it(name):
    facts = [reading("out of reach", 1.0, "(output)", "setup", "tanh"),
             fact(name)]  # fmt: skip
    assert said(out_of_reach, *facts) == {}


def test_without_targets_all_are_silent():
    profile = survey.profile(nn.Linear(6, 2), X)
    rules = [r for r in RULES if r.__module__.endswith(".outputs")]
    assert len(rules) > 10
    assert not [f for rule in rules for f in rule(profile)]


@pytest.mark.parametrize(("sign", "told"), [(-1.0, ["unbounded-loss"]), (1.0, [])])
def test_a_divergence_that_is_taken_away_is_a_loss_without_end(sign, told):
    g = torch.Generator().manual_seed(0)
    x = torch.rand(64, 6, generator=g)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 12))

    def loss(out, y):
        shares, mean, log = out[:, :6].sigmoid(), out[:, 6:9], out[:, 9:]
        divergence = -0.5 * (1 + log - mean.square() - log.exp()).sum(1).mean()
        return F.mse_loss(shares, y) + sign * divergence

    found = judge(survey.profile(model, x, targets=x, loss=loss))
    assert [f.name for f in found if f.name == "unbounded-loss"] == told


@pytest.mark.parametrize("shares", [True, False])
def test_a_mixture_of_parts_without_shares_is_a_loss_without_end(shares):
    g = torch.Generator().manual_seed(0)
    x = torch.rand(64, 6, generator=g)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 9))

    def loss(out, y):
        scores, mean, spread = out.chunk(3, -1)
        scores = scores.log_softmax(-1) if shares else scores
        density = torch.distributions.Normal(mean, spread.exp()).log_prob(y)
        return -torch.logsumexp(scores + density, -1).mean()

    found = judge(survey.profile(model, x, targets=x[:, :1], loss=loss))
    said = [f for f in found if f.name == "unbounded-loss"]
    assert bool(said) is not shares
    assert all("log_softmax" in " ".join(f.remedies) for f in said)


def test_a_reversed_overlap_of_masks_is_no_distance():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(32, 1, 8, 8, generator=g)
    y = (x > 0).float()
    model = nn.Conv2d(1, 1, 3, padding=1)

    def overlap(out, y):
        p, both = out.sigmoid(), lambda t: t.sum(dim=(1, 2, 3))
        return (2 * both(p * y) / (both(p) + both(y))).mean()

    found = judge(survey.profile(model, x, targets=y, loss=overlap))
    assert {f.name: f.severity for f in found}["reversed-loss"] != "note"
