"""Spectra of weights while they train, whole or in pieces on several processes."""

import copy
from functools import partial
from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from sigmascope.watching.probes import WeightSpectra, weights
from sigmascope.watching.probes.base import alone, places
from sigmascope.watching.probes.weights import Balances, Shards
from sigmascope.watching.processes import Processes
from tests.models_zoo import Net
from tests.watching.made import Shelf, at_leisure, stack, task, trained, watched as watched_steps
from watching.together import together


def read(model, turns):
    probe = WeightSpectra(model, [], Processes(), torch.Generator().manual_seed(0))
    found = []
    for _ in range(turns):
        alone(probe.agree())
        found += probe.read(probe.local())
    return {(f.quantity, s): e for f in found if hasattr(f, "quantity")
            for s, e in zip(f.sites, f.estimates or f.values, strict=True)}  # fmt: skip


def test_norms_and_ranks_are_those_of_the_singular_values():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 12), nn.Linear(12, 9)).double()
    found = read(model, 2)
    for site in ("0.weight", "1.weight"):
        s = torch.linalg.svdvals(model.get_parameter(site).detach())
        assert found["spectral norm", site].value == pytest.approx(float(s[0]), rel=1e-12)
        stable = float(s.square().sum() / s[0] ** 2)
        assert found["stable rank", site].value == pytest.approx(stable, rel=1e-12)


def test_noise_has_no_spikes_and_a_planted_one_is_counted():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(60, 60, bias=False), nn.Linear(60, 60, bias=False))
    with torch.no_grad():
        for layer in model:
            layer.weight.normal_()
        model[1].weight.add_(torch.outer(*torch.randn(2, 60)) * 0.6)
    found = read(model, 2)
    assert found["spikes", "0.weight"].value == 0
    assert found["spikes", "1.weight"].value == 1


def test_large_weights_are_read_by_their_leading_values(monkeypatch):
    monkeypatch.setattr(weights, "FULL", 16)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(80, 60))
    found = read(model, 1)
    s = torch.linalg.svdvals(model[0].weight.detach().double())
    norm = found["spectral norm", "0.weight"]
    assert norm.low <= float(s[0]) <= norm.high
    stable = found["stable rank", "0.weight"]
    assert stable.low <= float(s.square().sum() / s[0] ** 2) <= stable.high


@pytest.mark.parametrize(("value", "norm"), [(0.0, 0.0), (float("nan"), None)])
def test_zero_and_broken_weights_are_said_to_be(value, norm):
    model = nn.Sequential(nn.Linear(4, 4))
    nn.init.constant_(model[0].weight, value)
    found = read(model, 1)["spectral norm", "0.weight"]
    assert found == norm if norm is not None else found != found


def test_kernels_are_flattened_and_vectors_left_out():
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))
    found = read(model, 1)
    assert {site for _, site in found} == {"0.weight"}


SHAPES = [(7, 3), (3, 7), (40, 24), (2, 3, 5), (1, 9)]
LEADING = 6


def weight(shape):
    torch.manual_seed(0)
    return torch.randn(shape, dtype=torch.float64)


def read_in_pieces(rank):
    """Spectra of each shape in each way to cut it, and of a block of vectors."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    flat = init_device_mesh("cpu", (4,))
    square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    everyone = Processes.of(nn.Linear(2, 2), True)
    ways = {
        "rows": (flat, [Shard(0)]),
        "columns": (flat, [Shard(1)]),
        "copied": (square, [Replicate(), Shard(0)]),
        "blocks": (square, [Shard(0), Shard(1)]),
    }
    found = {}
    for most in (weights.GRAM, 2):
        weights.GRAM = most  # columns above which a block of vectors is multiplied
        for shape in SHAPES:
            for name, (mesh, placements) in ways.items():
                mine = Shards.of(distribute_tensor(weight(shape), mesh, placements), everyone)
                found[most == 2, shape, name] = spectrum(mine, everyone)
    return found


def spectrum(mine, everyone):
    steps = mine.block(torch.Generator().manual_seed(3))
    block, total = None, None
    while True:
        try:
            given = next(steps) if total is None else steps.send(total)
        except StopIteration as end:
            block = end.value
            break
        total = everyone.summed(given)
    s = mine.spectrum(everyone.summed(mine.part(block)))
    return s.sigma, s.low, s.high, s.shape


@pytest.fixture(scope="module")
def found():
    return together(4, read_in_pieces)[0]


@pytest.mark.parametrize("name", ["rows", "columns", "copied", "blocks"])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_are_those_of_the_whole_weight_and_a_block_encloses_the_leading(found, shape, name):
    whole = weight(shape).flatten(1)
    true = torch.linalg.svdvals(whole)
    for block in (False, True):
        sigma, low, high, size = found[block, shape, name]
        k = min(len(sigma), len(true))
        assert tuple(size) == tuple(whole.shape)
        assert bool((low[:k] <= true[:k]).all())
        assert bool((true[:k] <= high[:k]).all())
        if block:
            assert 0 < len(sigma) <= min(LEADING, len(true))
            assert float(sigma[0]) == pytest.approx(float(true[0]), rel=1e-2)
        else:
            assert sigma[: len(true)] == pytest.approx(true, rel=1e-10)


def test_small_values_of_a_block_are_enclosed_and_those_of_no_size_are_zero(monkeypatch):
    """One process that holds all rows; of eight vectors seven times as many values are zero."""
    monkeypatch.setattr(weights, "GRAM", 2)
    A = 1e-3 * weight((40, 24))
    A[:, 3:] = 0
    found = spectrum(Shards(A, (40, 24), 1, turned=False), SimpleNamespace(summed=lambda t: t))
    sigma, low, high, _ = found
    true = torch.linalg.svdvals(A)[: len(sigma)]
    assert bool((low <= true + 1e-12).all())
    assert bool((true <= high).all())
    torch.testing.assert_close(sigma, true, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------
# What a step adds to a weight.


class Adds(torch.optim.Optimizer):
    """An optimizer that adds to each parameter what it is told to, whatever the gradient is."""

    def __init__(self, parameters, updates):
        super().__init__(parameters, {"lr": 1.0})
        self.updates = updates

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            if p in self.updates:
                p.add_(self.updates[p])


UPDATE = ("update spectral norm", "update spectral ratio", "update stable rank")


def updates(shelf):
    return {(r.quantity, r.site): r.estimate for r in shelf.readings() if r.quantity in UPDATE}


def added(model, update, steps=3, **options):
    """What is read of the updates of a model to whose weights this function's are added."""
    made = {p: update(p) for p in model.parameters() if p.ndim > 1}
    return updates(watched_steps(model, Adds(model.parameters(), made), steps=steps, **options))


def orthogonal(p):
    U, _, Vh = torch.linalg.svd(torch.randn(p.shape, dtype=torch.float64).flatten(1), False)
    return (0.02 * U @ Vh).reshape(p.shape).to(p.dtype)


def of_rank_one(p):
    m, n = p.shape[0], p.numel() // p.shape[0]
    v = torch.ones(m, n, dtype=torch.float64) / (m * n) ** 0.5
    return (0.03 * v).reshape(p.shape).to(p.dtype)


@pytest.mark.parametrize(
    ("make", "norm", "rank"), [(orthogonal, 0.02, "all"), (of_rank_one, 0.03, 1.0)]
)
def test_an_update_has_the_norm_and_the_directions_that_were_added(make, norm, rank):
    torch.manual_seed(0)
    model = stack(5, 6, 3).double()
    found = added(model, make)
    for site, weight in (("0.weight", model[0].weight), ("2.weight", model[2].weight)):
        most = float(min(weight.shape)) if rank == "all" else rank
        assert found["update spectral norm", site].value == pytest.approx(norm, rel=1e-12)
        assert found["update stable rank", site].value == pytest.approx(most, rel=1e-12)


def test_kernels_move_as_their_unfoldings():
    torch.manual_seed(0)
    kernels, rest = nn.Conv2d(3, 8, 3), nn.Sequential(nn.Flatten(), nn.Linear(72, 2))
    model = nn.Sequential(nn.Unflatten(1, (3, 5, 5)), kernels, rest).double()
    shelf, optimizer = (
        Shelf(),
        Adds(model.parameters(), {kernels.weight: orthogonal(kernels.weight)}),
    )
    with at_leisure(model, optimizer, sinks=[shelf], only=["spectra"]) as watching:
        trained(model, *task(width=75, outputs=2), optimizer, 3, watching)
    found = updates(shelf)
    assert found["update spectral norm", "1.weight"].value == pytest.approx(0.02, rel=1e-12)
    assert found["update stable rank", "1.weight"].value == pytest.approx(8, rel=1e-12)


@pytest.mark.parametrize("most", [weights.FULL_UPDATE, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@given(st.integers(0, 2**31 - 1), st.integers(2, 24), st.integers(2, 24), st.floats(-4, 1))
@settings(max_examples=20, deadline=None)
def test_whatever_a_step_does_is_enclosed(most, dtype, seed, rows, cols, size):
    """In each format what is read is what the weights did, rounding and all."""
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(cols, rows, bias=False).to(dtype)
    step = torch.randn(rows, cols, generator=generator, dtype=torch.float64) * 10**size
    places_of = places(layer, [optimizer := Adds(layer.parameters(), {layer.weight: step})])
    probe = WeightSpectra(layer, places_of, Processes(), torch.Generator().manual_seed(0))
    with torch.no_grad(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(weights, "FULL_UPDATE", most)
        layer.weight.normal_(generator=generator)
        before = layer.weight.detach().double().clone()
        probe.open()
        probe.before(optimizer)
        optimizer.step()
        probe.stepped(optimizer)
        alone(probe.agree())
        columns = [*probe.read(probe.local())]
    found = {c.quantity: (c.estimates or c.values)[0] for c in columns if hasattr(c, "quantity")}
    s = torch.linalg.svdvals(layer.weight.detach().double() - before)
    norm = found["update spectral norm"]
    if not float(s[0]):
        assert norm == found["update spectral ratio"] == 0.0
        assert "update stable rank" not in found
        return
    weight = float(torch.linalg.matrix_norm(layer.weight.detach().double(), 2))
    exact = {
        "update spectral norm": float(s[0]),
        "update spectral ratio": float(s[0]) / weight,
        "update stable rank": float(s.square().sum() / s[0] ** 2),
    }
    for name, true in exact.items():
        slack = 1e-6 * true  # of the difference in single precision, where leading values are taken
        assert found[name].low - slack <= true <= found[name].high + slack


def test_a_weight_that_does_not_move_has_a_step_of_nothing_and_no_directions():
    torch.manual_seed(0)
    found = added(stack(5, 6, 3).double(), torch.zeros_like)
    assert {name: found[name, "0.weight"].value for name in UPDATE[:2]} == dict.fromkeys(
        UPDATE[:2], 0.0
    )
    assert ("update stable rank", "0.weight") not in found


def test_what_no_optimizer_moves_or_is_frozen_has_no_update():
    torch.manual_seed(0)
    model = stack(5, 6, 3).double()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    found = watched_steps(model, optimizer, steps=4)
    assert {r.site for r in found.readings() if r.quantity == "spectral norm"} == {
        "0.weight",
        "2.weight",
    }
    assert {site for _, site in updates(found)} == {"2.weight"}


def test_steps_of_several_optimizers_that_are_left_out_now_and_then_are_their_own():
    """The first steps at each third step of the last; between them nothing is said of it."""
    torch.manual_seed(0)
    model = stack(5, 6, 3).double()
    first = Adds(model[0].parameters(), {model[0].weight: of_rank_one(model[0].weight)})
    last = Adds(model[2].parameters(), {model[2].weight: orthogonal(model[2].weight)})
    shelf, x = Shelf(), task()[0]
    with at_leisure(model, first, last, sinks=[shelf], only=["spectra"]):
        for step in range(8):
            model(x).sum().backward()
            if step % 3 == 0:
                first.step()
            last.step()
    found = updates(shelf)
    assert found["update spectral norm", "0.weight"].value == pytest.approx(0.03, rel=1e-12)
    assert found["update spectral norm", "2.weight"].value == pytest.approx(0.02, rel=1e-12)
    seen = [r for r in shelf.readings() if r.quantity == UPDATE[0] and r.site == "0.weight"]
    read = [r for r in shelf.readings() if r.quantity == "spectral norm" and r.site == "0.weight"]
    assert len(seen) < len(read)


def test_gradients_that_add_up_make_one_step_and_a_shared_weight_is_read_once():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    model[2].weight = model[0].weight
    model.double()
    optimizer, shelf = torch.optim.SGD(model.parameters(), lr=0.1), Shelf()
    x = task(width=4)[0]
    with at_leisure(model, optimizer, sinks=[shelf], only=["spectra"]):
        for _ in range(3):
            optimizer.zero_grad()
            for part in x.split(4):
                model(part).square().mean().backward()
            before, gradient = model[0].weight.detach().clone(), model[0].weight.grad.clone()
            optimizer.step()
    (norm,) = [e for (name, _), e in updates(shelf).items() if name == UPDATE[0]]
    true = 0.1 * torch.linalg.matrix_norm(gradient, 2)
    assert norm.value == pytest.approx(float(true), rel=1e-9)
    assert norm.value == pytest.approx(
        float(torch.linalg.matrix_norm(model[0].weight.detach() - before, 2)), rel=1e-12
    )


def test_a_copy_is_kept_only_during_a_step_that_is_read():
    torch.manual_seed(0)
    model = stack(5, 6, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = WeightSpectra(model, places(model, [optimizer]), Processes(), torch.Generator())
    probe.open()
    probe.before(optimizer)
    probe.close()
    probe.stepped(optimizer)
    alone(probe.agree())
    names = {c.quantity for c in probe.read(probe.local()) if hasattr(c, "quantity")}
    assert not names & {*UPDATE}


def test_muon_moves_hidden_matrices_in_most_of_their_directions_and_adam_in_few():
    x, y = task(samples=64, width=40, outputs=3, dtype=torch.float32)
    shares = {}
    for name in ("muon", "adam"):
        torch.manual_seed(0)
        model = stack(40, 48, 48, 3)
        hidden = [model[0].weight, model[2].weight]
        rest = [p for p in model.parameters() if all(p is not h for h in hidden)]
        muon = [torch.optim.Muon(hidden, lr=0.02)] if name == "muon" else []
        adam = torch.optim.Adam(rest if muon else model.parameters(), lr=1e-3)
        shelf = Shelf()
        with at_leisure(model, *muon, adam, sinks=[shelf], only=["spectra"]) as watching:
            for _ in range(8):
                for optimizer in (*muon, adam):
                    optimizer.zero_grad()
                loss = (model(x) - y).square().mean()
                loss.backward()
                for optimizer in (*muon, adam):
                    optimizer.step()
                watching.step(loss)
        found = updates(shelf)
        shares[name] = found["update stable rank", "2.weight"].value / 48
        if muon:  # whatever the gradient is, a step is the rate times at most about 1.2
            assert 0.02 * 0.7 < found["update spectral norm", "2.weight"].value < 0.02 * 1.3
    assert shares["muon"] > 3 * shares["adam"]


NAMES = ("layer imbalance", "imbalance moved", "imbalance moved by decay")


def lopsided(model, decay=0.3, kind=torch.optim.SGD, **options):
    """An optimizer that decays every second weight."""
    weights = [p for p in model.parameters() if p.ndim > 1]
    ids = {id(p) for p in weights[1::2]}
    sides = [[p for p in model.parameters() if (id(p) in ids) == side] for side in (True, False)]
    groups = [{"params": p, "weight_decay": d} for p, d in zip(sides, (decay, 0.0), strict=True)]
    return kind(groups, **{"lr": 0.01, **options})


def watched(model, optimizer, steps=12, **options):
    """Readings of balances by quantity and site, and all alarms."""
    x, y = task()
    y, shelf = y + 3 * x[:, :3], Shelf()
    with at_leisure(model, optimizer, sinks=[shelf], **options) as watching:
        trained(model, x, y, optimizer, steps, watching)
    found = {}
    for r in shelf.readings():
        if r.quantity in NAMES:
            found.setdefault((r.quantity, r.site), []).append(r.estimate.value)
    return found, [f for look in shelf.looks for f in look.findings]


def sized(model):
    parts = [model[0].weight, model[0].bias, model[2].weight]
    w, b, v = (float(p.detach().square().sum()) for p in parts)
    return w + b, v


@pytest.mark.parametrize(("momentum", "damping"), [(0.0, 0.0), (0.9, 0.0), (0.9, 0.5)])
def test_imbalance_is_that_of_the_weights_and_decay_explains_how_it_moved(momentum, damping):
    torch.manual_seed(0)
    model = stack(5, 6, 3).double()
    optimizer = lopsided(model, lr=1e-4, momentum=momentum, dampening=damping)
    x, y = task()
    trained(model, x, y, optimizer, 60)  # momentum has gathered
    shelf = Shelf()
    with at_leisure(model, optimizer, sinks=[shelf]) as watching:
        trained(model, x, y, optimizer, 2, watching)
        first = sized(model)
        trained(model, x, y, optimizer, 80, watching)
    a, b = sized(model)
    found, whole = shelf.estimates(), a + b + sum(first)
    value, moved, by_decay = (found[name, "0 ~ 2"].value for name in NAMES)
    assert value == pytest.approx((a - b) / (a + b), rel=1e-4)
    assert moved == pytest.approx((a - b - first[0] + first[1]) / whole, rel=1e-4)
    assert by_decay == pytest.approx(moved, rel=0.05)


def test_layers_that_have_become_zero_have_no_imbalance_and_are_read_again_when_they_are_not():
    torch.manual_seed(0)
    model = stack(5, 6, 3).double()
    optimizer, shelf = lopsided(model), Shelf()
    x, y = task()
    parts = [model[0].weight, model[0].bias, model[2].weight]
    read = lambda: sum(r.quantity == NAMES[0] for r in shelf.readings())
    with at_leisure(model, optimizer, sinks=[shelf]) as watching:
        trained(model, x, y, optimizer, 12, watching)
        there, kept = read(), [p.detach().clone() for p in parts]
        torch._foreach_zero_([p.data for p in parts])
        trained(model, x, y, optimizer, 6, watching)
        assert not any(bool(p.any()) for p in parts)
        gone = read()
        torch._foreach_copy_([p.data for p in parts], kept)
        trained(model, x, y, optimizer, 6, watching)
    assert 0 < there == gone < read()


def silent(make, kind: type = torch.optim.SGD, **options):
    torch.manual_seed(0)
    model = make().double()
    return watched(model, lopsided(model, kind=kind, **options))[0] == {}


def hidden_scales():
    """Behind a normaliser without weights no gradient tells of a scale: both are zero."""
    sizes = ((5, 6), (6, 6), (6, 6))
    pairs = [(nn.Linear(*s, bias=False), nn.BatchNorm1d(6, affine=False)) for s in sizes]
    return nn.Sequential(*chain(*pairs), nn.Linear(6, 3))


@pytest.mark.parametrize("make", [
    *(partial(stack, 5, 6, 6, 3, activation=a) for a in (nn.Tanh, nn.GELU, nn.Sigmoid, nn.SiLU)),
    lambda: nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)),
    lambda: nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3)),
    hidden_scales,
])  # fmt: skip
def test_layers_that_do_not_undo_one_another_are_not_followed(make):
    assert silent(make)


def test_gradients_must_agree_more_than_once():
    torch.manual_seed(0)
    model = stack(5, 6, 3).double()
    optimizer = lopsided(model)
    assert watched(model, optimizer, steps=2)[0] == {}
    assert watched(model, optimizer, steps=4)[0] != {}


@pytest.mark.parametrize("activation", [nn.ReLU, nn.LeakyReLU, nn.Identity])
def test_layers_that_do_are_followed_whatever_is_written_between(activation):
    torch.manual_seed(0)
    parts = {"up": nn.Linear(5, 6), "down": nn.Linear(6, 3), "between": activation()}
    model = Net(lambda m, x: m.down(2 * m.between(m.up(x))), **parts).double()
    found, _ = watched(model, lopsided(model))
    assert {site for _, site in found} == {"up ~ down"}


def test_convolutions_are_followed_into_the_layer_that_reads_all_their_places():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(1, 3, 2), nn.MaxPool1d(2), nn.ReLU(), nn.Flatten(), nn.Linear(6, 2)
    ).double()  # fmt: skip
    optimizer, shelf = lopsided(model), Shelf()
    with at_leisure(model, optimizer, sinks=[shelf]) as watching:
        x, y = torch.randn(7, 1, 5).double(), torch.randn(7, 2).double()
        trained(model, x, y, optimizer, 10, watching)
    assert {r.site for r in shelf.readings() if r.quantity in NAMES} == {"0 ~ 4"}


def test_decay_that_adam_takes_into_its_moments_is_not_known_and_adamws_is():
    assert silent(lambda: stack(5, 6, 3), kind=torch.optim.Adam)
    assert not silent(lambda: stack(5, 6, 3), kind=torch.optim.AdamW)


def kept(model, *groups, **options):
    found = places(model, [torch.optim.SGD(list(groups), lr=0.1, **options)])
    return len(Balances(model, found, Processes()))


def test_layers_that_decay_alike_are_no_part_of_it():
    model = stack(5, 6, 6, 3)
    weights = [p for p in model.parameters() if p.ndim > 1]
    biases = [p for p in model.parameters() if p.ndim == 1]
    usual = {"params": weights, "weight_decay": 0.1}, {"params": biases, "weight_decay": 0.0}
    assert kept(model, *usual) == 0
    assert kept(model, {"params": [*model.parameters()]}) == 0
    rest = {"params": [*weights[1:], *biases]}
    assert kept(model, {"params": weights[:1], "weight_decay": 0.1}, rest) == 1


def test_nor_are_layers_with_learning_rates_of_their_own():
    model = stack(5, 6, 3)
    first, second = {"params": [*model[0].parameters()]}, {"params": [*model[2].parameters()]}
    assert kept(model, first | {"weight_decay": 0.1}, second) == 1
    assert kept(model, first | {"weight_decay": 0.1}, second | {"lr": 0.2}) == 0


def test_each_of_several_processes_hands_in_its_part_of_what_all_hold():
    model = stack(5, 6, 3)
    found = places(model, [lopsided(model)])
    one, four = (Balances(model, found, Processes(count=n)) for n in (1, 4))
    assert torch.allclose(one.local(), 4 * four.local(), rtol=1e-15)


def test_training_is_the_same_to_the_last_bit():
    torch.manual_seed(0)
    model, x, y = stack(5, 6, 3).double(), *task()
    other = copy.deepcopy(model)
    trained(other, x, y, lopsided(other), 12)
    optimizer = lopsided(model)
    with at_leisure(model, optimizer) as watching:
        trained(model, x, y, optimizer, 12, watching)
    assert all(map(torch.equal, model.parameters(), other.parameters()))


def rung(kind, decay, *, both=False):
    torch.manual_seed(0)
    model = stack(5, 16, 3).double()
    alike = kind(model.parameters(), lr=0.03, weight_decay=decay)
    found, alarms = watched(model, alike if both else lopsided(model, decay, kind, lr=0.03), 150)
    return found, [a for a in alarms if a.name == "decay-at-odds"]


def test_decay_of_one_side_is_an_alarm_and_decay_of_both_is_none():
    _, (alarm,) = rung(torch.optim.SGD, 1.0)
    assert alarm.site == "0 ~ 2"
    assert alarm.says.startswith("2: decay shrinks these weights faster than those of 0")
    assert {r.quantity for r in alarm.evidence} == set(NAMES)
    assert rung(torch.optim.SGD, 1.0, both=True) == ({}, [])


def test_balances_that_adam_itself_has_moved_are_no_matter_of_decay():
    found, alarms = rung(torch.optim.AdamW, 0.5)
    imbalance, moved, decayed = (found[name, "0 ~ 2"][-1] for name in NAMES)
    assert imbalance > 0.8
    assert decayed < 0.5 * moved
    assert not alarms
