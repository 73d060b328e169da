"""Every door on a second device, in a process of its own: what came out, as lines of JSON.

python tests/twin_doors.py FOLDER MODEL DOORS MODEL DOORS ...     # names of doors, with commas
python tests/twin_doors.py cuda MODEL DOORS ...                   # on a GPU, where there is one

Each model is measured on the CPU, on the device with its data, and there with data on the CPU. A
line holds what differs: an error, a number, anything that was not left as it was found.
"""

import copy
import json
import math
import sys
import warnings
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

import torch
import twin_device
from fingerprints import differences, fingerprint, process
from models_zoo import MODELS
from test_left_as_found import DOORS as EVERY, EXPECTED, loss, targets_for
from torch import Tensor, nn
from watching.layouts import Kept

from sigmascope import watching
from sigmascope.models.samples import as_tensor, beside, mapped, prepared, run


def _watched(net, x, y):
    """What is read in a short training of a copy, at every step."""
    net, losses, kept = copy.deepcopy(net), [], Kept()
    for part in net.modules():
        part.zero_grad()
        if isinstance(part, nn.Dropout):
            part.p = 0.0  # training draws, and each device in its own order
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
    task = {"probe_batch": x, "targets": y, "loss": loss, "views": ["features", "balances"]}
    always = {"budget": 1.0, "clock": lambda: 0.0, "sinks": [kept]}
    there = beside(net, y)
    with watching.watch(net, optimizer, **always, **task) as watch:
        for _ in range(12):
            optimizer.zero_grad()
            value = loss(as_tensor(run(net, prepared(net, x)))[0], there)
            value.backward()
            optimizer.step()
            watch.step(value)
            losses.append(value.item())
    return Looked(losses, [r for k in kept.looks for r in k.readings], _said(kept))


def _said(kept):
    return [s for look in kept.looks for s in look.skipped]


@dataclass
class Looked:
    """A training, and what was seen of it."""

    losses: list
    readings: list
    skipped: list


DOORS = {**EVERY, "watch": _watched}
NEAR = 1e-4  # of float32: fused kernels round otherwise
APART = 1e-5  # of what is zero but for rounding
CLOCK = ("seconds", "minutes", "started", "text")  # of another run these are others
GPU = sys.argv[1:2] == ["cuda"]
PLACES = {"all there": (True, True), "data here": (True, False)}


def numbers(value, place="", seen=()):
    """Every number in a result, by where it stands."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, Tensor):
        value = value.detach().double().cpu().flatten().tolist()
    if isinstance(value, int | float):
        yield place, float(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, f"{place}[{key}]", seen)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from numbers(part, f"{place}[{number}]", seen)
    elif is_dataclass(value) and id(value) not in seen:
        for field in fields(value):
            if field.name not in CLOCK and not field.name.startswith("_"):
                part = getattr(value, field.name)
                yield from numbers(part, f"{place}.{field.name}", (*seen, id(value)))


def names(value):
    """What a profile read and could not read: the same on every device."""
    read = {f"{r.site} {r.quantity} {r.form}" for r in getattr(value, "readings", ())}
    return read | {f"not: {s.site} {s.what}" for s in getattr(value, "skipped", ())}


def parted(one, other):
    """Where two results differ."""
    lost = sorted(names(one) ^ names(other))
    mine, theirs = dict(numbers(one)), dict(numbers(other))
    if mine.keys() != theirs.keys():
        return lost + sorted(mine.keys() ^ theirs.keys())
    near = lambda a, b: (
        a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=NEAR, abs_tol=APART)
    )
    return lost + [f"{k}: {mine[k]} {theirs[k]}" for k in mine if not near(mine[k], theirs[k])]


def went(door, net, x, y):
    """What came out of a door, or the error; and what was not left as it was."""
    before = fingerprint(model=net, batch=x, targets=y)
    around, drawn = process(), torch.get_rng_state()
    if not GPU:
        torch.ops.twin.set_rng_state(drawn)  # so that dropout falls on the same
    device = torch.get_device_module(twin_device.NAME)
    there = device.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = DOORS[door](net, x, y)
        except Exception as error:  # noqa: BLE001 (it is what the test is about)
            found = error
    now = process()
    moved = differences(before, fingerprint(model=net, batch=x, targets=y))
    moved += [k for k in around if around[k] != now[k]]
    moved += ["the device's random state"] * (not torch.equal(there, device.get_rng_state()))
    return found, [str(m) for m in moved]


def put(name, model_there, data_there):
    """A model with data and targets, each where it is wanted."""
    net, x = MODELS[name]()
    y = targets_for(net, x)
    if model_there:
        net = twin_device.there(net)
    if data_there:
        x, y = (mapped(v, lambda t: t.to(twin_device.NAME)) for v in (x, y))
    return net, x, y


def rows(name, doors):
    """What differs of a model, for each door and place."""
    for door in doors:
        here, _ = went(door, *put(name, False, False))
        for place, where in PLACES.items():
            found, moved = went(door, *put(name, *where))
            row = {"door": door, "model": name, "place": place, "moved": moved, "apart": []}
            if isinstance(found, Exception) or isinstance(here, Exception):
                same = type(found) is type(here) and isinstance(found, EXPECTED)
                row["apart"] = [] if same else [f"{type(here).__name__}, then {found!r}"]
            else:
                row["apart"] = parted(here, found)
            yield row


if __name__ == "__main__":
    if GPU:
        twin_device.NAME = "cuda"
        torch.backends.cudnn.allow_tf32 = False  # which keeps three digits
        torch.cuda.init()
    else:
        twin_device.start(Path(sys.argv[1]))
    torch.set_num_threads(1)
    for model, names_of_doors in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        for line in rows(model, names_of_doors.split(",")):
            print(json.dumps(line), flush=True)
