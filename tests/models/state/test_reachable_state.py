import random
import signal
from array import array
from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from sigmascope.models.state import Reach, contents, still


def test_ctrl_c_waits_until_everything_is_back(monkeypatch):
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).train()
    net.count = 0
    give_back = Reach.give_back

    def interrupted(self):
        signal.raise_signal(signal.SIGINT)
        give_back(self)

    monkeypatch.setattr(Reach, "give_back", interrupted)
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job may ignore it
    interrupt = pytest.raises(KeyboardInterrupt)
    try:
        with interrupt, still(net):
            net.count = 1
            net[0].weight.data.zero_()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, outside)
    assert net.training
    assert net[1].training
    assert net.count == 0
    assert net[0].weight.any()


class Slotted:
    __slots__ = ("value",)

    def __init__(self):
        self.value = 1


class Holder(nn.Module):
    seen: ClassVar = [1]

    def __init__(self, kept):
        super().__init__()
        self.layer, self.kept = nn.Linear(2, 2), kept


CHANGES = {
    "a list": (lambda: [1, [2]], lambda k: k[1].append(3), lambda k: k == [1, [2]]),
    "a dict": (lambda: {"a": 1}, lambda k: k.update(a=2, b=3), lambda k: k == {"a": 1}),
    "a namespace": (
        lambda: SimpleNamespace(count=0, seen=[1]),
        lambda k: (setattr(k, "count", 3), k.seen.append(2), setattr(k, "more", 1)),
        lambda k: vars(k) == {"count": 0, "seen": [1]},
    ),
    "an array of Python": (
        lambda: array("d", [1.0, 2.0]),
        lambda k: (k.append(3.0), k.__setitem__(0, 9.0)),
        lambda k: k.tolist() == [1.0, 2.0],
    ),
    "an empty dict": (dict, lambda k: k.update(b=3), lambda k: k == {}),
    "a set": (lambda: {1, 2}, lambda k: k.pop(), lambda k: k == {1, 2}),
    "a deque": (lambda: deque([1, 2]), lambda k: k.rotate(1), lambda k: list(k) == [1, 2]),
    "bytes": (lambda: bytearray(b"ab"), lambda k: k.append(1), lambda k: k == b"ab"),
    "an array": (lambda: np.zeros(3), lambda k: k.fill(1), lambda k: not k.any()),
    "a slot": (Slotted, lambda k: setattr(k, "value", 2), lambda k: k.value == 1),
    "a list of the class": (int, lambda _: Holder.seen.append(2), lambda _: Holder.seen == [1]),
    "a name of the class": (
        int,
        lambda _: setattr(Holder, "new", 2),
        lambda _: not hasattr(Holder, "new"),
    ),
    "in a tuple": (lambda: (1, [2]), lambda k: k[1].clear(), lambda k: k == (1, [2])),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_is_given_back(name):
    make, change, as_before = CHANGES[name]
    model = Holder(make())
    reach = Reach(model)
    assert as_before(model.kept)
    change(model.kept)
    assert not as_before(model.kept)
    reach.give_back()
    assert as_before(model.kept)


SOURCES = {
    "torch": (lambda: torch.Generator().manual_seed(1), lambda g: torch.rand(2, generator=g)),
    "numpy": (lambda: np.random.default_rng(1), lambda g: g.random(2)),
    "old numpy": (lambda: np.random.RandomState(1), lambda g: g.rand(2)),
    "python": (lambda: random.Random(1), lambda g: (g.random(), g.random())),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources_of_random_numbers_go_on_from_where_they_were(name):
    make, draw = SOURCES[name]
    model = Holder(make())
    reach = Reach(model)
    first, second = draw(model.kept), draw(model.kept)
    assert tuple(first) != tuple(second)
    reach.give_back()
    assert tuple(draw(model.kept)) == tuple(first)


def test_attributes_that_were_exchanged_or_added_are_as_before():
    model = Holder([1])
    kept, layer = model.kept, model.layer
    reach = Reach(model)
    model.kept, model.layer, model.more = [2], nn.Linear(2, 2), 3
    reach.give_back()
    assert (model.kept, model.layer) == (kept, layer)
    assert model.kept is kept
    assert not hasattr(model, "more")


def test_each_tensor_and_module_is_found_once_wherever_it_hides():
    hidden, own = nn.Linear(2, 2), torch.ones(1)
    own.mine = torch.zeros(1)
    model = Holder([hidden, {"again": hidden}, own, own])
    model.layer.weight.grad = torch.ones(2, 2)
    model.kept.append(model)  # in a circle
    reach = Reach(model)
    assert sorted(map(id, reach.modules)) == sorted(map(id, (model, model.layer, hidden)))
    wanted = [*model.parameters(), *hidden.parameters(), own, own.mine, model.layer.weight.grad]
    assert sorted(map(id, reach.tensors)) == sorted(map(id, wanted))


def test_contents_are_named():
    def function():
        return held

    held = [1]
    assert list(contents({"a": 1, 2: "b"})) == [("a", 1), ("2", "b")]
    assert list(contents((7, 8))) == [("0", 7), ("1", 8)]
    assert list(contents(function)) == [("(closure)", held)]
    assert dict(contents(partial(function, 3))) == {"func": function, "args": (3,), "keywords": {}}
    assert dict(contents(Slotted())) == {"value": 1}
    layer = nn.Linear(2, 2)
    assert dict(contents(layer))["weight"] is layer.weight
    assert list(contents(torch.ones(2))) == list(contents(Slotted)) == list(contents(len)) == []
