"""A step that was recorded gives the loss that was, and is a program of what the script does."""

import contextlib
import warnings
from copy import deepcopy

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional as F
from torch.overrides import _get_current_function_mode

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis import diagnose
from sigmascope.diagnosis.scripts import diagnose_script, replay
from sigmascope.diagnosis.scripts.observer import Observer, Stopped
from sigmascope.diagnosis.scripts.replay import program_of_step
from sigmascope.diagnosis.scripts.running import program_of_run
from sigmascope.models.layers import called
from sigmascope.models.samples import mapped, tensors
from sigmascope.models.state import is_compiled
from tests.diagnosis.scripts.loops import AGAIN, CRITIC, HEALTHY, LOADER, LOSS, SETUP, STEP, code
from tests.diagnosis.scripts.test_rules import run

MASKS = """\
z = model(x)
        apart, same = torch.cdist(z, z), y[:, None] == y
        for _ in range({}):
            same = same & same
        within = apart.masked_fill(~same, -1.0).amax(1)
        loss = nn.functional.softplus(within - apart.masked_fill(same, 1e6).amin(1)).mean()"""


@pytest.mark.parametrize("long", [0, 60, 2000])
def test_masks_that_are_made_of_labels_are_part_of_the_loss(long):
    """However many operations lead from the one to the other, and each twice."""
    seen = run(code(("loss = " + LOSS, MASKS.format(long))), recorded=True, steps=2)
    assert seen.unheard == ""
    (slot,) = seen.step.targets
    assert seen.step.batches[0][slot].dtype == torch.long
    assert seen.step.batches[0][slot].shape == (16,)


WEIGHED = """\
out, t = model(x)[:, 0], y.float()
        weight = {}
        each = nn.functional.binary_cross_entropy_with_logits(out, t, reduction="none")
        loss = (weight * each).mean()"""


@pytest.mark.parametrize("weight", ["1 + t", "0.8 * t + 0.2 * (1 - t)", "(2 * t).exp()"])
def test_weights_that_are_made_of_targets_are_part_of_the_loss(weight):
    targets = program_of_run(run(code(("loss = " + LOSS, WEIGHED.format(weight))), recorded=True))
    assert sorted(targets.data[1].unique().tolist()) == [0, 1]


@pytest.mark.parametrize("start", ["torch.randint(0, 8, (16, 1))", "(8 * x[:, :1]).long()"])
def test_inputs_and_targets_that_are_cut_of_one_tensor_are_a_batch(start):
    """Though what they are made of is one tensor, and might be the batch itself."""
    drawn = f"s = ({start} + torch.arange(9) * 3) % 8"
    lost = "nn.functional.cross_entropy(model(s[:, :-1].float()), s[:, 1] % 2)"
    text = code((LOADER, f"{LOADER}        {drawn}\n"), (LOSS, lost))
    inputs, targets = program_of_run(run(text, recorded=True)).data
    assert (inputs.shape[1:], targets.shape[1:]) == ((8,), ())


CAST = """\
with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)"""


def test_a_loss_under_automatic_casting_is_the_loss_that_was():
    seen = run(code(("loss = " + LOSS, CAST)), recorded=True)
    assert seen.unheard == ""
    first = seen.step
    assert [c.name for c in first.loss_calls] == ["cross_entropy"]
    assert first.loss_calls[0].cast == ("cpu", torch.bfloat16)
    assert program_of_run(seen).loss is not None
    model = first.model().bfloat16()
    out = model(first.given(first.batches[0]).bfloat16())
    again = float(first.lost(out, first.wanted(first.batches[0])).detach())
    assert again == pytest.approx(seen.loss.values[0], rel=1e-3)


def test_a_function_with_its_own_way_back_is_computed_again_as_a_part_of_the_loss():
    seen = run(code(*HEALTHY["backward of its own"]), recorded=True)
    assert seen.unheard == ""
    first = seen.step
    out = first.model()(first.given(first.batches[0]))
    again = float(first.lost(out, first.wanted(first.batches[0])).detach())
    assert again == pytest.approx(seen.loss.values[0], rel=1e-5)


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 6), nn.Linear(3, 8)

    def forward(self, x):
        mu, log_var = self.encoder(x).chunk(2, 1)
        return self.decoder(mu + torch.randn_like(mu) * (log_var / 2).exp()), mu, log_var


class Language(nn.Module):
    """Gives its loss beside its output, if it is given targets."""

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(11, 16), nn.Linear(16, 11)

    def forward(self, ids, targets=None):
        logits = self.out(self.embed(ids))
        loss = (
            F.cross_entropy(logits.reshape(-1, 11), targets.reshape(-1))
            if targets is not None
            else 0
        )
        return logits, loss


def _evidence_bound(x, out):
    rebuilt, mu, log_var = out
    apart = -0.5 * (1 + log_var - mu.pow(2) - log_var.exp()).sum(1)
    return (rebuilt - x).square().sum(1).add(apart).mean()


def _pairs(a, b):
    logits = F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / 0.1
    return F.cross_entropy(logits, torch.arange(len(a)))


def _contrast():
    net, top = nn.Linear(8, 16), nn.Linear(16, 8)
    return [net, top], lambda x: _pairs(top(net(x).relu()), top(net(x + 0.1).relu()))


def _bound():
    net = Vae()
    return [net], lambda x: _evidence_bound(x, net(x))


def _squares():
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    return [net], lambda x: ((net(x) - x[:, :1]) ** 2).mean()


def _two_heads():
    net, one, two = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 1)
    weights = nn.Parameter(torch.zeros(2))

    def loss(x):
        h = net(x).relu()
        kinds, size = x[:, :3].argmax(1), x.sum(1)
        parts = F.cross_entropy(one(h), kinds), F.mse_loss(two(h).squeeze(1), size)
        return sum(torch.exp(-w) * p + w for w, p in zip(weights, parts, strict=True))

    return [net, one, two], loss


def _recurrent():
    cell, out = nn.GRUCell(2, 8), nn.Linear(8, 1)

    def loss(x):
        h = torch.zeros(len(x), 8)
        for part in x.split(2, 1):
            h = cell(part, h)
        return F.smooth_l1_loss(out(h).squeeze(1), x.mean(1))

    return [cell, out], loss


def _masked():
    net = nn.Linear(8, 4)

    def loss(x):
        out, mask = net(x), x[:, 0] > 0
        return F.cross_entropy(out[mask], x[:, :4].argmax(1)[mask])

    return [net], loss


def _written_in_place():
    net = nn.Linear(8, 8)

    def loss(x):
        out = net(x) * 1.0
        out[:, 0] = 0.0
        out += 1.0
        return (out - x).abs().mean()

    return [net], loss


def _accumulated():
    net = nn.Linear(8, 3)
    return [net], lambda x: F.cross_entropy(net(x), x[:, :3].argmax(1), label_smoothing=0.1) / 4


KINDS = {
    "squares": _squares, "bound": _bound, "pairs": _contrast, "two heads": _two_heads,
    "recurrent": _recurrent, "masked": _masked, "in place": _written_in_place,
    "accumulated": _accumulated,
}  # fmt: skip


def trained(make, *, steps=4, rows=24, end=contextlib.nullcontext, watched=True):
    """A loop of some steps: what was seen, its losses and its modules."""
    watching = Observer(recorded=True) if watched else contextlib.nullcontext()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        modules, loss_of = make()
        optimizer = torch.optim.SGD([p for m in modules for p in m.parameters()], lr=0.01)
        losses = []
        with watching, end():
            for _ in range(steps):
                loss = loss_of(torch.randn(rows, 8))
                losses.append(loss.item())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return watching.run if watched else None, losses, modules


@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_computed_again_from_the_batch(name):
    found, losses, _ = trained(KINDS[name])
    step = found.step
    assert step is not None, found.unheard
    model, batch = step.model(), step.batches[0]
    torch.manual_seed(0)
    given = step.given(batch)
    args = given if isinstance(given, tuple) else (given,)
    again = float(step.lost(model(*args), step.wanted(batch)).detach())
    if name != "bound":  # which draws
        assert again == pytest.approx(losses[0], rel=1e-5)
    assert again == pytest.approx(losses[0], rel=0.5)
    assert len(step.batches) == 4


@pytest.mark.parametrize("name", KINDS)
def test_weights_are_the_same_to_the_last_bit(name):
    (_, seen, watched), (_, losses, modules) = (
        trained(KINDS[name], watched=watched) for watched in (True, False)
    )
    assert losses == seen
    for a, b in zip(watched, modules, strict=True):
        assert all(map(torch.equal, a.parameters(), b.parameters()))


@pytest.mark.parametrize("name", ["squares", "bound", "two heads", "recurrent"])
def test_a_step_is_a_program_that_can_be_diagnosed(name):
    found, *_ = trained(KINDS[name])
    program = program_of_run(found)
    assert program.batch_size == 24
    found = diagnose(program, samples=48, budget=0.5)
    views = {"representations"} if name == "bound" else {"representations", "gradients"}  # it draws
    assert {r.view for r in found.profile.readings} >= views


def test_a_loss_of_torch_is_known_by_its_name():
    program = program_of_run(run(code(), recorded=True))
    assert program.loss is F.cross_entropy
    assert (program.optimizer, program.lr, program.batch_size) == ("sgd", 0.5, 16)
    assert program.data[0].shape == (256, 8)
    kept = (program.data[0][:, :2].sum(1) > 0).long()
    assert torch.equal(program.data[1], kept)


def test_a_loss_that_a_model_computes_itself_is_one_of_its_output():
    net = Language()
    found, losses, _ = trained(lambda: ([net], lambda x: net(*_ids(x))[1]))
    program = program_of_step(found.step)
    out = program.model(program.data[0]).detach()
    assert out.shape == (24, 7, 11)
    assert float(program.loss(out, program.data[1])) == pytest.approx(losses[0], rel=1e-5)


class Labelled(nn.Module):
    """A model that is given its targets for the loss alone, or to be told them ahead."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.emb, self.out = kind, nn.Embedding(11, 16), nn.Linear(16, 11)

    def forward(self, ids, targets):
        if self.kind == "shifted":
            targets, ids = targets[:, 1:], ids[:, :-1]
        h = self.emb(ids)
        if self.kind == "told":
            h = h + self.emb(targets)
        return F.cross_entropy(self.out(h).flatten(0, 1), targets.flatten())


SENTENCES = f"""
from tests.diagnosis.scripts.test_replay import Labelled
model = Labelled("{{}}")
ids = torch.randint(11, (256, 6))
data = torch.utils.data.TensorDataset(ids, ids.flip(1))
loader = torch.utils.data.DataLoader(data, batch_size=16)
{AGAIN}
"""


@pytest.mark.parametrize("call", ["x, y", "ids=x, targets=y", "x, targets=y"])
@pytest.mark.parametrize(("kind", "inputs"), [("alone", 1), ("shifted", 1), ("told", 2)])
def test_what_goes_in_for_the_loss_alone_is_no_input(kind, inputs, call):
    text = code((SETUP, SENTENCES.format(kind)), (LOSS, f"model({call})"))
    seen = run(text, recorded=True)
    program = program_of_run(seen)
    given, wanted = program.data
    parts = [*tensors(given)]
    assert len(parts) == inputs
    few = mapped(given, lambda t: t[:5])  # of fewer samples, too
    assert len(called(program.model, few)) == 5
    out = called(program.model, mapped(given, lambda t: t[:16])).detach()
    assert float(program.loss(out, wanted[:16])) == pytest.approx(seen.loss.values[0], rel=1e-5)


@pytest.mark.parametrize("by", ["another process", "numpy"])
def test_a_batch_that_is_filled_out_of_hearing_is_a_batch(by):
    """As that of a loader with workers is, which is brought into an empty tensor."""
    filled = {
        "another process": "torch.empty(0, dtype={0}.dtype).set_({0}.untyped_storage(), 0, "
        "{0}.shape, {0}.stride())",
        "numpy": "by_numpy({0})",
    }[by]
    made = """
def by_numpy(t):
    new = torch.empty(t.shape, dtype=t.dtype)
    new.numpy()[:] = t.numpy()
    return new
"""
    moved = f"        x, y = {filled.format('x')}, {filled.format('y')}\n"
    seen = run(code((SETUP, made), (LOADER, LOADER + moved)), recorded=True)
    assert program_of_run(seen).data[0].shape == (256, 8)
    assert len(seen.classes) == seen.steps  # and its targets are looked at


TOGGLED = "model.requires_grad_(False); model(x).sum(); model.requires_grad_(True)"


def test_what_is_frozen_for_another_loss_is_not_frozen_for_this():
    seen = run(code((LOADER, f"{LOADER}        {TOGGLED}\n")), recorded=True)
    assert all(p.requires_grad for p in program_of_run(seen).model.parameters())
    frozen = run(code((SETUP, "model[0].requires_grad_(False)")), recorded=True)
    assert [p.requires_grad for p in program_of_run(frozen).model.parameters()] == [False] * 2 + [
        True
    ] * 2


def test_of_phases_one_behind_another_the_first_is_looked_at_and_not_how_it_trains():
    later = f"    if epoch == 2: opt = torch.optim.Adam(model[2:].parameters(), lr=0.01)\n{LOADER}"
    seen = run(code((LOADER, later)), recorded=True, steps=None)
    assert seen.successive
    program = program_of_run(seen)
    assert (program.loss, program.lr, program.optimizer) == (F.cross_entropy, None, None)


def _ids(x):
    ids = (x.abs() * 7).long() % 11
    return ids[:, :-1], ids[:, 1:]


def test_a_mean_over_some_samples_is_not_joined_from_several_batches():
    joined, apart = (
        program_of_run(trained(KINDS[name])[0]).data[0] for name in ("squares", "masked")
    )
    assert len(joined) == 96
    assert len(apart) == 24


@pytest.mark.parametrize(("largest", "steps"), [(97, 4), (96, 0)])
def test_as_much_is_held_as_is_allowed(monkeypatch, largest, steps):
    # the output, its targets, their difference and its square, of 24 samples; and the loss
    monkeypatch.setattr(replay, "LARGEST", largest)
    found, *_ = trained(_squares)
    assert (len(found.step.batches) if found.step else 0) == steps
    assert steps or "too much was held" in found.unheard


def test_a_batch_that_is_all_there_is_is_taken_once():
    net, whole = nn.Linear(8, 1), torch.randn(20, 8)
    found, *_ = trained(lambda: ([net], lambda _: (net(whole) - whole[:, :1]).square().mean()))
    assert len(program_of_run(found).data[0]) == 20


NET = nn.Linear(8, 1)
OTHER = "critic = nn.Linear(8, 1)\nother = torch.optim.Adam(critic.parameters())"
LIMITS = {
    "one sample at a time": lambda: trained(
        lambda: ([NET], lambda x: sum(NET(row).square().sum() for row in x))
    )[0],
    "12 samples in all": lambda: trained(_squares, rows=3)[0],
    "drawn at random": lambda: trained(
        lambda: ([NET], lambda x: F.dropout(NET(x), 0.5).square().mean())
    )[0],
    "several optimizers": lambda: run(code((SETUP, OTHER), (STEP, STEP + CRITIC)), recorded=True),
    "not heard": lambda: run(code()),  # nothing is recorded
}


@pytest.mark.parametrize("says", LIMITS)
def test_what_is_no_program_is_told_as_a_limit(says):
    with pytest.raises(Refusal, match=says):
        program_of_run(LIMITS[says]())


@pytest.mark.parametrize("leave", [None, Stopped, ValueError])
def test_nothing_is_heard_when_watching_is_over(leave):
    @contextlib.contextmanager
    def end():
        yield
        if leave is not None:
            raise leave

    with contextlib.suppress(Stopped, ValueError):
        trained(KINDS["squares"], end=end)
    assert _get_current_function_mode() is None


def test_a_module_that_raises_leaves_nothing_behind():
    net = nn.Linear(8, 1)
    with pytest.raises(RuntimeError), Observer(recorded=True):
        net(torch.zeros(2, 3))
    assert _get_current_function_mode() is None


COMPILED = {
    "as another module": "model = torch.compile(model, backend='eager')",
    "in place": "model.compile(backend='eager')",
    "in part": "model[0].compile(backend='eager')",
    "in part, as another module": "model[2] = torch.compile(model[2], backend='eager')",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", COMPILED)
def test_what_is_compiled_is_heard_as_one_and_compiled_no_more_than_without(how):
    """Also when one listens no more, but now and then; and nothing is said of hooks of ours."""
    text, found = code(("range(4)", "range(7)"), (SETUP, COMPILED[how])), []
    for watching in (contextlib.nullcontext(), Observer(recorded=True)):
        torch._dynamo.reset()
        counters.clear()
        names = {"__name__": "__main__"}
        with torch.random.fork_rng(), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            before = [*warnings.filters]
            with watching:
                exec(compile(text, "<loop>", "exec"), names)
            assert [*warnings.filters] == before
        assert not [w for w in said if "global hooks" in str(w.message)]
        weights = [p.detach().clone() for p in names["model"].parameters()]
        found.append((weights, counters["stats"]["unique_graphs"], dict(counters["graph_break"])))
    (own, *graphs), (seen, *others) = found
    assert all(torch.equal(a, b) for a, b in zip(own, seen, strict=True))
    assert graphs == others
    model = program_of_step(watching.run.step).model
    assert not any(map(is_compiled, model.modules()))


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_heard_once_a_function_is_compiled():
    net, top = nn.Linear(8, 4), nn.Linear(4, 1)
    made = lambda x: top(torch.compile(lambda t: net(t), backend="eager")(x)).mean()
    found, *_ = trained(lambda: ([net, top], made))
    assert (found.steps, found.step) == (4, None)


@pytest.mark.parametrize(("order", "count"), [("torch.randperm(32)", 32), ("torch.arange(32)", 32)])
def test_the_same_samples_in_another_order_are_no_others(order, count):
    text = code(
        ("for x, y in loader:", f"for k in range(16):\n        o = {order}; x, y = X[o], Y[o]")
    )
    step = run(text, recorded=True).step
    assert len(step.batches) > 1
    assert len(program_of_step(step).data[0]) == count


GATHERED = (
    "[(a, int(b)) for a, b in zip(X, Y)]",  # labels of Python, as most data sets give them
    "[(a, float(b)) for a, b in zip(X, Y)]",
    "[(a.numpy(), b.numpy()) for a, b in zip(X, Y)]",
    "[{'a': a, 'b': int(b)} for a, b in zip(X, Y)]",
    "[(a, [int(b), 3]) for a, b in zip(X, Y)]",
)


@pytest.mark.parametrize("data", GATHERED)
def test_targets_are_those_that_a_loader_gathers_of_whatever_a_data_set_gives(data):
    changes = [("torch.utils.data.TensorDataset(X, Y)", data)]
    if "{" in data:
        lost = "nn.functional.cross_entropy(model(both['a']), both['b'])"
        changes += [("for x, y in loader:", "for both in loader:"), (LOSS, lost)]
    changes += [(LOSS, LOSS.replace(" y)", " y[0])"))] if "[int" in data else []
    changes += [(LOSS, LOSS.replace(" y)", " y.long())"))] if "float" in data else []
    program = program_of_run(run(code(*changes), recorded=True))
    _, targets = program.data
    assert targets is not None
    assert set(targets.long().tolist()) == {0, 1}


def test_a_loss_of_outputs_alone_is_told_as_a_limit(tmp_path, one_process):
    (tmp_path / "train.py").write_text(code((LOSS, "model(x).square().mean()")))
    found = diagnose_script(str(tmp_path / "train.py"), seconds=10, output="/dev/null")
    assert any("is not known" in why for why in found.unlooked)


def test_a_batch_is_known_again_by_its_first_numbers_in_their_order():
    x = torch.randn(12, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    mark = replay.mark_of(x)
    assert mark == replay.mark_of(x.clone()) == replay.mark_of(x.permute(0, 2, 3, 1).movedim(3, 1))
    for other in (x.flip(0), x.flip(1), x.roll(1, 3), x[:10], -x):
        assert replay.mark_of(other) != mark
    with torch.device("meta"):  # where a script makes its tensors is none of its business
        assert replay.mark_of(x) == mark
    ids = torch.tensor([[3, 1, 2], [5, 4, 0]])
    assert replay.mark_of(ids) != replay.mark_of(ids.flip(1))
    waves = torch.fft.fft(x)
    marks = {replay.mark_of(t) for t in (waves, waves.conj(), -waves, waves.real + 0j)}
    assert len(marks) == 4  # what is imaginary counts, and nothing warns of it
    shape, value = replay.mark_of(torch.eye(4).to_sparse())
    assert shape == (4, 4)
    assert value != value


def test_a_sparse_graph_is_a_constant_of_its_step():
    program = program_of_run(run(code(*HEALTHY["a sparse graph"]), recorded=True))
    inputs, targets = program.data
    assert inputs.shape == (256, 8)
    assert targets.shape == (256,)


X, AT = torch.randn(5, 3), torch.tensor([0, 2, 4])


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (torch.Tensor.__getitem__, (X, AT)),
        (torch.Tensor.__getitem__, (X, (AT, slice(None)))),
        (torch.index_select, (X, 0, AT)),
        (torch.gather, (X, 0, AT[:, None])),
        (torch.take, (X, AT + 10)),
        (nn.functional.embedding, (AT, X)),
    ],
)
def test_places_that_are_not_there_are_refused_before_a_gpu_ends_by_them(function, args):
    replay.require_within(function, args, {})
    beyond = replay.mapped(args, lambda t: t + 1 if t.dtype == torch.long else t)
    with pytest.raises((IndexError, RuntimeError)):
        replay.require_within(function, beyond, {})


class Packed(nn.Module):
    """Takes the longest samples first, as `pack_padded_sequence` does by itself."""

    def __init__(self):
        super().__init__()
        self.rows, self.out = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return self.out(self.rows(packed)[1][0])


def test_batches_that_have_the_longest_first_are_one_whole_in_any_order():
    def loss_of(x):
        lengths = torch.randint(1, 6, (len(x),)).sort(descending=True)[0]
        return nn.functional.mse_loss(net(x[:, None].repeat(1, 6, 1), lengths), x[:, :1])

    net = Packed()
    program = program_of_step(trained(lambda: ([net], loss_of))[0].step)
    (x, lengths), y = program.data
    assert len(x) == len(y) == 96
    assert (lengths.diff() > 0).any()
    order = torch.arange(96).flip(0)
    assert torch.allclose(program.model(x, lengths)[order], program.model(x[order], lengths[order]))


class Closed(nn.Module):
    """A model that runs a part of itself through a function that is made once."""

    def __init__(self):
        super().__init__()
        self.first, self.drop = nn.Linear(8, 8), nn.Dropout(0.5)
        self.last = lambda x: self.drop(self.first(x))

    def forward(self, x):
        return x + self.last(x)


def test_a_copy_of_a_model_computes_with_its_own_parts_though_a_function_holds_them():
    net = Closed()
    found, *_ = trained(lambda: ([net], lambda x: net(x).square().mean()))
    model = program_of_step(found.step).model.eval()
    x = torch.randn(2, 8)
    assert torch.equal(model(x), x + model.first(x))
    assert model.first is not net.first


class Words(nn.Module):
    """A recurrent model of words, in either layout."""

    def __init__(self, *, batch_first):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 6), nn.Linear(6, 11)
        self.rnn = nn.GRU(6, 6, batch_first=batch_first)

    def forward(self, ids, state=None):
        return self.head(self.rnn(self.embedding(ids), state)[0]).flatten(0, 1)


@given(
    st.integers(8, 12), st.integers(8, 12), st.booleans(), st.sampled_from(["state", "shift", ""])
)
def test_samples_behind_time_are_known_by_a_state_or_by_targets_one_time_later(
    times, samples, time_first, told
):
    net = Words(batch_first=not time_first)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    watch = Observer(recorded=True, own=lambda _: True)
    with torch.random.fork_rng(), watch:
        for _ in range(2):
            text = torch.randint(0, 11, (times + 1, samples))
            other = torch.randint(0, 11, (times, samples))
            x, y = text[:-1], text[1:] if told == "shift" else other
            x, y = (x, y) if time_first else (x.t().contiguous(), y.t().contiguous())
            state = torch.zeros(1, samples, 6) if told == "state" else None
            optimizer.zero_grad()
            F.cross_entropy(net(x, state), y.flatten()).backward()
            optimizer.step()
    assert watch.run.step is not None, watch.run.unheard
    behind = time_first and bool(told)
    with pytest.raises(Refusal, match="time") if behind else contextlib.nullcontext():
        program_of_step(watch.run.step)


@pytest.mark.parametrize("state", [False, True])
def test_a_batch_of_one_sample_is_told_as_that(state):
    net = Words(batch_first=True)
    one = lambda: net(torch.randint(0, 11, (1, 5)), torch.zeros(1, 1, 6) if state else None)
    found, *_ = trained(lambda: ([net], lambda x: one().square().mean()))
    assert found.step is None
    assert "one sample" in found.unheard


@pytest.mark.parametrize("state", [False, True])
def test_two_samples_are_more_than_one(state):
    net = Words(batch_first=True)
    two = lambda: net(torch.randint(0, 11, (2, 5)), torch.zeros(1, 2, 6) if state else None)
    found, *_ = trained(lambda: ([net], lambda x: two().square().mean()))
    assert "one sample" not in str(found.unheard)


@pytest.mark.parametrize(
    ("made", "alike"),
    [(nn.LayerNorm, False), (lambda width: nn.Linear(width, width), False), (None, True)],
)
def test_what_began_with_the_same_drawn_weights_is_a_twin(made, alike):
    """Gains begin with ones in all models, which tells nothing."""
    net = nn.Linear(8, 8) if made is None else made(8)
    other = deepcopy(net) if made is None else made(8)
    found, *_ = trained(lambda: ([net, other], lambda x: (net(x) + other(x)).square().mean()))
    assert [m.twin for m in found.modules] == [alike, alike]
