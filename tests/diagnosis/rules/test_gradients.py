"""Rules on derivatives speak from their thresholds on, as docs/findings.md has it."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.core.records import Profile
from sigmascope.diagnosis import judge
from sigmascope.diagnosis.rules.gradients import (
    adjoint_size,
    cut_weights,
    no_tangents,
    tangent_size,
)
from tests.diagnosis.readings import ABOVE, BELOW, layers, profile, reading, said, series
from tests.diagnosis.rules.networks import found, mlp
from tests.diagnosis.rules.test_training import runs
from tests.models_zoo import Net


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (1e-4 * ABOVE, {}),
        (1e-4 * BELOW, {"vanishing-adjoints": "warning"}),
        (1e-6 * ABOVE, {"vanishing-adjoints": "warning"}),
        (1e-6 * BELOW, {"vanishing-adjoints": "error"}),
        (1e4 * BELOW, {}),
        (1e4 * ABOVE, {"exploding-adjoints": "warning"}),
        (1e6 * BELOW, {"exploding-adjoints": "warning"}),
        (1e6 * ABOVE, {"exploding-adjoints": "error"}),
    ],
)
def test_how_far_adjoints_may_change(first, found):
    assert said(adjoint_size, *series("adjoint norm", 3.0 * first, 3.0, 3.0)) == found
    assert said(adjoint_size, *series("adjoint norm", 3.0 * first, 3.0)) == {}
    assert said(adjoint_size, *series("adjoint norm", first, 1.0, 0.0)) == {}


@pytest.mark.parametrize(
    ("chance", "step", "severity"),
    [
        (None, None, ("warning", "error")),
        (0.5 * BELOW, None, ("warning", "error")),
        (0.5, None, ("note", "warning")),
        (None, 0.01, ("warning", "error")),
        (None, 0.01 * ABOVE, ("warning", "warning")),
        (0.5, 0.01 * ABOVE, ("note", "warning")),
    ],
)
def test_adjoints_are_told_as_no_more_than_training_bears_out(chance, step, severity):
    more = [] if chance is None else [reading("probability of fitting", chance, "(model)", "setup")]
    more += [] if step is None else [reading("tangent variation", step, "(output)")]
    for first, worst in zip((1e-5, 1e-7), severity, strict=True):
        rows = series("adjoint norm", 3.0 * first, 3.0, 3.0)
        assert said(adjoint_size, *rows, *more, count=3) == {"vanishing-adjoints": worst}


@pytest.mark.parametrize(("first", "held", "speaks"), [
    (101.0, True, True), (99.0, True, False), (1.0, False, True),
])  # fmt: skip
def test_derivatives_with_held_statistics_ask_the_gradient_of_the_loss(first, held, speaks):
    rows = series("adjoint norm", 1e5, 1e3, 1.0)
    for i, value in enumerate((first, 10.0, 1.0)):
        rows.append(reading("relative gradient", value, f"layer {i}.weight"))
    if held:
        rows.append(reading("batch statistics", 3.0, "(model)"))
    measured = Profile(tuple(rows), layers=layers(3))
    assert [f.name for f in adjoint_size(measured)] == (["exploding-adjoints"] if speaks else [])


def test_a_derivative_that_is_zero_behind_a_weight_that_moves_is_none_that_vanished():
    rows = series("adjoint norm", 0.0, 0.0, 1.0)
    assert said(adjoint_size, *rows) == {"vanishing-adjoints": "error"}
    moves = reading("gradient of a zero weight", 0.1, "layer 2.weight")
    assert said(adjoint_size, *rows, moves, count=3) == {}
    # without a loss it is known that the weight is zero, and not whether it moves
    size = lambda value: reading("spectral norm", value, "layer 2.weight", form="matrix")
    assert said(adjoint_size, *rows, size(0.0), count=3) == {}
    assert said(adjoint_size, *rows, size(1e-9), count=3) == {"vanishing-adjoints": "error"}


@pytest.mark.parametrize(
    ("total", "name"),
    [
        (1e-6 * ABOVE, None),
        (1e-6 * BELOW, "tangent-size"),
        (1e9 * BELOW, None),
        (1e9 * ABOVE, "tangent-size"),
        (0.0, "no-tangents"),
    ],
)
def test_how_large_the_tangent_kernel_may_be(total, name):
    parts = series("NTK trace", total / 4, total / 2, total / 4, view="features")
    found = [*no_tangents(profile(*parts)), *tangent_size(profile(*parts))]
    assert [f.name for f in found] == ([name] if name else [])
    if name == "tangent-size":
        assert "50% of it from layer 1" in found[0].says
        assert ("hardly move" in found[0].says) is (total < 1)
    assert said(tangent_size, *parts[:2]) == said(no_tangents, *parts[:2]) == {}


@pytest.mark.parametrize(("trace", "step", "speaks"), [
    (1e10, None, True),
    (1e10, 1e-4, True),
    (1e10, 1e-4 * ABOVE, False),
    (1e-9, 1e3, True),
    (1e-9, 1e3 * BELOW, False),
    (10.0, 1e-9, False),
])  # fmt: skip
def test_the_gradient_of_the_loss_confirms_the_tangents(trace, step, speaks):
    rows = series("NTK trace", trace, trace, trace)
    if step is not None:
        rows.append(reading("Polyak step", step, "(loss)"))
    told = said(tangent_size, *rows, count=4)
    assert told == ({"tangent-size": "warning"} if speaks else {})


def test_a_network_that_no_weight_moves(digits):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Linear(8, 8), nn.Linear(8, 10))
    model.append(Net(lambda self, x: 0 * x))
    assert "no-tangents" in found(model, digits)


@pytest.mark.parametrize(("scale", "spoken"), [(1e-6, True), (1.0, False), (1e5, True)])
def test_tangents_too_small_and_too_large(digits, scale, spoken):
    measured = found(nn.Sequential(mlp(2), Net(lambda self, x: scale * x)), digits, ["features"])
    assert ("tangent-size" in measured) == spoken


@pytest.mark.parametrize(("form", "speaks"), [("", True), ("behind zeros", False)])
def test_what_is_behind_zeros_is_not_cut(form, speaks):
    rows = [reading("relative gradient", 0.0, "layer 0.weight", form=form),
            reading("relative gradient", 0.1, "layer 1.weight")]  # fmt: skip
    measured = Profile(tuple(rows), layers=layers(2))
    assert bool([*cut_weights(measured)]) == speaks


@pytest.mark.parametrize(("left", "speaks"), [(0.95, True), (0.95 * BELOW, False), (None, False)])
def test_no_weight_gets_a_gradient(left, speaks):
    """Where training learns nothing: of a task that is solved, no gradient is no fault."""
    still = [reading("relative gradient", 0.0, f"layer {i}.weight", "setup") for i in range(2)]
    facts = (*still, *(() if left is None else runs(left)))
    measured = Profile(facts, layers=layers(2))
    assert [f.severity for f in cut_weights(measured)] == (["error"] if speaks else [])


def two_heads(digits, *, cut=False, values=True):
    """Logits and the values of a critic, which the loss of logits does not train."""

    def run(m, x):
        h = m.body(x.flatten(1)).relu()
        out = {"logits": m.head((m.middle(h).detach() if cut else m.middle(h)).relu())}
        return out | ({"value": m.critic(h)} if values else {})

    parts = {"body": (64, 32), "middle": (32, 32), "head": (32, 10), "critic": (32, 1)}
    model = Net(run, **{name: nn.Linear(*sides) for name, sides in parts.items()})
    return found(model, digits).get("no-gradient")


def test_a_head_that_is_not_studied_is_a_note_and_what_is_cut_off_a_warning(digits):
    note = two_heads(digits)
    assert (note.severity, note.site) == ("note", "critic.weight")
    cut = two_heads(digits, cut=True)  # the body acts on the values, the middle on nothing
    assert (cut.severity, cut.site) == ("warning", "middle.weight")
    assert two_heads(digits, cut=True, values=False).severity == "warning"


@pytest.mark.parametrize(("count", "said"), [(1, "0.weight acts on"), (3, "and 2 more act on")])
def test_how_many_act_on_other_outputs_is_told(count, said):
    zero = [
        reading("relative gradient", 0.0, f"layer {i}.weight", form="other outputs")
        for i in range(count)
    ]
    rows = (*zero, reading("relative gradient", 0.1, f"layer {count}.weight"))
    (told,) = cut_weights(Profile(rows, layers=layers(count + 1)))
    assert said in told.says


def test_where_nothing_that_is_studied_has_a_gradient_other_outputs_are_no_excuse():
    still = [reading("relative gradient", 0.0, f"layer {i}.weight", "setup") for i in range(2)]
    beside = replace(still[0], form="other outputs")
    measured = Profile((beside, still[1], *runs(0.95)), layers=layers(2))
    assert [f.severity for f in cut_weights(measured)] == ["error"]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("by", ["forward", "loss"])
def test_a_loss_that_autograd_cannot_follow_to_any_weight(digits, by, training):
    """What runs in evaluation mode may well do without gradients."""

    def untaped(out, targets):
        return F.cross_entropy(out.detach(), targets)

    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp(2)

        def forward(self, x):
            with torch.set_grad_enabled(by != "forward"):
                return self.net(x)

    loss, model = untaped if by == "loss" else F.cross_entropy, Cut().train(training)
    measured = survey.profile(model, digits.inputs, targets=digits.targets, loss=loss)
    told = {f.name: f for f in judge(measured)}.get("no-gradient")
    assert (told.severity if told else None) == ("error" if training else None)
    if told:
        assert "autograd finds no way back to any of them" in told.says
