"""The door: a whole program in, a diagnosis out; nothing of the user's is changed."""

import pickle
from dataclasses import replace

import pytest
import torch
from fingerprints import differences, fingerprint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as ss
from sigmascope import diagnosis
from sigmascope.core import quantities as q
from sigmascope.core.guard import Budget, Refusal
from sigmascope.core.records import Finding, Profile
from tests.models_zoo import Net

G = torch.Generator().manual_seed(0)
X = torch.randn(200, 6, generator=G)
Y = (X[:, 0] + X[:, 1] > 0).long() + (X[:, 2] > 0.5).long()


def network(*last, outputs=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, outputs), *last)


def causes(found):
    return [(f.name, f.severity) for f in found.causes if f.severity != "note"]


@pytest.mark.parametrize(
    ("last", "loss", "epochs"), [([], "cross_entropy", 20), ([nn.LogSoftmax(-1)], "nll_loss", 5)]
)
def test_a_healthy_program_is_left_in_peace(last, loss, epochs):
    found = ss.diagnose(network(*last), (X, Y), loss=loss, optimizer="adam", lr=0.01,
                        batch_size=20, epochs=epochs)  # fmt: skip
    assert causes(found) == []
    assert found.settings == f"adam at 0.01, batches of 20, {epochs} epochs"
    assert found.profile.about["training"] == found.settings


ZERO = lambda ps: torch.optim.Adam(ps, lr=0.0)
FLAT = lambda ps: torch.optim.Adam(ps, lr=0.03, eps=10.0)
UP = lambda ps: torch.optim.SGD(ps, lr=0.1, maximize=True)
LAST = lambda ps: torch.optim.SGD([*ps][-2:], 0.1)
FOREIGN = torch.optim.Adam(network().parameters(), 0.01)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"model": network(nn.Softmax(-1))}, "double-softmax"),
        ({"lr": 1e4}, "rate-too-high"),
        ({"lr": 1e-3, "epochs": 5}, "rate-too-low"),
        ({"data": (1e4 * X, Y), "lr": 1e-4}, "unscaled-inputs"),
        ({"data": (X, Y + 2)}, "unfit-targets"),
        ({"loss": "nll_loss"}, "raw-output"),
        ({"data": (X, torch.zeros(200, dtype=torch.long))}, "single-target"),
        # settings of the optimizer, which may stand beside others
        ({"optimizer": "adam", "lr": 0.01, "weight_decay": 3.0}, ["strong-weight-decay"]),
        ({"optimizer": FLAT, "lr": None, "epochs": 20}, "unusual-settings"),
        ({"optimizer": UP, "lr": None}, "maximised-loss"),
        ({"optimizer": LAST, "lr": None}, ["untrained-weights"]),
        ({"optimizer": FOREIGN, "lr": None}, ["foreign-optimizer"]),
        ({"clip": 1e-6, "epochs": 40}, ["strong-clipping"]),
        ({"lr": 0.0}, ["rate-too-low"]),
        ({"optimizer": ZERO, "lr": None, "epochs": 40}, ["rate-too-low"]),
    ],
)
def test_one_fault_is_the_first_cause_or_is_found(change, cause):
    epochs = 10 if isinstance(cause, str) else 5
    whole = {"model": network(), "data": (X, Y), "loss": "cross_entropy", "optimizer": "sgd",
             "lr": 0.1, "batch": 20, "epochs": epochs}  # fmt: skip
    found = ss.diagnose({**whole, **change})
    if isinstance(cause, str):
        assert found.causes[0].name == cause, found.findings
    else:
        assert {*cause} <= {f.name for f in found.findings}, found.findings


def test_steps_that_do_not_work():
    held = Net(torch.no_grad()(lambda self, x: self.inner(x)), inner=network())
    for model, batch in ((held, 20), (network(nn.BatchNorm1d(3)), 1)):
        found = ss.diagnose(model, (X, Y), loss="cross_entropy", optimizer="adam", batch_size=batch)
        said = {f.name: f.severity for f in found.causes}
        assert said.get("failing-training") == "error", found.findings


def test_data_sets_and_loaders_say_the_same_as_their_samples():
    data = TensorDataset(X, Y)
    said = [
        [f.name for f in ss.diagnose(network(nn.Softmax(-1)), d, loss="cross_entropy",
                                     optimizer="sgd", lr=0.1, epochs=2).findings]
        for d in (data, DataLoader(data, batch_size=32))
    ]  # fmt: skip
    assert said[0][0] == said[1][0] == "double-softmax"


def test_everything_is_left_as_found():
    model = network(nn.Dropout(0.5))
    by = torch.optim.Adam(model.parameters(), 0.01)
    F.cross_entropy(model(X), Y).backward()
    by.step()
    things = {"model": model, "x": X, "y": Y, "state": by.state[model[0].weight]}
    before = fingerprint(**things), torch.random.get_rng_state()
    ss.diagnose(model, (X, Y), loss=F.cross_entropy, optimizer=by, epochs=1)
    assert not differences(before[0], fingerprint(**things))
    assert torch.equal(before[1], torch.random.get_rng_state())


def test_a_model_that_draws_leaves_random_states():
    noisy = lambda self, x: self.head((z := self.body(x)) + torch.randn_like(z))
    model, before = (
        Net(noisy, body=nn.Linear(6, 8), head=nn.Linear(8, 3)),
        torch.random.get_rng_state(),
    )
    ss.diagnose(model, (X, Y), optimizer="adam", lr=0.01, epochs=1, fit=False)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_weights_of_a_loss_are_not_trained_and_that_is_said():
    weighed = lambda self, out, y: F.cross_entropy(out * self.centres, y)
    own = Net(weighed, centres=nn.Parameter(torch.ones(3)))
    how = {"optimizer": "adam", "lr": 0.01, "epochs": 1, "fit": False}
    found = ss.diagnose(network(), (X, Y), loss=own, **how)
    (gap,) = [s for s in found.profile.skipped if s.site == "(loss)"]
    assert gap.what == "training of the loss's own weights"
    found = ss.diagnose(network(), (X, Y), loss=nn.CrossEntropyLoss(), **how)
    assert not [s for s in found.profile.skipped if s.site == "(loss)"]


def test_a_profile_gives_its_findings():
    profile = ss.profile(network(nn.Softmax(-1)), X, targets=Y, loss=F.cross_entropy)
    found = ss.diagnose(profile)
    assert found.profile is profile
    assert found.findings == ss.judge(profile)
    assert found.causes[0].name == "double-softmax"


def test_without_the_setup_nothing_is_trained():
    found = ss.diagnose(network(), (X, Y), optimizer="adam", views=["weights"])
    assert {r.view for r in found.profile.readings} == {"weights"}


def test_the_probability_of_fitting_may_be_left_out():
    found = ss.diagnose(network(), (X, Y), views=["setup"], fit=False)
    assert ss.probability(found.profile) is None
    (gap,) = [s for s in found.profile.skipped if s.what == "probability of fitting"]
    assert gap.why.startswith("it was not asked for: `--fit` (`fit=True` in Python)")


@pytest.mark.parametrize("lr", [0.03, 1e-9])
def test_the_probability_of_fitting_is_measured_where_it_may_decide(lr):
    how = {"optimizer": "adam", "lr": lr, "epochs": 2}
    told = ss.diagnose(network(), (X, Y), **how)
    whole = ss.diagnose(network(), (X, Y), **how, fit=True)
    assert told.findings == whole.findings
    assert ss.probability(whole.profile) is not None
    learned = lr == 0.03
    assert (ss.probability(told.profile) is None) is learned
    gaps = [s.why for s in told.profile.skipped if s.what == "probability of fitting"]
    assert [why.startswith("training at your settings left nothing open") for why in gaps] == (
        [True] * learned
    )


def test_what_there_is_no_time_for_is_no_fault_of_the_program():
    found = ss.diagnose(network(), (X, Y), optimizer="adam", lr=0.01, views=["setup"], budget=1e-4)
    assert {s.what for s in found.profile.skipped} >= {"probability of fitting", "training"}
    assert all("--budget" in s.why for s in found.profile.skipped)
    assert "failing-training" not in [f.name for f in found.findings]


def test_two_diagnoses_are_the_same():
    made = [ss.diagnose(network(), (X, Y), optimizer="sgd", lr=1e-3, epochs=2) for _ in range(2)]
    same = [[(r.site, r.quantity, r.form, r.estimate) for r in m.profile.readings] for m in made]
    assert same[0] == same[1]


def test_what_is_no_program_is_refused():
    with pytest.raises(Refusal, match="A program must be"):
        ss.diagnose(7)
    with pytest.raises(Refusal, match="no optimizer `adamm`"):
        ss.diagnose(network(), (X, Y), optimizer="adamm")


def probabilities(**how):
    """A network whose output goes through a softmax twice, in a program that is no plain data."""
    return ss.diagnose(network(nn.Softmax(-1)), (X, Y), loss=lambda out, y: F.cross_entropy(out, y),
                       optimizer="sgd", lr=0.1, batch_size=20, epochs=2, **how)  # fmt: skip


def test_cures_are_tried_on_the_program_that_was_diagnosed():
    found = probabilities(samples=64)
    before = fingerprint(model=found.program.model)
    tried = found.cures(samples=64, budget=30).tried
    again = ss.diagnosis.cures.cured(found.program, found, samples=64, budget=30).tried
    assert differences(before, fingerprint(model=found.program.model)) == []
    assert [(c.name, c.after) for c in tried] == [(c.name, c.after) for c in again] != []
    assert {c.cause for c in tried} <= {f.name for f in found.findings}
    none = found.cures(samples=64, budget=1e-4)
    assert (none.tried, [*none.declined]) == ((), ["all cures"])


def test_a_diagnosis_is_sent_without_its_program_and_refuses_cures_then():
    found = probabilities(samples=64)
    sent = pickle.loads(pickle.dumps(found))
    assert sent == found
    assert (sent.findings, sent.settings, sent.program) == (found.findings, found.settings, None)
    assert replace(found, settings="").program is found.program
    for without in (sent, ss.diagnose(found.profile)):
        with pytest.raises(Refusal, match=r"this diagnosis has none.*cured\(program, found\)"):
            without.cures()


def test_without_an_optimizer_there_is_nothing_to_try_cures_with():
    with pytest.raises(Refusal, match="optimizer"):
        ss.diagnose(network(nn.Softmax(-1)), (X, Y), views=["setup"], fit=False).cures()


def test_causes_are_what_follows_from_nothing():
    given = {"a": "", "b": "a", "c": ""}
    made = (Finding(n, "fc", "error", (), "It is.", "us", (), f) for n, f in given.items())
    found = diagnosis.Diagnosis(Profile(()), tuple(made))
    assert [f.name for f in found.causes] == ["a", "c"]


TWICE = {"loss": "cross_entropy", "optimizer": "adam", "lr": 1e-3, "batch_size": 20, "epochs": 5}


def test_findings_are_told_as_they_become_known_and_training_step_by_step():
    told, steps, budget = [], [], Budget(60.0)
    how = {"progress": lambda *step: steps.append(step), "budget": budget}
    model = network(nn.Softmax(-1))
    found = ss.diagnose(model, (X, Y), **TWICE, **how, early=lambda f: told.append((f, len(steps))))
    known = [{f.name for f in findings} for findings, _ in told]
    assert known[0]
    assert known[0] <= known[-1] <= {f.name for f in found.findings}
    # what training has yet to prove is no error before it
    proven = {k.name for k in diagnosis.rules.catalogue.KINDS if k.proven}
    early = [f for findings, _ in told for f in findings]
    assert not [f for f in early if f.severity == "error" and f.name not in proven]
    # the first before anything but the first view, the last before training at these settings
    first, last = told[0][1], told[-1][1]
    assert {words for words, *_ in steps[:first]} == {"forward pass", *q.QUICK}
    assert {words for words, *_ in steps[last:]} >= {"training at your settings"}
    of_training = [s for s in steps if s[0] == "training at your settings"]
    assert [done for _, done, _ in of_training] == [*range(1, len(of_training) + 1)]
    assert all(done <= total for _, done, total in steps)
    assert budget.progress is None


def test_a_quick_look_trains_nothing_and_lists_what_it_leaves_out():
    model, steps = network(nn.Softmax(-1)), []
    whole = ss.diagnose(model, (X, Y), **TWICE)
    look = ss.diagnose(model, (X, Y), **TWICE, quick=True, progress=lambda *s: steps.append(s[0]))
    assert {*steps} == {"forward pass", *q.QUICK, "theorems", "done"}
    assert "double-softmax" in {f.name for f in look.findings}
    assert {f.name for f in look.findings} <= {f.name for f in whole.findings}
    readings = {(r.site, r.quantity, r.form): r.estimate for r in whole.profile.readings}
    assert all(readings[r.site, r.quantity, r.form] == r.estimate for r in look.profile.readings)
    left = {s.what for s in look.profile.skipped}
    assert {"training", q.PROBABILITY_OF_FITTING} <= left
    seen = diagnosis.presentation.coverage(look.profile)
    assert {*q.ALL} - {*q.QUICK} <= {*seen.unasked}
    assert any("how the program trains" in line and "quick" in line for line in seen.unseen)


def test_a_quick_look_at_views_that_are_named_is_one_at_these():
    look = ss.diagnose(network(), (X, Y), **TWICE, quick=True, views=["weights"])
    assert look.profile.views == ("weights",)
    assert "training" in {s.what for s in look.profile.skipped}


@pytest.mark.parametrize(
    ("program", "given", "why"),
    [
        (lambda m, x, y: (m, x), {"targets": 0}, "Targets go with their inputs: `diagnose"),
        (lambda m, x, y: (m, (x, y)), {"device": "cuda:7"}, r"`model\.to\(device\)`"),
        (lambda m, x, y: (m, (x, y)), {"momentun": 0.9}, "`momentun` must go with an optimizer"),
        (lambda m, x, y: (m, (x, y)), {"lr": 0.1}, "`lr` must go with an optimizer"),
        (lambda m, x, y: ((m, (x, y)),), {"optimizer": "adm"}, "Did you mean `adam`"),
        (lambda m, x, y: ({"model": m, "data": (x, y)},), {"loss": "croos"}, "no loss `croos`"),
        (lambda m, x, y: ((x, y), m), {}, "They stand the other way round"),
        (lambda m, x, y: (m,), {}, "Pass its data beside it"),
        (lambda m, x, y: ("train.py",), {}, "`sigmascope diagnose train.py`"),
        (lambda m, x, y: (ss.profile(m, x), (x, y)), {"loss": "mse"}, "got `loss`, `data` beside"),
    ],
)
def test_nothing_that_is_given_is_lost(program, given, why):
    model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(16, 4)
    args = program(model, x, torch.arange(16) % 3)
    with pytest.raises(Refusal, match=why):
        ss.diagnose(*args, **given, quick=True)


def test_what_stands_beside_a_whole_program_takes_the_place_of_what_it_says():
    model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(16, 4)
    whole = (model, (x, torch.arange(16) % 3), None, "sgd")
    found = ss.diagnose(whole, lr=0.25, momentum=0.5, quick=True)
    assert found.settings.startswith("sgd at 0.25, momentum 0.5")
    assert dict(found.program.options) == {"momentum": 0.5}
