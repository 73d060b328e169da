"""Balances of layers that decay at different speeds."""

import copy
from functools import partial
from itertools import chain

import pytest
import torch
from torch import nn

from sigmascope.watching.parameters import places
from sigmascope.watching.probes.balances import Balances
from sigmascope.watching.processes import Processes
from tests.models_zoo import Net
from tests.watching.made import Shelf, at_leisure, stack, task, trained

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
