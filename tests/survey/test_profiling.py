import gc
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from models_zoo import MODELS, call, require_unused
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, report, survey, theory
from sigmascope.core import quantities
from sigmascope.core.guard import Refusal, memory
from sigmascope.models import Subject
from sigmascope.survey.profiling import (
    LAYER,
    OUTSIDE,
    UNCALLED,
    UNOWNED,
    UNREAD,
    WEIGHT,
    covered,
    cut,
)
from tests import models_zoo
from tests.models.state.test_freeze import assert_same, snapshot
from tests.sampling import some

ROWS = 0.4


@pytest.mark.parametrize("name", some(MODELS, of=2))
def test_the_whole_zoo_is_profiled_and_left_as_it_was(name):
    model, batch = MODELS[name]()
    out, task = call(*MODELS[name]()), {}
    if hasattr(out, "detach") and out[0].numel() <= 64:
        task = {"targets": out.detach() + 1, "loss": F.mse_loss, "views": quantities.EVERY[:7]}
    before = snapshot(model)
    measured = survey.profile(model, batch, **task)
    assert_same(model, before)
    assert measured.layers
    assert not [s for s in measured.skipped if s.what == "setup"]
    require_unused(measured, *MODELS[name]())
    assert any(r.quantity in ("written variation", "gain") for r in measured.readings)
    sites = {r.site.split("#")[0] for r in measured.readings} | {s.site for s in measured.skipped}
    for layer in measured.layers:
        owns = {layer.site.split("#")[0], *layer.parameters}
        assert owns & sites, f"{layer.site} has neither a reading nor a reason"
    for r in measured.readings:
        assert r.estimate.low <= r.estimate.value <= r.estimate.high
        declared, slack = quantities.quantity(r.quantity), 1e-6 * max(1.0, abs(r.estimate.value))
        assert declared.least - slack <= r.estimate.value <= declared.most + slack, r


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), torch.randn(8, 4)


def test_every_view_has_its_quantities():
    model, x = small()
    measured = survey.profile(model, x, targets=torch.arange(8) % 3, loss=F.cross_entropy)
    found = {(r.view, r.quantity) for r in measured.readings}
    expected = {
        "representations": {
            "matrix rank",
            "soft rank",
            "participation ratio",
            "centred participation ratio",
            "effective rank",
            "mean square",
            "relative variation",
            "dead units",
        },
        "weights": {
            "spectral norm",
            "Frobenius norm",
            "stable rank",
            "effective rank",
            "condition number",
            "mean shift",
        },
        "features": {"adjoint norm", "adjoint rank", "adjoint log pseudo-determinant", "NTK trace"},
        "gradients": {"minimum |cos|", "mean |cos|"},
        "setup": {
            "Polyak step",
            "distinct samples",
            "distinct targets",
            "least loss",
            "least loss of a constant",
            "nats over equal scores",
            "out of reach",
            "silent samples",
            "gain",
            "written variation",
            "distinct units",
            "relative gradient",
            "input size",
            "first loss over a constant's",
            "loss of zeros",
            "input spread",
        },
    }
    assert found == {(v, q) for v, qs in expected.items() for q in qs}
    facts = {(f.quantity, f.word) for f in measured.facts}
    assert facts == {
        ("kind of targets", "classes"),
        ("last operation", "none"),
        ("taken by the loss", "any numbers"),
        ("counted by the loss", "scores"),
    }
    assert not measured.skipped


def test_readings_equal_a_direct_computation():
    model, x = small()
    measured = survey.profile(model, x)
    value = {(r.site, r.quantity): r.estimate for r in measured.readings}
    with torch.no_grad():
        H = model[1](model[0](x)).double()
    sigma = torch.linalg.svdvals(H)
    r = float(sigma.square().sum() ** 2 / (sigma**4).sum())
    assert value["2", "participation ratio"].value == pytest.approx(r, rel=1e-12)
    C = torch.linalg.svdvals(H - H.mean(0))
    variation = float(C.norm() / sigma.norm())
    assert value["2", "relative variation"].value == pytest.approx(variation, rel=1e-12)
    assert value["2", "dead units"].value == float((H == 0).all(0).double().mean())
    W = torch.linalg.svdvals(model[0].weight.detach().double())
    assert value["0.weight", "spectral norm"].value == pytest.approx(float(W[0]), rel=1e-12)
    J = model[2].weight.detach().double()[None] * (H > 0).double()[:, None]  # d output / d z
    assert value["0", "adjoint norm"].value == pytest.approx(
        float(J.square().sum((1, 2)).mean() ** 0.5)
    )
    volumes = torch.linalg.svdvals(J)
    ranks = (volumes > 1e-6).sum(1).double()
    assert value["0", "adjoint rank"].value == pytest.approx(float(ranks.mean()))
    alive = volumes[volumes.sum(1) > 0]
    logs = torch.where(alive > 1e-6, alive, 1.0).log().sum(1).mean()
    assert value["0", "adjoint log pseudo-determinant"].value == pytest.approx(
        float(logs), rel=1e-5
    )


def test_views_are_measured_only_when_asked_for(as_users_see_it):
    model, x = small()
    measured = survey.profile(model, x, views=["weights"])
    assert {r.view for r in measured.readings} == {"weights"}
    assert not measured.checks
    with pytest.raises(Refusal, match=r"`conditioning`.*Did you mean `weights`"):
        survey.profile(model, x, views=["wights"])


def test_a_dead_network_is_profiled_with_reasons():
    model, x = small()
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.fill_(-1)
    measured = survey.profile(model, x)
    reasons = {(s.site, s.why) for s in measured.skipped}
    assert ("2", "it is exactly zero") in reasons
    assert ("0.weight", "it is exactly zero") in reasons
    assert ("0", "the derivative is exactly zero for every sample") in reasons


def test_progress_is_told_to_the_end():
    model, x = small()
    told = []
    survey.profile(model, x, progress=lambda *step: told.append(step))
    assert [t[0] for t in told] == ["forward pass", *quantities.ALL, "theorems", "done"]
    assert all(0 <= done <= total for _, done, total in told)
    assert told[-1][1] == told[-1][2]


@pytest.mark.parametrize("name", some(MODELS, of=12))
def test_what_the_first_passes_show_is_told_before_the_rest_and_is_the_same(name):
    model, x = MODELS[name]()
    told, words = [], []
    plain = survey.profile(model, x)
    listen = {"early": lambda p: told.append((p, [*words]))}
    found = survey.profile(model, x, progress=lambda word, *_: words.append(word), **listen)
    ((first, before),) = told
    assert first.views == quantities.QUICK
    assert not {*before} & {*quantities.ALL} - {*quantities.QUICK}
    assert [r for r in found.readings if r.view in quantities.QUICK] == [*first.readings]
    assert first.layers == found.layers
    # and what is measured does not depend on who listens
    for part in ("readings", "checks", "skipped", "facts", "spectra", "views", "layers"):
        assert repr(getattr(found, part)) == repr(getattr(plain, part))


def test_nothing_is_told_early_of_views_that_take_the_rest():
    model, x = small()
    told = []
    survey.profile(model, x, views=["weights"], early=told.append)
    assert told == []


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")  # lazy attributes of torch
def test_nothing_leaks():
    """A quick guard; benchmarks/leaks.py repeats it 200 times and reads the process's memory."""
    model, x = small()
    for _ in range(3):
        survey.profile(model, x)
    gc.collect()
    before = sum(isinstance(o, torch.Tensor) for o in gc.get_objects())
    for _ in range(10):
        survey.profile(model, x)
    gc.collect()
    assert sum(isinstance(o, torch.Tensor) for o in gc.get_objects()) <= before


# ------------------------------------------------------------------------------
# Batches cut to what memory allows.


def wide(samples: int = 64):
    g = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 2048), nn.ReLU(), nn.Linear(2048, 4)).requires_grad_()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=g) / 8)
    return model, torch.randn(samples, 16, generator=g), torch.arange(samples) % 4


def test_a_batch_that_fits_is_left_alone():
    model, x, y = wide()
    batch, targets, left = cut(model, x, y, 0)
    assert batch is x
    assert targets is y
    assert left == []


def test_what_does_not_fit_is_cut_and_told():
    model, x, y = wide()
    with memory("1MB"):
        batch, targets, left = cut(model, x, torch.cat([y, y]), 0)
    assert 1 <= len(batch) < 64
    assert torch.equal(batch, x[: len(batch)])
    assert len(targets) == 2 * len(batch)
    (told,) = left
    assert told.what == f"{64 - len(batch)} of 64 samples"
    assert "`memory=` (`--memory`)" in told.why


def test_a_profile_within_a_cap_is_that_of_the_first_samples():
    model, x, y = wide()
    capped = survey.profile(model, x, targets=y, loss=F.cross_entropy, memory="1MB")
    (told,) = [s for s in capped.skipped if s.site == "(samples)"]
    most = 64 - int(told.what.split()[0])
    alone = survey.profile(model, x[:most], targets=y[:most], loss=F.cross_entropy)
    there = {(r.site, r.quantity, r.form): r.estimate.value for r in capped.readings}
    assert there
    for r in alone.readings:
        key = (r.site, r.quantity, r.form)
        if key in there:
            assert there[key] == pytest.approx(r.estimate.value, rel=1e-4, abs=1e-6), key


def test_a_cap_that_a_gradient_does_not_fit_is_refused_before_it_starts(as_users_see_it):
    model, x, y = wide()
    task = {"targets": y, "loss": F.cross_entropy, "memory": "200kB"}
    asked = []
    words = r"gradient of `0\.weight`.* takes .* or ask for the views representations and weights"
    with pytest.raises(Refusal, match=words):
        survey.profile(model, x, **task, progress=lambda word, *_: asked.append(word))
    assert asked == ["forward pass"]
    plain = survey.profile(model, x, **task, views=("representations", "weights"))
    assert plain.readings


def test_pieces_of_the_samples_give_what_all_at_once_do():
    model, x, y = wide()
    task = {"targets": y, "loss": F.cross_entropy}
    whole = survey.profile(model, x, **task)
    parts = survey.profile(model, x, **task, memory="5MB")
    assert not [s for s in parts.skipped if s.site == "(samples)"]
    assert [r.quantity for r in parts.readings] == [r.quantity for r in whole.readings]
    for a, b in zip(parts.readings, whole.readings, strict=True):
        assert a.estimate.value == pytest.approx(b.estimate.value, rel=1e-4, abs=1e-6), a


def test_where_no_sample_fits_it_is_refused(as_users_see_it):
    model, x, _ = wide()
    with (
        memory("10kB"),
        pytest.raises(Refusal, match=r"must allow for one sample, got .* Allow more"),
    ):
        cut(model, x, None, 0)


CAPPED = """
import os, sys, torch, transformers
from torch.nn import functional as F
from sigmascope import survey

torch.set_num_threads(1)
warm = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
survey.profile(warm, torch.randn(8, 8), targets=torch.arange(8) % 4, loss=F.cross_entropy)
torch.manual_seed(0)
config = transformers.GPT2Config(vocab_size=8192, n_embd=512, n_layer=8, n_head=8, use_cache=False)
model = transformers.GPT2LMHeadModel(config).eval()
x = torch.randint(0, 8192, (2, 64))
pages = int(open("/proc/self/statm").read().split()[1])
before = pages * os.sysconf("SC_PAGE_SIZE")
found = survey.profile(
    model,
    x,
    targets=x.roll(-1, 1),
    loss=lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()),
    memory=sys.argv[1],
)
status = open("/proc/self/status").read()  # of this program alone, and not of what started it
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
views = {r.view for r in found.readings}
print(peak - before, *sorted(views), *(f"[{s.what}: {s.why}]" for s in found.skipped))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is read from /proc")
def test_a_cap_holds_that_weights_and_gradients_are_large_for():
    """A GPT-2 of 30 million weights, 120 MB of them, in a process of its own."""
    one = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CAPPED, "300MB"],
        env=one,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    peak, *views = done.stdout.split()
    assert {"representations", "weights", "features", "gradients", "setup"} <= set(views)
    assert int(peak) <= 300e6


def test_a_loss_may_read_what_a_model_of_transformers_returns():
    from transformers import BertConfig, BertForSequenceClassification

    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
        config = BertConfig(**sizes, num_hidden_layers=1, vocab_size=20, num_labels=3)
        model = BertForSequenceClassification(config)
    batch = {"input_ids": torch.arange(32).reshape(8, 4) % 20}
    classes = torch.arange(8) % 3
    losses = F.cross_entropy, lambda out, y: F.cross_entropy(out.logits, y)
    first, second = (survey.profile(model, batch, targets=classes, loss=loss) for loss in losses)
    of_loss = [[r for r in p.readings if r.view == "gradients"] for p in (first, second)]
    assert of_loss[0] == of_loss[1] != []


def test_targets_are_cut_where_they_count_samples_and_left_alone_elsewhere():
    model, x, y = wide()
    given = {
        "classes": y,
        "several": torch.cat([y, y, y]),
        "weights": torch.arange(5),
        "one": torch.tensor(2.0),
        "none": torch.zeros(0),
    }
    with memory("1MB"):
        batch, targets, _ = cut(model, x, given, 0)
    most = len(batch)
    assert most < len(x)
    assert torch.equal(targets["classes"], y[:most])
    assert torch.equal(targets["several"], given["several"][: 3 * most])
    for name in ("weights", "one", "none"):
        assert targets[name] is given[name]


@pytest.mark.parametrize("fits", [1, 2, 63])
def test_as_many_samples_are_kept_as_fit(fits):
    model, x, y = wide()
    held = Subject(model, x[:1]).rows_held
    with memory(int((fits + 0.5) * held / ROWS)):
        batch, targets, (told,) = cut(model, x, y, 0)
    assert len(batch) == len(targets) == fits
    assert told.what.startswith(f"{len(x) - fits} of ")


def test_nothing_is_cut_where_just_all_samples_fit(as_users_see_it):
    model, x, y = wide()
    held = Subject(model, x[:1]).rows_held
    with memory(int(64.5 * held / ROWS)):
        assert cut(model, x, y, 0)[2] == []
    with memory(int(0.9 * held / ROWS)), pytest.raises(Refusal, match="allow for one sample"):
        cut(model, x, y, 0)


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


def test_memory_goes_back_between_views_where_it_is_short(monkeypatch):
    given = []
    monkeypatch.setattr("sigmascope.core.guard.trim", lambda *, short: given.append(short))
    survey.profile(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), torch.ones(5, 3))
    assert given == [True] * len(quantities.ALL)


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
    from sigmascope.survey import profiling

    def unwatched(_):
        raise Refusal("no dispatch")

    monkeypatch.setattr(profiling.Subject, "uses_outside", property(unwatched))
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
