"""What is asked of single samples, and why it may not be answered."""

import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.core.guard import Refusal, memory
from sigmascope.models import OUTPUT, Subject
from sigmascope.models.networks import mlp
from sigmascope.theory.piecewise_affine import sample_affine
from sigmascope.theory.symmetry import symmetries_of
from tests.models.refusing import Refuses
from tests.models_zoo import MODELS, Net, call


def wide(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def twice(use):
    """One layer, used in a way that its calls do not tell."""
    return Net(lambda m, x: use(m.layer, x), layer=nn.Linear(3, 3))


def supervised(net, **more):
    return Subject(net.double(), wide(5, 3), wide(5, 3, seed=1), F.mse_loss, **more)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda f, x: f(f(x).tanh()), "the last layer `layer` is called more than once"),
        (lambda f, x: f(x @ f.weight), "`layer.weight`, of the last layer, is used outside of it"),
        (
            lambda f, x: f(x) - f(x).mean(0),
            "`gradients` must be asked of a model that treats every sample by itself, got one in "
            "which the output for a sample changes when other samples of the batch are exchanged",
        ),
    ],
)
def test_gradients_of_single_samples_are_left_out_with_a_reason(use, says):
    subject = supervised(twice(use))
    assert subject.gradients is None
    assert says in subject.unsplit


def test_gradients_need_targets_and_a_loss():
    for known in ({}, {"targets": wide(5, 3)}):
        subject = Subject(nn.Linear(3, 3).double(), wide(5, 3), **known)
        assert subject.gradients is None
        assert subject.unsplit == "no targets with a loss were given"
    whole = supervised(nn.Linear(3, 3))
    assert whole.gradients.site == ""
    assert whole.unsplit == ""


def test_the_trace_of_the_kernel_is_that_of_its_blocks():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    subject = Subject(net, wide(5, 3))
    blocks = subject.tangent_kernel().dense().diagonal().view(5, 2).sum(1)
    torch.testing.assert_close(subject.ntk_trace, blocks)
    layers = [subject.tangent_kernel(layers=[name]).dense() for name in ("0", "2")]
    torch.testing.assert_close(sum(layers), subject.tangent_kernel().dense())


@pytest.mark.parametrize(
    ("name", "room"),
    [("conv-grouped", 1e5), ("groupnorm", 1e5), ("embedding-mlp", 1e4), ("layernorm", 1e4)],
)
def test_the_trace_of_the_kernel_is_the_same_whatever_was_asked_before(name, room):
    model, batch = MODELS[name]()
    model = model.double()
    first, later, apart = (Subject(model, batch) for _ in range(3))
    _ = later.adjoints
    torch.testing.assert_close(later.ntk_trace, first.ntk_trace, rtol=1e-12, atol=0)
    with memory(int(room)):  # not of all samples at once
        torch.testing.assert_close(apart.ntk_trace, first.ntk_trace, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["embedding-mlp", "residual-mlp", "batchnorm-train", "lstm"])
def test_what_watchers_see_is_the_same_after_a_run_without_them(name):
    model, batch = MODELS[name]()
    watched, later = Subject(model, batch), Subject(model, batch)
    later.curvature("gauss-newton")  # asks no watcher
    told = lambda branches: [(b.site, b.scales, b.linear) for b in branches]
    assert later.uses_outside == watched.uses_outside
    assert later.unfed == watched.unfed
    assert later.squashes == watched.squashes
    assert told(later.branches) == told(watched.branches)
    assert later.tail.names == watched.tail.names
    assert later.closing_operation == watched.closing_operation


def test_the_map_around_a_sample_needs_a_batch_of_one_tensor():
    net, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double(), wide(5, 3)
    with pytest.raises(Refusal, match="got sample 0 of 5 in a tuple"):
        sample_affine(Subject(net, (x,)))
    with pytest.raises(Refusal, match="got sample -1 of 5 in a Tensor"):
        sample_affine(Subject(net, x), -1)
    found = sample_affine(Subject(net, x), 2, stop="0")
    assert torch.equal(found.matrix.dense(), net[0].weight)


def test_what_was_read_is_read_once():
    subject = supervised(nn.Linear(3, 3))
    assert subject.self_check is subject.self_check
    assert subject.gradients is subject.gradients
    assert subject.jacobians is subject.jacobians


# ------------------------------------------------------------------------------
# What is read of one run that is watched.


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def words():
    return Net(
        lambda m, ids: m.last(m.first(m.words(ids)).relu()).mean(1),
        words=nn.Embedding(9, 4),
        first=nn.Linear(4, 3),
        last=nn.Linear(3, 2),
    )


def test_what_layers_read_and_write_by_site():
    net, ids = words(), torch.arange(10).view(2, 5) % 9
    subject = Subject(net, ids)
    with torch.no_grad():
        h = net.first(net.words(ids))
    assert list(subject.activations) == ["first", "last", OUTPUT]  # ids are no representation
    assert list(subject.preactivations) == ["words", "first", "last"]
    torch.testing.assert_close(subject.activations["last"].channels, h.relu().flatten(0, 1))
    torch.testing.assert_close(subject.preactivations["first"].samples, h.flatten(1))
    torch.testing.assert_close(subject.activations[OUTPUT].samples, net(ids).detach())
    assert subject.activations[OUTPUT].channels is None
    assert {w.site for w in subject.weights} == {"words.weight", "first.weight", "last.weight"}
    assert (subject.count, subject.output_rule) == (2, "the output tensor")


def test_spectra_are_of_what_is_finite():
    class Blows(nn.Sequential):
        def forward(self, x):
            return self[1](self[0](x) * 1e38 * 1e38)

    subject = Subject(Blows(nn.Linear(3, 4), nn.Linear(4, 2)), drawn(5, 3))
    assert set(subject.spectra) == {("0", "samples")}
    sigma = torch.linalg.svdvals(drawn(5, 3).double())
    torch.testing.assert_close(subject.spectra["0", "samples"].raw.sigma, sigma)


def test_targets_are_the_subjects_own():
    y = torch.zeros(5, 2)

    def spoils(out, targets):
        return targets.sub_(out).square().mean()

    subject = Subject(nn.Linear(3, 2), drawn(5, 3), y, spoils)
    assert subject.calls
    assert not y.any()


def test_a_wrapped_model_is_measured_itself():
    inner = nn.Linear(3, 2)

    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self._orig_mod = inner

    assert Subject(Wrapper(), drawn(5, 3)).model is inner


def test_refusals_of_what_is_asked(as_users_see_it):
    with pytest.raises(Refusal, match="`outputs` must be 1 or more, got 0"):
        Subject(nn.Linear(3, 2), drawn(5, 3), outputs=0)
    with pytest.raises(Refusal, match=r"must have a layer .* got PReLU with none"):
        _ = Subject(nn.PReLU(), drawn(5, 3)).modules
    with pytest.raises(Refusal, match="`targets` must be finite, got 1 of 5"):
        Subject(nn.Linear(3, 2), drawn(5, 3), torch.tensor([0, 1, 0, 0, float("nan")]))


def test_samples_may_lie_along_another_dimension():
    net = nn.RNN(3, 4)
    subject = Subject(net, drawn(7, 5, 3), batch_dim=1)
    assert subject.count == 5
    assert subject.activations[""].samples.shape == (5, 21)
    assert subject.preactivations[""].channels.shape == (35, 4)


def test_a_plain_stack_is_told_from_what_is_none():
    x = drawn(5, 3)
    net = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.25), nn.Linear(4, 2))
    assert Subject(net, x).stack.slope == 0.25
    assert (
        "neither a linear layer nor a convolution"
        in Subject(words(), torch.ones(2, 5).long()).stack
    )
    subject = Subject(net, x, drawn(5, 2), F.mse_loss)
    assert [s.units for s in symmetries_of(subject).scalings] == [4]


# ------------------------------------------------------------------------------
# Few runs answer everything, and what fails in a common run is asked by itself.


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


@pytest.mark.parametrize("name", ["relu-mlp", "small-resnet"])
def test_a_first_look_derives_by_weights_once(name):
    subject, passed = task(name), []
    for p in subject.model.parameters():
        p.register_hook(lambda _: passed.append(1))
    task_of_it = {"targets": subject.targets, "loss": F.mse_loss}
    survey.profile(subject.model, subject.batch, **task_of_it, views=("setup",))
    assert len(passed) == len([*subject.model.parameters()])


@pytest.mark.parametrize("written", [True, False])
def test_attentions_are_found_where_a_softmax_is_written_out(written):
    weigh = lambda scores: scores.softmax(-1) if written else scores
    layers = {name: nn.Linear(4, 4) for name in ("q", "k", "v")}
    net = Net(lambda m, x: weigh(m.q(x) @ m.k(x).mT) @ m.v(x), **layers)
    subject = Subject(net, drawn(5, 3, 4))
    assert subject.calls  # the watched run is made
    assert bool(subject.attentions) == written


def test_whether_samples_mix_is_asked_without_gradients_of_weights():
    subject, passed = task("relu-mlp"), []
    for p in subject.model.parameters():
        p.register_hook(lambda _: passed.append(1))
    assert not subject.mixing
    assert not passed
    assert not subject.unaccounted
    assert passed


def test_gradients_of_samples_take_one_run_on_a_tape():
    subject, runs = task("relu-mlp"), []
    subject.model.register_forward_pre_hook(lambda *_: runs.append(torch.is_grad_enabled()))
    assert subject.gradients.pairs
    assert runs.count(True) == 1


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
    monkeypatch.setattr("sigmascope.models.subject.MANY", 39)
    few = Subject(model, batch).adjoints
    assert (len(few.outputs), few.mixed) == (8, True)
    assert len(Subject(model, batch, outputs=16).adjoints.outputs) == 16


@pytest.mark.parametrize(
    ("outputs", "spare", "apart"),
    [(4, 0, False), (16, 0, False), (17, 0, True), (40, 0, True), (16, -1, True)],
)
def test_small_derivatives_of_all_outputs_join_the_common_run_and_drawn_ones_do_not(
    outputs, spare, apart, monkeypatch
):
    """Small: what layers write, for every output, is no more than may be held."""
    monkeypatch.setattr(
        "sigmascope.models.tape.MEMORY_FLOOR", 1
    )  # so that not all samples fit at once

    def asked():
        g = torch.Generator().manual_seed(0)
        net = mlp(inputs=6, outputs=outputs, depth=6, width=4, generator=g)
        return Subject(net, torch.randn(30, 6, generator=g))

    subject, passes = asked(), []
    held = sum(c.output.numel() for c in subject.calls) * min(outputs, 16)
    monkeypatch.setattr("sigmascope.models.subject.SMALL", held + spare)
    subject.model.register_forward_pre_hook(lambda *_: passes.append(torch.is_grad_enabled()))
    assert subject._piece(subject._differentiated) < subject.count
    common = ASKED["adjoints"](subject)
    assert (passes.count(True) > 1) == apart
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
    (whole,) = Subject(model, subject.batch).branches  # sizes are those of all pieces together
    assert subject.branches[0].strength == pytest.approx(whole.strength, rel=1e-5)


def test_gradients_by_sample_are_not_those_of_a_last_layer_that_bends():
    class Bent(nn.Linear):
        pass

    class Own(nn.Module):
        def __init__(self, bend):
            super().__init__()
            self.matrix, self.bend = nn.Parameter(torch.eye(3)), bend

        def forward(self, x):
            return self.bend(x @ self.matrix)

    x, y = torch.tensor([[1.0, -2.0, 3.0], [0.5, 1.0, -1.0]]), torch.zeros(2, 3)
    for last, said in ((Own(torch.relu), "Own"), (Own(torch.clone), ""), (Bent(3, 3), "")):
        subject = Subject(nn.Sequential(nn.Linear(3, 3), last), x, y, F.mse_loss)
        assert said in subject.unsplit
        assert (subject.gradients is None) == bool(said)
