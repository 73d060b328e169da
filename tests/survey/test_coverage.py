"""Weights that no call of a layer covers are named, however they are applied."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, report, survey, theory
from sigmascope.core.guard import Refusal
from sigmascope.models import Subject
from sigmascope.survey.coverage import (
    LAYER,
    OUTSIDE,
    UNCALLED,
    UNOWNED,
    UNREAD,
    WEIGHT,
    covered,
)
from tests import models_zoo

X = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Two layers that are called, and a third weight between them that `apply` applies."""

    def __init__(self, apply=None, **parts):
        super().__init__()
        self.first, self.last, self.between = nn.Linear(6, 6), nn.Linear(6, 3), apply
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        h = F.relu(self.first(x))
        return self.last(h if self.between is None else self.between(self, h))


class Lone(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(6, 6))


def bare():
    return nn.Parameter(torch.randn(6, 6))


def filled(m, h):
    out = torch.zeros(len(h), 6)
    out[:] = h
    return out @ m.w


UNCOVERED = {
    "F.linear of a module": (lambda m, h: F.linear(h, m.inner.weight), "inner", nn.Linear(6, 6)),
    "F.linear of a parameter": (lambda m, h: F.linear(h, m.w), "w", bare()),
    "a product": (lambda m, h: h @ m.w, "w", bare()),
    "einsum": (lambda m, h: torch.einsum("ni,oi->no", h, m.w), "w", bare()),
    "a product of what is computed": (lambda m, h: h @ (m.w * m.w).T, "w", bare()),
    "into a buffer": (filled, "w", bare()),
    "a factor": (lambda m, h: h * m.w[:1] * m.w[1], "w", bare()),
    "another's parameter": (lambda m, h: h @ m.inner.matrix, "inner", Lone()),
    "never used": (lambda m, h: h, "w", bare()),
    "a module never called": (lambda m, h: h, "inner", nn.Linear(6, 6)),
    "a layer's weight once more": (lambda m, h: h @ m.first.weight, "first.weight", None),
    "a list": (lambda m, h: h @ m.w[0], "w", nn.ParameterList([bare()])),
    "complex numbers": (
        lambda m, h: (h.cfloat() @ m.w).real,
        "w",
        nn.Parameter(torch.randn(6, 6, dtype=torch.cfloat)),
    ),
    "a fixed matrix": (lambda m, h: h @ m.w, "(a fixed matrix)", torch.randn(6, 6)),
}


@pytest.mark.parametrize(("apply", "name", "part"), UNCOVERED.values(), ids=UNCOVERED)
def test_a_weight_outside_of_layers_is_named_and_counted(apply, name, part):
    key = {"inner": "inner", "first.weight": None}.get(name, "w")
    model = Net(apply, **({} if key is None else {key: part}))
    before = [p.detach().clone() for p in model.parameters()]
    measured = survey.profile(model, X)
    seen = diagnosis.presentation.coverage(measured)
    assert seen.uncovered == (name,)
    assert seen.says.startswith("Measured 2 of 3 layers")
    assert seen.weights_measured < seen.weights
    assert all(map(torch.equal, before, model.parameters()))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    said = " ".join(report.text(measured, diagnosis.judge(measured)).split())
    assert f"Not looked at: no call of a layer covers `{name}`" in said
    form = report.json_form(measured, ())["coverage"]
    assert (form["layers"], form["uncovered"]) == (3, [name])


COVERED = {
    "nothing between": (None, {}),
    "a called module": (lambda m, h: m.inner(h), {"inner": nn.Linear(6, 6)}),
    "a shift": (lambda m, h: h + m.w, {"w": nn.Parameter(torch.randn(1, 6))}),
    "a mask": (lambda m, h: h.masked_fill(m.w[: len(h)], 0), {"w": torch.eye(12, 6).bool()}),
    "a normaliser": (
        lambda m, h: m.n(h.view(-1, 2, 3)).flatten(1),
        {"n": nn.LayerNorm([2, 3])},
    ),
    "weight norm": (
        lambda m, h: m.inner(h),
        {"inner": nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))},
    ),
    "spectral norm": (
        lambda m, h: m.inner(h),
        {"inner": nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6))},
    ),
    "attention between samples": (lambda m, h: (h @ h.T).softmax(1) @ h, {}),
    "precision of a weight": (lambda m, h: h.to(m.first.weight.dtype), {}),
}


@pytest.mark.parametrize(("apply", "parts"), COVERED.values(), ids=COVERED)
def test_what_layers_apply_is_covered(apply, parts):
    seen = diagnosis.presentation.coverage(survey.profile(Net(apply, **parts), X))
    assert seen.uncovered == ()
    assert seen.layers == seen.layers_measured


BARE = {  # models of the zoo that apply weights outside of layers
    "vision-transformer": {"positions"},
    "transformers-vit": {"vit.embeddings.position_embeddings"},
}


@pytest.mark.parametrize("name", models_zoo.MODELS)
def test_nothing_is_said_of_models_that_call_their_layers(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert set(models_zoo.subject_of(name).uses_outside) == BARE.get(name, set())


def test_theorems_that_could_not_be_asked_are_said(monkeypatch):
    def declines(*_, **__):
        raise Refusal("the model is too wide.")

    for theorem in theory.OF_MODELS:
        monkeypatch.setattr(theorem, "facts", declines)
    skipped = survey.profile(Net(), X).skipped
    assert ("theorems", "the model is too wide.") in [(s.what, s.why) for s in skipped]


@pytest.mark.parametrize("whys", [["too wide"], ["too wide", "too deep"]])
def test_theorems_that_fail_each_in_its_own_way_are_said_one_by_one(monkeypatch, whys):
    names = []
    for theorem, why in zip(theory.OF_MODELS, whys, strict=False):

        def declines(*_, why=why, **__):
            raise Refusal(why)

        monkeypatch.setattr(theorem, "facts", declines)
        names.append(f"theorem {theorem.name}")
    skipped = survey.profile(Net(), X).skipped
    told = [(s.what, s.why) for s in skipped if s.what.startswith("theorem")]
    assert told == [*zip(names, whys, strict=True)]


def test_a_model_that_cannot_be_watched_is_said(monkeypatch):
    from sigmascope.survey import coverage as coverings

    def unwatched(_):
        raise Refusal("no dispatch")

    monkeypatch.setattr(coverings.Subject, "uses_outside", property(unwatched))
    skipped = survey.profile(Net(), X, views=["weights"]).skipped
    assert any("cannot be watched: no dispatch" in s.why for s in skipped)
    assert "entr" in " ".join(diagnosis.presentation.coverage(survey.profile(Net(), X)).unseen)


SAID = {  # how a part is applied -> where, what was not covered, why
    "by no one": (lambda m, h: h, nn.Linear(6, 6), [("part", LAYER, UNCALLED)]),
    "without a call": (
        lambda m, h: F.linear(h, m.part.weight),
        nn.Linear(6, 6),
        [("part", LAYER, OUTSIDE)],
    ),
    "under vmap": (
        lambda m, h: torch.vmap(m.part)(h),
        nn.Linear(6, 6),
        [("part", LAYER, UNREAD)],
    ),
    "by a layer": (lambda m, h: m.part(h), nn.Linear(6, 6), []),
    "as a bare product": (lambda m, h: h @ m.part, bare(), [("part", WEIGHT, OUTSIDE)]),
    "a bare matrix by no one": (lambda m, h: h, bare(), [("part", WEIGHT, UNOWNED)]),
    "a bare vector by no one": (lambda m, h: h, nn.Parameter(torch.ones(6)), []),
    "bare whole numbers by no one": (
        lambda m, h: h,
        nn.Parameter(torch.ones(6, 6, dtype=torch.long), requires_grad=False),
        [],
    ),
    "bare complex numbers by no one": (
        lambda m, h: h,
        nn.Parameter(torch.ones(6, 6, dtype=torch.cfloat)),
        [("part", WEIGHT, UNOWNED)],
    ),
    "a normaliser's": (lambda m, h: m.part(h.view(-1, 2, 3)).flatten(1), nn.LayerNorm([2, 3]), []),
}


@pytest.mark.parametrize(("apply", "part", "said"), SAID.values(), ids=SAID)
def test_what_is_not_covered_has_its_reason(apply, part, said):
    layers, doubts = covered(Subject(Net(apply, part=part), X))
    assert [(d.site, d.what, d.why) for d in doubts] == said
    assert [layer.site for layer in layers if layer.site != "part"] == ["first", "last"]


def test_a_layer_has_the_weights_below_it_and_their_sizes():
    torch.manual_seed(0)
    layers, _ = covered(
        Subject(Net(lambda m, h: m.part(h[:, None])[0][:, 0], part=nn.LSTM(6, 6)), X)
    )
    own = {layer.site: layer for layer in layers}
    assert own["first"].parameters == ("first.weight",)
    assert {p.rpartition(".")[0] for p in own["part"].parameters} == {"part"}
    assert own["first"].numbers == 6 * 6 + 6
    assert own["last"].numbers == 6 * 3 + 3
    assert (own["first"].reads, own["last"].writes) == ((12, 6), (12, 3))
    assert [layer.depth for layer in layers] == [0, 1, 2]
