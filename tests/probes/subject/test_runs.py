"""Few runs answer everything, and what fails in a common run is asked by itself."""

import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.gate import memory
from sigmascope.networks import mlp
from sigmascope.probes import Subject
from tests.models_zoo import MODELS, call
from tests.probes.refusing import Refuses

ASKED = {
    "branches": lambda s: s.branches,
    "closing operation": lambda s: s.closing_operation,
    "leaks": lambda s: s.mixing,
    "unaccounted": lambda s: s.unaccounted,
    "collinearity": lambda s: (s.gradients.pairs, s.gradients.least, s.gradients.mean),
    "adjoints": lambda s: {k: a.gram.tolist() for k, a in s.adjoints.adjoints.items()},
}


def task(name):
    model, batch = MODELS[name]()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        out = call(model, batch)
    return Subject(model, batch, torch.zeros_like(out), F.mse_loss)


@pytest.mark.parametrize("name", ["relu-mlp", "small-resnet", "transformer-encoder-train"])
def test_a_profile_runs_the_model_as_often_as_its_questions_need(name):
    subject = task(name)
    runs = []
    subject.model.register_forward_pre_hook(lambda *_: runs.append(torch.is_grad_enabled()))
    survey.profile(subject.model, subject.batch, targets=subject.targets, loss=F.mse_loss)
    # without a tape: the whole batch, half of it; on one: all derivatives but the loss's own,
    # those, and what is not read of the inputs, of sixteen samples
    assert runs.count(False) == 2
    assert runs.count(True) == 3


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize("name", ["relu-mlp", "small-resnet", "transformer-pre-norm"])
def test_a_question_by_itself_has_the_answer_of_the_common_run(name, question, monkeypatch):
    common = ASKED[question](task(name))
    monkeypatch.setattr(Subject, "_share", lambda self, q: self._answers.setdefault(q))
    assert ASKED[question](task(name)) == common


def test_a_model_that_bears_no_leaves_is_asked_without():
    model = Refuses(lambda: False)

    def reads(_, args):
        args[0].numpy()  # which a tensor that is differentiated by refuses

    model.register_forward_pre_hook(reads)
    subject = Subject(model, torch.randn(6, 4))
    assert subject.unaccounted == frozenset()
    assert subject.closing_operation == "Addmm"


def test_of_very_many_outputs_fewer_mixtures_are_differentiated_unless_a_number_is_said(
    monkeypatch,
):
    g = torch.Generator().manual_seed(0)
    model = mlp(inputs=4, outputs=40, depth=2, width=8, generator=g)
    batch = torch.randn(3, 4, generator=g)
    assert len(Subject(model, batch).adjoints.outputs) == 16
    monkeypatch.setattr("sigmascope.probes.subject.MANY", 39)
    few = Subject(model, batch).adjoints
    assert (len(few.outputs), few.mixed) == (8, True)
    assert len(Subject(model, batch, outputs=16).adjoints.outputs) == 16


@pytest.mark.parametrize(("outputs", "drawn"), [(4, False), (16, False), (17, True), (40, True)])
def test_small_derivatives_of_all_outputs_join_the_common_run_and_drawn_ones_do_not(
    outputs, drawn, monkeypatch
):
    monkeypatch.setattr(
        "sigmascope.probes.tape.MEMORY_FLOOR", 1
    )  # so that not all samples fit at once

    def asked():
        g = torch.Generator().manual_seed(0)
        net = mlp(inputs=6, outputs=outputs, depth=6, width=4, generator=g)
        return Subject(net, torch.randn(30, 6, generator=g))

    subject, passes = asked(), []
    subject.model.register_forward_pre_hook(lambda *_: passes.append(torch.is_grad_enabled()))
    assert not subject._fits
    common = ASKED["adjoints"](subject)
    assert (passes.count(True) > 1) == drawn
    monkeypatch.setattr(Subject, "_share", lambda self, q: self._answers.setdefault(q))
    alone = ASKED["adjoints"](asked())
    assert alone.keys() == common.keys()
    for site, gram in common.items():
        torch.testing.assert_close(torch.tensor(gram), torch.tensor(alone[site]))


def test_of_samples_in_pieces_one_graph_is_alive_at_a_time():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 512), nn.Linear(512, 512)

        def forward(self, x):
            x = self.first(x)
            if x.requires_grad:  # the layer after it saves it for the way back
                made.append(weakref.ref(x))
            return x + self.second(x).tanh()

    model, made, alive = Adds(), [], []

    def begin(module, args):
        alive.append(sum(one() is not None for one in made))

    model.register_forward_pre_hook(begin)
    with memory("100kB"):
        subject = Subject(model, torch.randn(8, 8), torch.arange(8), F.cross_entropy)
        assert subject.part.count < 4
        assert subject.branches
        _ = subject.adjoints
    assert len(made) >= 6
    assert not any(alive)
