"""A cure as lines to paste, and names of weights of every depth."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope.diagnosis.scaling import widths
from sigmascope.diagnosis.scaling.depth import roles_of
from tests.diagnosis.scaling.test_depth import HOW, Layer, Net, data

__all__ = ["data"]  # a fixture


def test_the_cure_runs_as_it_stands(data):
    found = widths(Net, data=data, depths=(2, 4), **HOW | {"seeds": 1})
    initial = {"layers.*.down.weight": -0.5, "layers.*.down.bias": -0.5, "inp.weight": 0.25}
    cure = replace(found, initial=initial, rates={"layers.*.down.weight": -1.0, "out.weight": 0.5})
    depth, lr = 8, 1e-3
    torch.manual_seed(0)
    model = Net(depth)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    room = {"model": model, "depth": depth, "lr": lr, "torch": torch}
    exec(cure.code, room)
    for name, p in model.named_parameters():
        role = re.sub(r"\b\d+\b", "*", name)
        assert torch.allclose(p, before[name] * 4.0 ** cure.initial.get(role, 0.0))
        (rate,) = [g["lr"] for g in room["groups"] if g["params"][0] is p]
        assert rate == pytest.approx(lr * 4.0 ** cure.rates.get(role, 0.0))


def test_layers_in_one_numbered_sequence_are_told_apart_by_shape(data):
    make = lambda depth: nn.Sequential(
        nn.Linear(16, 8), *[Layer(8) for _ in range(depth)], nn.LayerNorm(8), nn.Linear(8, 5)
    )
    found = widths(make, data=data, depths=(2, 4, 8), **HOW | {"seeds": 2})
    names = {w.name for w in found.weights}
    assert {"*.weight (8, 16)", "*.weight (5, 8)", "*.down.weight (8, 8)"} <= names
    room = {"model": make(4), "depth": 4, "lr": 1.0, "torch": torch}
    exec(found.code, room)
    assert len({g["lr"] for g in room["groups"]}) == len({0.0, *found.rates.values()})


def test_numbers_may_stand_within_a_name(data):
    class Numbered(Net):
        def __init__(self, depth):
            super().__init__(0)
            for place in range(depth):
                setattr(self, f"layer{place}", Layer(32))

    roles, repeated = roles_of([Numbered(2), Numbered(4)])
    assert roles.of("layer3.up.weight", torch.ones(2)) == "layer*.up.weight"
    assert "layer*.up.weight" in repeated
    assert "inp.weight" not in repeated
