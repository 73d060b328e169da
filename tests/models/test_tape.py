import threading
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal, memory
from sigmascope.models import Subject
from sigmascope.models.layers import Statisticians
from sigmascope.models.tape import (
    MEMORY_FLOOR,
    Scene,
    at_once,
    backward,
    gradient_turns,
    held,
    large,
    require_gradients,
    tape_size,
)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def scene(net=None, n=6, **more):
    net = nn.Linear(3, 2) if net is None else net
    return Scene(net, drawn(n, 3), **more)


def test_pieces_and_choices_keep_all_else():
    whole = scene(targets=7, loss=F.mse_loss)
    parts = list(whole.pieces(4))
    assert [(p.count, where) for p, where in parts] == [(4, slice(0, 4)), (2, slice(4, 6))]
    assert all((p.model, p.targets, p.loss) == (whole.model, 7, F.mse_loss) for p, _ in parts)
    picked = whole.chosen(torch.tensor([5, 1]))
    assert torch.equal(picked.batch, whole.batch[[5, 1]])


def test_as_many_samples_as_memory_allows():
    one = scene(n=8)
    assert one.fitting(entries=8, columns=10) == 8
    # as many parameters and entries as may be held twice, each with 6 derivatives: in 3 rounds
    entries = MEMORY_FLOOR
    assert one.fitting(entries=entries, columns=6) == 3
    assert one.fitting(entries=entries, columns=10**6) == 1


def test_without_a_loss_it_is_squared_error():
    out = drawn(6, 2)
    assert float(scene().value(out)) == pytest.approx(float(out.square().sum()) / 6)
    assert float(scene(targets=out + 1, loss=F.mse_loss).value(out)) == pytest.approx(1)


def test_losses_are_those_of_the_samples_alone():
    y = torch.tensor([0, 1, 1, 0, 0, 1])
    one = scene(targets=y, loss=F.cross_entropy)
    expected = F.cross_entropy(one.model(one.batch), y, reduction="none")
    torch.testing.assert_close(one.losses(), expected)
    for bad in (scene(), scene(targets=1.0, loss=lambda o, t: (o - t).square().mean())):
        with pytest.raises(Refusal, match="needs one loss per sample"):
            bad.losses()


def test_a_run_on_tape_records_layers_and_normalisers_apart():
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    listened = {"0": net[0], "1": net[1], "2": net[2]}
    with Scene(net, drawn(5, 3), listened=listened).on_tape() as run:
        assert [c.site for c in run.calls] == ["0", "1", "2"]
        assert [c.site for c in run.layers] == ["0", "2"]
        assert run.flat.shape == (5, 2)
        (by,) = torch.autograd.grad(run.flat.sum(), run.calls[0].output)
    assert by.shape == (5, 4)
    with Scene(net, drawn(5, 3), listened=listened).on_tape(grad=False) as run:
        assert not run.output.requires_grad


def test_batch_normalisers_are_held_at_what_they_saw():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).train()
    frozen, x = Statisticians(), drawn(6, 3)
    with torch.no_grad():
        z = net[0](x)
        frozen.rewrite(net[1], z, z)
        expected = net(x)
    before = net[1].running_mean.clone()
    whole = Scene(net, x, listened={"1": net[1]}, frozen=frozen)
    for piece, where in whole.pieces(1):  # a single sample has no statistics
        with piece.on_tape() as run:
            torch.testing.assert_close(run.output.detach(), expected[where])
    assert net[1].training
    assert torch.equal(net[1].running_mean, before)


def test_samples_may_lie_along_another_dimension():
    turned = Scene(nn.Identity(), drawn(3, 6, 2), batch_dim=1)
    assert turned.count == 6
    assert turned.split(drawn(3, 6, 2)).shape == (6, 3, 2)
    assert turned.split(drawn(5)) is None
    with (
        Scene(nn.Linear(2, 5), drawn(5, 2), batch_dim=1).on_tape() as run,
        pytest.raises(Refusal, match="must have one row per sample"),
    ):
        _ = run.flat


# ------------------------------------------------------------------------------
# As many samples, and gradients, as memory holds.


def subject(samples: int = 8) -> Subject:
    model = nn.Sequential(nn.Linear(10, 1000), nn.Tanh(), nn.Linear(1000, 10))
    return Subject(model, torch.ones(samples, 10))


def test_what_is_held_is_what_layers_read_and_write():
    # 10 read and 1000 written, 1000 read and 10 written, in float32
    assert held(subject().calls) == 8 * 4 * (10 + 1000 + 1000 + 10)


def test_a_tape_grows_with_the_samples_and_leaves_weights_out():
    one, eight = (tape_size(subject(n).scene) for n in (1, 8))
    assert eight == 8 * one
    assert one >= held(subject(1).calls)


def test_as_many_samples_as_fit_are_put_on_a_tape():
    s = subject()
    assert at_once(s.scene, s.calls) == 8
    one = tape_size(subject(1).scene)
    with memory(13 * one):  # a quarter of it, for three of eight
        assert at_once(s.scene, s.calls) == 3


def test_one_sample_that_does_not_fit_is_refused(as_users_see_it):
    s = subject()
    with memory(1000), pytest.raises(Refusal, match=r"for one sample, .* allow more by `memory="):
        at_once(s.scene, s.calls)


@pytest.mark.parametrize(("times", "weighed"), [(63, 1), (65, 0)])
def test_a_tape_is_weighed_where_layers_write_a_64th_of_the_memory(monkeypatch, times, weighed):
    s, seen = subject(), []

    def weigh(scene):
        seen.append(scene.count)
        return 1

    monkeypatch.setattr("sigmascope.models.tape.tape_size", weigh)
    with memory(times * held(s.calls)):
        assert at_once(s.scene, s.calls) == 8
    assert seen == [1] * weighed


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [(8 * 24, [[3, 3], [6], [1]]), (8 * 28, [[3, 3], [6, 1]]), (1, [[3], [3], [6], [1]])],
)
def test_gradients_come_as_many_at_a_time_as_an_eighth_of_the_memory_holds(limit, sizes):
    parameters = [torch.zeros(n) for n in (3, 3, 6, 1)]  # of four bytes
    with memory(limit):
        found = [*gradient_turns(parameters)]
    assert [[len(p) for p in some] for some, _ in found] == sizes
    assert [last for _, last in found] == [False] * (len(sizes) - 1) + [True]


def test_without_parameters_there_are_no_turns():
    assert not [*gradient_turns([])]


def test_a_tape_that_is_weighed_is_let_go_of():
    scene, seen = subject().scene, []

    def watch(module, args, out):
        seen.append(weakref.ref(out))

    for layer in scene.model:
        layer.register_forward_hook(watch)
    tape_size(scene)
    assert len(seen) == 3
    assert not [one for one in seen if one() is not None]


def test_the_gradient_of_the_largest_parameter_must_fit_twice(as_users_see_it):
    s = subject()
    largest = 4 * 1000 * 10
    needed = 1.2 * (held(s.calls) + tape_size(subject(1).scene) + 2 * largest)
    with memory(int(needed) + 2):
        require_gradients(s.scene, s.calls, do="wait")
    words = r"gradient of `0\.weight`, which is held twice, got .* takes .* `memory=`.*, or wait\."
    with memory(int(needed) - 2), pytest.raises(Refusal, match=words):
        require_gradients(s.scene, s.calls, do="wait")
    with memory(int(needed) - 2):  # only what is trained has a gradient
        s.model.requires_grad_(False)
        require_gradients(s.scene, s.calls, do="wait")


def test_a_model_that_takes_batches_of_one_size_is_weighed_without_its_tape():
    class Four(nn.Linear):
        def forward(self, x):
            return super().forward(x.reshape(4, 10))

    s = Subject(Four(10, 10), torch.ones(4, 10))
    with memory(4 * 10 * (4 + 4) + 2 * 400 + 300):
        require_gradients(s.scene, s.calls, do="wait")


def test_from_a_32nd_of_the_memory_a_gradient_is_large():
    with memory(3200):
        assert large() == 100


def test_the_memory_of_a_tape_that_was_weighed_goes_back(monkeypatch):
    s, trimmed = subject(), []
    monkeypatch.setattr("sigmascope.models.tape.trim", lambda *, short: trimmed.append(short))
    require_gradients(s.scene, s.calls, do="wait")
    assert not trimmed  # there was none
    with memory(200_000):
        require_gradients(s.scene, s.calls, do="wait")
    assert trimmed == [True]


# ------------------------------------------------------------------------------
# Gradients that are taken as each is made: the same as all together, and only of our own pass.


class Tied(nn.Module):
    def __init__(self, **named):
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.table = nn.Embedding(50, 8, **named)
        self.middle = nn.Linear(8, 8)
        self.head = nn.Linear(8, 50, bias=False)
        self.unused = nn.Parameter(torch.ones(3))
        for p in self.parameters():
            p.data = torch.randn(p.shape, generator=g)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.middle(self.table(ids)).tanh())


IDS = torch.tensor([[1, 2, 3], [3, 2, 49]])


def taken(value, parameters, **named):
    found: dict[nn.Parameter, list] = {p: [] for p in parameters}
    others = backward(value, None, parameters, lambda p, g: found[p].append(g.clone()), **named)
    return found, others


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("how", "times"), [({}, 1), ({"large": 0}, 1), ({"large": 0, "parts": True}, 2)]
)
def test_they_are_those_that_autograd_returns(how, times, sparse):
    net = Tied(sparse=sparse)
    value, own = net(IDS).square().sum(), [*net.parameters()]
    want = torch.autograd.grad(value, own, retain_graph=True, allow_unused=True)
    found, _ = taken(value, own, **how)
    names = {"table.weight": times, "middle.weight": 1, "middle.bias": 1, "unused": 0}
    assert {n: len(found[p]) for n, p in net.named_parameters()} == names
    for p, grad in zip(own, want, strict=True):
        if grad is None:
            assert not found[p]
        else:
            torch.testing.assert_close(sum(found[p]), grad, rtol=1e-6, atol=1e-5)
    assert all(p._backward_hooks is None for p in own)


def test_nothing_of_their_size_is_held_when_the_pass_is_over():
    net = Tied()
    returned = []
    differentiate = torch.autograd.grad

    def watched(*given, **named):
        returned.extend(differentiate(*given, **named))
        return tuple(returned)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.autograd, "grad", watched)
        taken(net(IDS).sum(), [net.table.weight, net.middle.weight])
    assert [g.untyped_storage().nbytes() for g in returned] == [4, 4]


def test_a_tape_that_is_kept_can_be_passed_back_again_and_others_come_back():
    net = Tied()
    out = net.table(IDS)
    value = net.head(net.middle(out)).sum()
    first, (delta,) = taken(value, [net.middle.weight], others=[out], again=True)
    second, (again,) = taken(value, [net.middle.weight], others=[out])
    assert delta is not None
    assert torch.equal(delta, again)
    assert torch.equal(first[net.middle.weight][0], second[net.middle.weight][0])


def test_sparse_gradients_come_whole():
    net = Tied(sparse=True)
    value = net.table(IDS).sum()
    found, _ = taken(value, [net.table.weight])
    (grad,) = found[net.table.weight]
    assert grad.is_sparse
    assert grad.to_dense().sum() == 48


def test_hooks_of_the_users_are_heard_and_see_the_sum():
    net, seen = Tied(), []

    def halve(grad):
        seen.append(grad.clone())
        return grad / 2

    net.table.weight.register_hook(halve)
    value = net(IDS).sum()
    (want,) = torch.autograd.grad(value, net.table.weight, retain_graph=True)
    found, _ = taken(value, [net.table.weight], large=0, parts=True)
    assert len(seen) == 2
    assert torch.equal(seen[0], seen[1])
    torch.testing.assert_close(sum(found[net.table.weight]), want)
    assert len(net.table.weight._backward_hooks) == 1


@pytest.mark.parametrize("large", [None, 0])
def test_a_pass_of_another_thread_keeps_its_gradients(large):
    net, theirs = Tied(), []

    def train():
        theirs.append(torch.autograd.grad(net(IDS).sum(), net.middle.weight)[0])

    def take(p, grad):
        if not theirs:
            thread = threading.Thread(target=train)
            thread.start()
            thread.join()

    backward(net(IDS).sum(), None, [*net.parameters()], take, large=large)
    assert theirs[0].abs().sum() > 0
    torch.testing.assert_close(theirs[0], torch.autograd.grad(net(IDS).sum(), net.middle.weight)[0])


def test_what_fails_in_the_taking_comes_out_and_leaves_no_hook():
    net = Tied()

    def fail(p, grad):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        backward(F.relu(net(IDS)).sum(), None, [*net.parameters()], fail)
    assert all(p._backward_hooks is None for p in net.parameters())


def test_what_has_no_gradient_is_said_in_autograds_words():
    with pytest.raises(RuntimeError, match="does not require grad"):
        backward(torch.ones(()), None, [nn.Parameter(torch.ones(1))], lambda p, g: None)


@pytest.mark.parametrize(("large", "times"), [(None, 0), (0, 1), (10**9, 0)])
def test_memory_that_is_free_goes_back_before_a_large_gradient_is_made(monkeypatch, large, times):
    trimmed = []
    monkeypatch.setattr("sigmascope.models.tape.trim", lambda *, short: trimmed.append(short))
    net = Tied()
    taken(net(IDS).square().sum(), [*net.parameters()], large=large)
    assert trimmed == [True] * times
