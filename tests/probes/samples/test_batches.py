from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.probes.samples import (
    RUNS,
    as_tensor,
    beside,
    chosen,
    copied,
    mapped,
    pieces,
    prepared,
    run,
    sample_count,
    tensors,
)

X, Y = torch.arange(12.0).view(4, 3), torch.arange(4)


class Pair(NamedTuple):
    left: torch.Tensor
    right: str


def test_tensors_are_found_in_any_structure_and_changed_in_place_of_it():
    batch = {"a": (X, ["words", Y]), "b": Pair(X, "kept"), "c": None}
    assert [id(t) for t in tensors(batch)] == [id(X), id(Y), id(X)]
    doubled = mapped(batch, lambda t: 2 * t)
    assert torch.equal(doubled["a"][0], 2 * X)
    assert doubled["a"][1][0] == "words"
    assert isinstance(doubled["b"], Pair)
    assert (doubled["b"].right, doubled["c"]) == ("kept", None)


@dataclass(frozen=True)
class Record:
    score: torch.Tensor
    rest: tuple[torch.Tensor, ...]
    name: str = "record"


@dataclass
class Late:
    out: torch.Tensor
    aside: torch.Tensor | None = field(default=None, init=False)


def test_dataclasses_are_opened_by_their_fields():
    whole = Record(torch.ones(2), (torch.zeros(3), torch.ones(1)))
    assert [t.numel() for t in tensors(whole)] == [2, 3, 1]
    twice = mapped(whole, lambda t: 2 * t)
    assert (type(twice), twice.name, twice.score.tolist()) == (Record, "record", [2, 2])
    assert whole.score.tolist() == [1, 1]
    late = mapped(Late(torch.ones(2)), lambda t: 3 * t)
    assert (late.out.tolist(), late.aside) == ([3, 3], None)
    assert as_tensor(Late(torch.ones(2)))[1] == "output['out']"
    assert as_tensor(whole)[0] is whole.score
    assert [*tensors(Record)] == []


def test_one_tensor_that_comes_twice_is_copied_once():
    first, (second, other) = copied((X, [X, Y]))
    assert first is second
    assert first.data_ptr() != X.data_ptr()
    assert torch.equal(other, Y)


def test_floating_tensors_take_the_precision_of_the_model():
    batch = prepared(nn.Linear(3, 2).double(), {"x": X.clone().requires_grad_(), "y": Y})
    assert batch["x"].dtype == torch.float64
    assert not batch["x"].requires_grad
    assert batch["y"].dtype == torch.int64
    bare = (X,)
    assert prepared(nn.Flatten(), bare) is bare
    with pytest.raises(Refusal, match=r"must fit torch.float16, the precision .* got 1e\+06"):
        prepared(nn.Linear(3, 2).half(), torch.tensor([1e6, 1.0]))
    endless = prepared(nn.Linear(3, 2).half(), torch.tensor([1.0, float("inf")]))
    assert endless.isinf().tolist() == [False, True]  # it was infinite before


def test_samples_are_counted_along_a_dimension_of_the_first_tensor():
    assert sample_count({"n": 3, "x": X}, batch_dim=0) == 4
    assert sample_count((X, Y), batch_dim=1) == 3
    with pytest.raises(Refusal, match=r"samples along dimension 1, got a tensor of shape \(4,\)"):
        sample_count(Y, batch_dim=1)
    with pytest.raises(Refusal, match="must hold a tensor, got dict without any"):
        sample_count({"n": 3}, batch_dim=0)


def test_pieces_cut_what_is_as_long_as_the_batch():
    whole = torch.ones(2, 3)
    found = list(pieces((X, Y, whole, 7), size=3, batch_dim=0))
    assert [part for _, part in found] == [slice(0, 3), slice(3, 4)]
    for (x, y, rest, number), part in found:
        assert torch.equal(x, X[part])
        assert torch.equal(y, Y[part])
        assert (rest is whole, number) == (True, 7)
    turned = [p for p, _ in pieces((X.mT, Y), size=2, batch_dim=1)]
    assert [tuple(x.shape) for x, _ in turned] == [(3, 2), (3, 2)]
    assert all(y is Y for _, y in turned)


def test_samples_are_chosen_in_their_order():
    rows = torch.tensor([2, 0])
    x, rest = chosen((X, torch.ones(2, 3)), rows)
    assert torch.equal(x, X[[2, 0]])
    assert rest.shape == (2, 3)
    assert torch.equal(chosen(X.mT, rows, batch_dim=1), X.mT[:, [2, 0]])


def test_a_call_is_counted_and_works_on_a_copy():
    def spoils(x, scale=1.0):
        torch.set_grad_enabled(False)
        return x.mul_(scale)

    before, x = RUNS.count, torch.ones(2)
    with torch.enable_grad():
        assert run(spoils, {"x": x, "scale": 3.0}).tolist() == [3, 3]
        assert torch.is_grad_enabled()
    assert run(spoils, (x, 2.0)).tolist() == [2, 2]
    assert run(spoils, x).tolist() == x.tolist() == [1, 1]
    assert RUNS.count == before + 3


@pytest.mark.parametrize(
    ("output", "rule"),
    [
        (X, "the output tensor"),
        ({"loss": X, "logits": X}, "output['logits']"),
        ({"ids": Y, "mine": X, "other": X}, "output['mine']"),
        ({"logits": Y, "pred": X}, "output['pred']"),
        ((Y, None, [X]), "the first floating tensor of the output"),
    ],
)
def test_the_tensor_that_is_studied_is_chosen_by_a_rule(output, rule):
    found, said = as_tensor(output)
    assert found is X
    assert said == rule


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, "got None"),
        ([], "got list"),
        (Y, r"got a torch.int64 tensor of shape \(4,\)"),
        (X[:, :0], r"got a torch.float32 tensor of shape \(4, 0\)"),
        ({"ids": Y}, "got dict"),
    ],
)
def test_an_output_without_numbers_is_refused(output, says):
    with pytest.raises(Refusal, match=f"must return a floating tensor, .*{says}"):
        as_tensor(output)


def test_targets_are_taken_to_a_model_that_lies_elsewhere():
    with torch.device("meta"):
        there = nn.Linear(2, 2)
        theirs = torch.ones(3)
    here = torch.ones(3)
    assert beside(there, here).device.type == "meta"
    assert [t.device.type for t in beside(there, (here, theirs))] == ["meta"] * 2
    assert beside(there, "spam") == "spam"
    assert beside(nn.Linear(2, 2), here) is here
    assert beside(nn.Linear(2, 2), theirs) is theirs  # somebody put them there
    assert beside(nn.ReLU(), here) is here
