"""A sample of every record, made from the types of its fields: no list of kinds, none forgotten."""

import dataclasses
import importlib
import math
import pkgutil
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from itertools import count
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import nn

import sigmascope
from sigmascope.core.encoding import is_array
from sigmascope.core.quantities import quantities
from sigmascope.core.records import Estimate, Fact, Profile, Reading, Shown
from sigmascope.diagnosis.compression import Compression
from sigmascope.diagnosis.programs.program import Program
from sigmascope.diagnosis.remedies import BatchNormalisation, Remedy
from sigmascope.models.layers import module_name
from sigmascope.report import Results

SIDE = 3  # of every tensor whose sides are not said
WITH_LAYERS: dict[tuple[str, ...], nn.Module] = {}
MODEL = nn.Linear(2, 2)  # wherever there is one: it is the same as itself alone


def results():
    """Every kind of result that the library has.

    Integrations have none, and load what takes seconds.
    """
    for module in pkgutil.walk_packages(sigmascope.__path__, "sigmascope."):
        last, foreign = module.name.rpartition(".")[2], ".integrations." in module.name
        if foreign:
            assert "Shown" not in Path(module.module_finder.path, f"{last}.py").read_text()
        elif not last.startswith("__"):
            importlib.import_module(module.name)
    return sorted(_derived(Shown), key=lambda kind: kind.__qualname__)


def _derived(kind):
    own = {k for k in kind.__subclasses__() if k.__module__.startswith("sigmascope.")}
    found = {k for k in own if dataclasses.is_dataclass(k)}
    # a class with slots is made twice; the one that its module has is the second
    return {k for k in found if getattr(importlib.import_module(k.__module__), k.__name__) is k}


def sample(hint, numbers):
    """A value of a type, unlike every other."""
    n, args = next(numbers), get_args(hint)
    if hint is Estimate:
        ends = {"value": n + 0.5, "low": n - 0.25, "high": math.inf}
        return Estimate(**fields_of(Estimate, numbers) | ends)
    if hint is Program:
        return Program(MODEL, None, options=MappingProxyType({"momentum": n + 0.5}))
    if hint is Remedy:
        return BatchNormalisation()
    if dataclasses.is_dataclass(hint):
        return hint(**fields_of(hint, numbers))
    if is_array(hint):
        return _array(hint, n)
    if get_origin(hint) is tuple:
        if args[-1] is Ellipsis:
            return sample(args[0], numbers), sample(args[0], numbers)
        return tuple(sample(each, numbers) for each in args)
    if get_origin(hint) is Mapping:
        return MappingProxyType({f"name {n}": sample(args[1], numbers)})
    if get_origin(hint) is list:
        return [sample(args[0], numbers)]
    if get_origin(hint) is dict:
        return {}
    if hint is Counter or get_origin(hint) is Counter:
        return Counter()
    if get_origin(hint) in (UnionType, Union):
        return sample(args[0], numbers)
    if get_origin(hint) is Literal:
        return args[n % len(args)]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)[n % len(hint)]
    if hint is torch.Tensor:
        return torch.full((SIDE,), n + 0.5)
    if hint is nn.Module:
        return MODEL
    if isinstance(hint, type) and issubclass(hint, tuple):  # with names
        return hint(*(sample(each, numbers) for each in get_type_hints(hint).values()))
    plain = {str: f"word {n}", bytes: b"word", int: n, float: n + 0.5, bool: True, Any: n}
    return plain[hint]


def _array(hint, n):
    """Of the sides that are said, each number unlike every other."""
    sides = [int(side) if side.isdecimal() else SIDE for side in hint.dim_str.split()]
    values = torch.arange(math.prod(sides), dtype=torch.float64) / 1024 + n + 0.125
    values[-1] = 5e-324
    found = (values * 1024).long() if "int64" in str(hint.dtypes) else values
    found = found.reshape(sides)
    return found.numpy() if hint.array_type is np.ndarray else found


def fields_of(kind, numbers):
    """What a record is made with."""
    hints = get_type_hints(kind)
    of_value = [f for f in dataclasses.fields(kind) if f.compare or f.default is not None]
    found = {f.name: sample(hints[f.name], numbers) for f in of_value}
    if kind in (Reading, Fact):  # a profile takes those of the table alone
        every = [q for q in quantities().values() if bool(q.words) == (kind is Fact)]
        known = every[next(numbers) % len(every)]
        found |= {"quantity": known.name, "view": known.views[0]}
    if kind is Compression:  # shows the layers of its model
        layers = {module_name(each.site): nn.Linear(2, 2) for each in found["layers"]}
        found["model"] = WITH_LAYERS.setdefault(tuple(layers), nn.ModuleDict(layers))
    if kind is Results:
        found["results"] = sample(tuple[Profile, ...], numbers)
    return found


def made(kind):
    """A record of a kind; the same whenever it is made."""
    return sample(kind, count(1))
