"""Results are compared by value, and can be pickled and copied, whatever they hold."""

import copy
import dataclasses
import pickle
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
import torch
from torch import nn

from sigmascope.core.records import Profile, Spectrum
from sigmascope.core.store.integrity import Position
from sigmascope.core.store.schema import tables
from sigmascope.diagnosis import Program
from tests.made_results import made, results

WAYS = {"pickle": lambda one: pickle.loads(pickle.dumps(one)), "deepcopy": copy.deepcopy}
SENT = [*((kind, made(kind)) for kind in results()), (Program, made(Program))]
SENT += [(Position, Position((1, 2), MappingProxyType({next(iter(tables(1))): 3})))]


def same(before, after):
    """Whether all is of the same type and value, models by their class and weights."""
    if type(before) is not type(after):
        return False
    if dataclasses.is_dataclass(before):
        names = (f.name for f in dataclasses.fields(before))
        return all(same(getattr(before, name), getattr(after, name)) for name in names)
    if isinstance(before, tuple):
        return len(before) == len(after) and all(map(same, before, after))
    if isinstance(before, nn.Module):
        sides = (before.state_dict(), after.state_dict())
        return sides[0].keys() == sides[1].keys() and all(map(same, *(s.values() for s in sides)))
    if isinstance(before, torch.Tensor | np.ndarray):
        return before.tolist() == after.tolist()
    return before == after


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("one", [one for _, one in SENT], ids=[kind.__name__ for kind, _ in SENT])
def test_a_result_comes_back_from_another_process_and_from_a_copy(one, way):
    back = WAYS[way](one)
    assert back is not one
    assert same(one, back)


@pytest.mark.parametrize("kind", results(), ids=lambda kind: kind.__name__)
def test_results_of_the_same_values_are_equal_and_hash_alike(kind):
    one, other = made(kind), made(kind)
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other}) == 1
    assert one != "a text"


def spectrum(*sigma, dtype=torch.float64, **more):
    return Spectrum(torch.tensor(sigma, dtype=dtype), (2, 2), "told", **more)


def test_spectra_are_compared_by_their_numbers():
    assert spectrum(2.0, 1.0) == spectrum(2.0, 1.0)
    assert spectrum(2.0, 1.0) != spectrum(2.0, 1.5)
    assert spectrum(2.0, 1.0) != spectrum(2.0)
    assert spectrum(2.0, 1.0) != spectrum(2.0, 1.0, risk=0.1)
    assert spectrum(2.0, 1.0) != spectrum(2.0, 1.0, low=torch.tensor([2.0, 0.5]).double())


def test_records_with_mappings_are_compared_by_what_these_hold():
    one = Profile((), about={"mode": "eval"})
    assert one == Profile((), about=MappingProxyType({"mode": "eval"}))
    assert hash(one) == hash(Profile((), about=MappingProxyType({"mode": "eval"})))
    assert one != replace(one, about={"mode": "train"})


def test_programs_of_other_models_differ_and_each_is_itself():
    one, other = (Program(nn.Linear(2, 2), (torch.ones(1, 2), torch.ones(1))) for _ in range(2))
    assert one == replace(one)
    assert one != other
    assert len({one, replace(one), other}) == 2


def test_what_was_read_only_is_so_in_the_copy():
    back = pickle.loads(pickle.dumps(made(Profile)))
    assert isinstance(back.about, MappingProxyType)
    with pytest.raises(dataclasses.FrozenInstanceError):
        back.readings = ()
