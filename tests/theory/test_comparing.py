import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey, theory
from sigmascope.core.guard import Refusal


def network(seed=0, act=nn.ReLU):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), act(), nn.Linear(8, 7), nn.Linear(7, 3))


def data(seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(20, 6, generator=g), torch.randint(3, (20,), generator=g)


def test_two_models_are_compared():
    before, after, (x, y) = network(), network(), data()
    optimizer = torch.optim.SGD(after.parameters(), lr=0.01)
    start = float(F.cross_entropy(after(x), y).detach())
    for _ in range(50):
        optimizer.zero_grad()
        F.cross_entropy(after(x), y).backward()
        optimizer.step()
    drop = start - float(F.cross_entropy(after(x), y).detach())
    found = theory.compare(before, after, batch=x, learning_rate=0.01, loss_drop=drop, steps=50)
    assert any(c.moved and c.quantity == "spectral norm" for c in found.changes)
    verdicts = {str(d.verdict) for d in found.drifts if d.invariant.kind == "matrix"}
    assert verdicts == {"holds"}
    assert set(found.signs) == {"0.weight", "2.weight", "3.weight"}
    assert found.missing == ()
    same = theory.compare(before, before, batch=x)
    assert not any(c.moved for c in same.changes)
    assert {str(d.verdict) for d in same.drifts} == {"inapplicable"}


def test_checkpoints_are_compared_by_name():
    before, after = network(0).state_dict(), network(1).state_dict()
    after["2.weight"] = torch.outer(torch.arange(7.0), torch.arange(8.0))
    after["new"] = after.pop("3.weight")
    found = theory.compare(before, after)
    ratio = next(c for c in found.changes if (c.site, c.quantity[:8]) == ("2.weight", "operator"))
    assert ratio.after.value == pytest.approx(1, abs=1e-12)
    assert found.missing == ("3.weight", "new")
    assert found.drifts == ()


def test_norms_of_checkpoints_enclose_where_roundings_go_one_way():
    """And where squares are below the numbers of double precision."""
    large, small = torch.full((125_000, 8), 0.1), torch.full((4, 4), 1e-200, dtype=torch.float64)
    found = theory.compare({"a": large, "b": small}, {"a": large, "b": small})
    norms = {c.site: c.before for c in found.changes if c.quantity == "Frobenius norm"}
    assert norms["a"].low <= 1000 * float(large[0, 0]) <= norms["a"].high
    assert norms["b"].low <= 4e-200 <= norms["b"].high
    assert norms["b"].low > 0


def test_profiles_are_compared():
    x, _ = data()
    one, two = (survey.profile(network(s), x, views=["weights"]) for s in (0, 1))
    assert len(theory.compare(one, two).changes) == len(one.readings)


@pytest.mark.parametrize(
    ("one", "two", "says"),
    [
        (network(), network(), "`batch` is needed"),
        (network(), network().state_dict(), "got Sequential and OrderedDict"),
        (
            network().state_dict(),
            {"0.weight": torch.full((8, 6), torch.nan)},
            "0.weight` must be finite",
        ),
        ({"a": torch.ones(2, 2) * 1j}, {"a": torch.ones(2, 2)}, "`a` must hold real floating"),
        ({"a": torch.ones(2, 2, dtype=torch.int8)}, {}, "`a` must hold real floating"),
        ({"a": torch.ones(2, 3)}, {"a": torch.ones(3, 2)}, r"one shape in both, got \(2, 3\)"),
        ({"bias": torch.ones(2)}, {"bias": torch.ones(2)}, "1 tensors with none"),
    ],
)
def test_what_cannot_be_compared_or_would_be_left_out_without_a_word_is_refused(
    as_users_see_it, one, two, says
):
    with pytest.raises(Refusal, match=says):
        theory.compare(one, two)


def test_numbers_of_double_precision_keep_it():
    """A change of one part in 10¹⁰ is none in single precision."""
    before = {"w": torch.diag(torch.tensor([1.0, 0.5], dtype=torch.float64))}
    found = theory.compare(before, {"w": before["w"] * (1 + 1e-10)})
    (norm,) = [c for c in found.changes if c.quantity == "Frobenius norm"]
    assert norm.after.value / norm.before.value - 1 == pytest.approx(1e-10, rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16], ids=str)
def test_few_bits_are_computed_with_as_the_numbers_they_are(dtype):
    state = {"w": torch.diag(torch.tensor([2.0, 0.5])).to(dtype)}
    found = theory.compare(state, state)
    (norm,) = [c for c in found.changes if c.quantity == "Frobenius norm"]
    assert norm.after.value == pytest.approx(math.sqrt(4.25))
