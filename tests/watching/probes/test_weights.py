"""Spectra of weights while they train, whole or in pieces on several processes."""

import copy
from functools import partial
from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sigmascope.watching.probes import WeightSpectra, weights
from sigmascope.watching.probes.base import alone, places
from sigmascope.watching.probes.weights import Balances, Shards
from sigmascope.watching.processes import Processes
from tests.models_zoo import Net
from tests.watching.made import Shelf, at_leisure, stack, task, trained
from watching.together import together


def read(model, turns):
    probe = WeightSpectra(model, Processes(), torch.Generator().manual_seed(0))
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
    trained(model, x, y, optimizer, 100)  # momentum has gathered
    shelf = Shelf()
    with at_leisure(model, optimizer, sinks=[shelf]) as watching:
        trained(model, x, y, optimizer, 2, watching)
        first = sized(model)
        trained(model, x, y, optimizer, 150, watching)
    a, b = sized(model)
    found, whole = shelf.estimates(), a + b + sum(first)
    value, moved, by_decay = (found[name, "0 ~ 2"].value for name in NAMES)
    assert value == pytest.approx((a - b) / (a + b), rel=1e-4)
    assert moved == pytest.approx((a - b - first[0] + first[1]) / whole, rel=1e-4)
    assert by_decay == pytest.approx(moved, rel=0.05)


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
    alike = kind(model.parameters(), lr=0.01, weight_decay=decay)
    found, alarms = watched(model, alike if both else lopsided(model, decay, kind), 400)
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
