"""What is given to a public door is what it takes, or it is said what was expected, what came."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as ss
from sigmascope.core.guard import Refusal, door, door_of, fits
from sigmascope.core.records import Profile

FITTING = [
    (int, [0, -3, np.int64(3), 2**63]),
    (float, [0, 1.5, np.float32(2), float("inf")]),
    (str, ["", "a"]),
    (bool, [True]),
    (str | Path | None, ["a", Path("a"), None]),
    (Literal["a", "b"], ["a"]),
    (Tensor, [torch.zeros(3), nn.Parameter(torch.zeros(3))]),
    (Float[Tensor, "n d"], [torch.zeros(3, 2)]),
    (nn.Module, [nn.Linear(2, 2), torch.jit.script(nn.Linear(2, 2))]),
    (Callable[[Tensor], Tensor], [len, nn.ReLU(), nn.Linear]),
    (Collection[str], [[], ["a"], ("a",), {"a"}, {"a": 1}]),
    (Sequence[float], [[1, 2.5], range(3)]),
    (Iterable[str], [["a"], iter("ab"), (c for c in "ab")]),
    (Mapping[str, nn.Module], [{}, {"a": nn.ReLU()}]),
    (tuple[int, str], [(1, "a")]),
    (tuple[int, ...], [(), (1, 2)]),
    (type[nn.Module], [nn.Linear]),
    (Any, [None, 3, object()]),
    (None, [None]),
]
OTHERS = [
    (int, [1.5, "3", None, True, 10**400, torch.tensor(3), [1]]),
    (float, ["1.5", None, False, 1j, 10**400, torch.tensor(1.0)]),
    (str, [b"a", None, Path("a"), 3]),
    (bool, [1, None, "yes"]),
    (str | Path | None, [3, b"a", ["a"]]),
    (Literal["a", "b"], ["c", None, 1]),
    (Tensor, [np.zeros(3), [1.0], None, 3.0]),
    (Float[Tensor, "n d"], [np.zeros(3), None]),
    (nn.Module, [nn.Linear, None, lambda x: x, {}]),
    (Callable[[Tensor], Tensor], [None, "relu", 3]),
    (Collection[str], ["weights", [1], [None], 3, torch.zeros(2)]),
    (Sequence[float], [["a"], [None], 1.0, torch.zeros(2), "12"]),
    (Iterable[str], ["ab", [1], 3]),
    (Mapping[str, nn.Module], [{"a": 3}, {1: nn.ReLU()}, [nn.ReLU()]]),
    (tuple[int, str], [(1,), (1, 2), [1, "a"]]),
    (tuple[int, ...], [("a",), [1]]),
    (type[nn.Module], [nn.Linear(1, 1), int]),
    (None, [0]),
]


@pytest.mark.parametrize(("kind", "values"), FITTING)
def test_what_fits_goes_in_as_it_is(kind, values):
    def took(value):
        return value

    took.__annotations__ = {"value": kind}
    assert all(fits(value, kind) for value in values)
    assert all(door(took)(value) is value for value in values)


@pytest.mark.parametrize(("kind", "values"), OTHERS)
def test_what_does_not_is_refused_in_three_parts(kind, values):
    def took(value):
        raise AssertionError

    took.__annotations__ = {"value": kind}
    for value in values:
        with pytest.raises(Refusal) as said:
            door(took)(value)
        assert re.fullmatch(r"`value` must be .+, got .+\. .+[.?\]]", str(said.value)), said.value
        assert isinstance(said.value, TypeError)


@pytest.mark.parametrize(
    ("kind", "value", "advice"),
    [
        (nn.Module, nn.Linear, "Call it: `Linear"),
        (nn.Module, lambda x: x, "A function is no model"),
        (int, "3", "without quotes"),
        (Callable[..., Tensor] | None, "mse_loss", r"`torch\.nn\.functional\.mse_loss`"),
        (Collection[str], "weights", r"\['weights'\]"),
        (Tensor, np.zeros(2), "from_numpy"),
        (Literal["csv", "json"], "jsn", "Did you mean `json`"),
        (Collection[Literal["a", "bcd"]], ["bce"], "Did you mean `bcd`"),
        (Sequence[float], np.ones(3), r"tolist\(\)"),
        (Sequence[float] | None, torch.ones(3), r"tolist\(\)"),
        (Sequence[int], iter([1]), r"list\(\.\.\.\)"),
        (str, "x\x1b" * 3, None),
        (Iterable[str] | None, "batch-norm", r"Write a list of it: \['batch-norm'\]"),
        (Sequence[int], 64, r"Write a list of it: \[64\]"),
        (Sequence[nn.Module], nn.ReLU(), r"Write a list of it: \[\.\.\.\]"),
        (Collection[ss.Subject], "a", "`help"),
        (tuple[int, ...] | None, [64], r"Make it a tuple"),
        (Tensor | None, [1, 2], r"`torch\.tensor\(\.\.\.\)`"),
        (float, "60s", r"Write a number\."),
        (Mapping[str, Tensor], torch.ones(3), "`help"),
        (Tensor | list[Any], "digits", "`help"),
        (Tensor | list[Any], [torch.ones(1)], None),
        (
            Tensor | list[Any],
            DataLoader(TensorDataset(torch.ones(3, 1))),
            r"next\(iter\(loader\)\)",
        ),
        (Tensor | list[Any], ss.open_data("digits", samples=2), "Pass its `inputs`"),
        (Tensor, pd.DataFrame({"a": [1.0]}), r"`torch\.tensor\(frame\.to_numpy\(\)\)`"),
        (torch.Generator | None, 3, r"`torch\.Generator\(\)\.manual_seed\(3\)`"),
        (Callable[..., Tensor], "mse", r"`torch\.nn\.functional\.mse_loss`"),
        (Callable[..., Tensor], torch.ones(1), "not what it gave"),
        (nn.Module, nn.ReLU().state_dict(), "load_state_dict"),
        (nn.Module, "resnet18", "open_model"),
        (nn.Module | Mapping[str, Tensor], "m.pt", "`help"),
        (nn.Module, torch.nn.parallel.DataParallel, "Call it"),
        (nn.Module, SimpleNamespace(module=nn.ReLU()), "Pass its `module`"),
        (str, SimpleNamespace(name="rank-one"), "Pass its `name`"),
        (Profile, nn.ReLU(), r"`sigmascope\.profile\(\.\.\.\)` gives one"),
        (ss.Subject, nn.ReLU(), r"Make one: `sigmascope\.Subject\(\.\.\.\)`"),
    ],
)
def test_advice_is_for_what_came(kind, value, advice):
    def took(value): ...

    took.__annotations__ = {"value": kind}
    if advice is None:
        assert door(took)(value) is None
    else:
        with pytest.raises(Refusal, match=advice):
            door(took)(value)


def test_what_came_acts_on_no_screen_and_is_not_long():
    def took(value: int): ...

    with pytest.raises(Refusal) as said:
        door(took)("\x1b[31m" * 1000)
    assert "\x1b" not in str(said.value)
    assert len(str(said.value)) < 300


def test_a_name_that_is_not_known_is_said_as_python_says_it_with_the_nearest():
    @door
    def took(*, learning_rate: float): ...

    with pytest.raises(TypeError, match=r"`learning_rate`"):
        took(learning_rat=0.1)
    with pytest.raises(TypeError, match=r"Did you mean .* It takes `learning_rate`"):
        took(learning_rat=0.1)
    with pytest.raises(TypeError, match=r"'y'\. It takes `learning_rate`\.$"):
        took(y=1)
    with pytest.raises(TypeError, match=r"missing .* Call it with `took\(learning_rate=\.\.\.\)`"):
        took()


def test_what_stands_in_the_wrong_place_is_told_where_it_goes():
    @door
    def took(model: nn.Module, batch: Tensor, name: str): ...

    with pytest.raises(Refusal, match="what `batch` takes: the order is `model`, `batch`, `name`"):
        took(torch.ones(1), nn.ReLU(), "a")
    with pytest.raises(Refusal, match="That is what `name` takes"):
        took("a", nn.ReLU(), torch.ones(1))


def test_where_too_much_goes_in_by_place_the_names_of_the_rest_are_told():
    @door
    def took(model, batch, *, targets=None, **more): ...

    with pytest.raises(TypeError, match=r"`model`, `batch`; by name `targets=` and more") as told:
        took(1, 2, 3, losss=4)
    assert "Did you mean" not in str(told.value)

    @door
    def took_none(*, size: int): ...

    with pytest.raises(TypeError, match=r"takes nothing; by name `size=`\."):
        took_none(3)


def test_a_name_that_only_type_checkers_know_is_not_asked():
    def took(value: "NotThere", count: "int"): ...

    door(took)(object(), 3)
    with pytest.raises(Refusal, match="`count`"):
        door(took)(object(), "x")


def test_objects_are_made_of_what_their_class_takes():
    @door_of
    @dataclass(frozen=True, slots=True)
    class Pair:
        one: int
        other: str = ""

    assert (Pair(1).one, Pair(1, "a").other) == (1, "a")
    with pytest.raises(Refusal, match="`other`"):
        Pair(1, 2)
    with pytest.raises(TypeError, match="By place it takes `one`, `other`"):
        Pair(1, "a", 2)


LAYER = nn.Linear(2, 2)
MADE = {  # for arguments that must be there
    "model": LAYER,
    "batch": torch.zeros(2, 2),
    "targets": torch.zeros(2),
    "loss": nn.functional.mse_loss,
    "models": [LAYER],
    "program": LAYER,
    "before": LAYER,
    "after": LAYER,
    "source": LAYER,
    "subject": ss.Subject(LAYER, torch.zeros(2, 2)),
    "data": torch.zeros(2, 2),
    "profile": ss.profile(LAYER, torch.ones(2, 2), views=["weights"]),
    "findings": (),
    "finding": ss.records.Finding("x", "0", "note", (), "Words.", "a source"),
    "remedy": "batch-norm",
    "name": "stable rank",
    "spec": "digits",
    "path": "x",
    "run_path": "x",
    "to": "csv",
    "width": 3,
    "make": LAYER,
    "depth": 3,
    "result": None,
}
DOORS = [(n, v) for n in ss.__all__ if callable(v := getattr(ss, n)) and not inspect.ismodule(v)]


@pytest.mark.parametrize(("name", "made"), DOORS)
def test_every_public_door_refuses_an_object_of_no_kind_wherever_it_takes_a_kind(name, made):
    class Odd: ...

    if name in ("Refusal", "Estimate"):
        return
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    takes = [p for p in inspect.signature(made).parameters.values() if p.kind not in loose]
    needed = {p.name: MADE[p.name] for p in takes if p.default is p.empty}
    for p in takes:
        if p.annotation is not Any:
            with pytest.raises(Refusal, match=f"`{p.name}` must be"):
                made(**{**needed, p.name: Odd()})
