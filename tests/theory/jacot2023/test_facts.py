"""Theorems on a stack at one sample hold, and have teeth; other networks are declined."""

from dataclasses import replace

import pytest
import torch

from sigmascope.core.records import Verdict
from sigmascope.models import Subject
from sigmascope.models.networks import mlp
from sigmascope.theory import check, jacot2023
from sigmascope.theory.jacot2023 import facts
from tests.models_zoo import MODELS, subject_of
from tests.sampling import some
from tests.theory.jacot2023.stacks import GOOD, at, faked, points

ONE_POINT = {
    jacot2023.JacobianCost: None,
    jacot2023.JacobianRank: None,
    jacot2023.BottleneckFrames: None,
    jacot2023.OneFrame: 0.0,
    jacot2023.TangentCurvature: 0.0,
}


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("theorem", ONE_POINT, ids=lambda t: t.name)
def test_it_holds_on_random_networks(theorem):
    for _, point, _ in points(ONE_POINT[theorem]):
        found = theorem("here", point).check()
        assert found.verdict in GOOD, found
        assert any(a.met is not None for a in found.assumptions)


def at_equality(theorem):
    """A network and an input at which a theorem is an equality."""
    if theorem in (jacot2023.JacobianCost, jacot2023.TangentCurvature):
        return at(1.0, 1.3, 1.3, 1.3, 1.3)
    return at(1.0, 1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("theorem", ONE_POINT, ids=lambda t: t.name)
def test_it_has_teeth(theorem):
    """At equality nothing is proved; a Jacobian that is a part in a million off decides."""
    point = at_equality(theorem)
    found = theorem("here", point).check()
    assert found.verdict in GOOD
    assert found.measured.value == pytest.approx(found.limit.value, abs=1e-12)
    for factor, verdict in ((1 + 1e-6, Verdict.VIOLATED), (1 - 1e-6, Verdict.HOLDS)):
        fake = faked(point, jacobian=factor * point.jacobian)
        assert theorem("here", fake).check().verdict == verdict


def model(**options):
    g = torch.Generator().manual_seed(0)
    return mlp(inputs=6, outputs=3, depth=3, width=10, init="he", generator=g, **options).double()


X = torch.randn(9, 6, generator=torch.Generator().manual_seed(1)).double()


NAMES = [t.name for t in jacot2023.THEOREMS]


def test_models_are_checked():
    found = list(check(Subject(model(), X), only=NAMES))
    straight = list(check(Subject(model(activation="linear"), X), only=NAMES))
    said = {c.theorem for c in found + straight}
    assert said >= set(NAMES) - {"representation-rank"}
    assert Verdict.VIOLATED not in {c.verdict for c in found}
    assert Verdict.HOLDS in {c.verdict for c in found if c.theorem == "bottleneck-frames"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"norm": "batch"}, "something else than one activation"),
        ({"activation": "tanh"}, "something else than one activation"),
        ({"residual": 0.5}, "something else than one activation"),
    ],
)
def test_other_networks_are_declined_with_the_reason(options, says):
    found = list(check(Subject(model(**options), X), only=NAMES))
    assert {c.verdict for c in found} == {Verdict.INAPPLICABLE}
    assert all(says in c.assumptions[0].says for c in found)


@pytest.mark.parametrize("name", some(MODELS))
def test_stacks_of_the_zoo_compute_what_the_model_does_or_say_why_not(name):
    subject = subject_of(name)
    found = subject.stack
    if isinstance(found, str):
        assert len(found) > 10
        return
    out, rows = subject.output.flatten(1).double(), subject.batch.flatten(1).double()
    for i in range(3):
        got = found.at(rows[i]).preactivations[-1]
        assert torch.allclose(got, out[i], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("logs", "depth", "cost"),
    [
        ((1.0, -1.0, -3.0), 1, 3),
        ((1.0, -1.0, -3.0), 3, 6),
        ((-2.0, -3.0), 1, -3),
        ((0.0,) * 3, 4, 12),
    ],
)
def test_what_weights_cost_at_least_by_hand(logs, depth, cost):
    """Each value counts `L + 2 log s`, the largest first, up to where the sum is largest."""
    s = torch.tensor(logs).double().exp()
    assert jacot2023.least_norm(s, depth) == pytest.approx(cost)
    assert jacot2023.least_norm(s, depth) <= depth * float((s ** (2 / depth)).sum()) + 1e-12


@pytest.mark.parametrize("gap", [0.0, 0.5, 4.0])
def test_the_norm_of_a_matrix_that_is_known_up_to_a_gap(gap):
    A = torch.diag(torch.tensor([1.0, 3.0, 2.0])).double()
    found = facts.spectral_norm(A, gap)
    assert found.low <= max(3 - gap, 0) <= found.low + 1e-13
    assert found.high - 1e-13 <= 3 + gap <= found.high
    assert found.low >= 0
    assert found.low < found.value < found.high


@pytest.mark.parametrize("slope", [0.0, 0.1, 1.0, 1.0001, -1.0, -1.0001])
@pytest.mark.parametrize("theorem", ONE_POINT, ids=lambda t: t.name)
def test_slopes_for_which_a_theorem_speaks(theorem, slope):
    point = at_equality(theorem)
    point = replace(point, stack=replace(point.stack, slope=slope))
    assert theorem("here", point).assumptions()[0].met is (
        slope == 0 if theorem.relu_only else abs(slope) <= 1
    )
