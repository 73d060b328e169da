"""What losses are given, and what data are behind a second look: each number next to its limit."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, Subset, TensorDataset

from sigmascope.diagnosis.scripts.comparisons import (
    Comparisons,
    is_copy,
    is_edges,
    largest_score,
    rescaled_by,
    stored_in,
    unchanged_columns,
    weights_by_class,
)
from sigmascope.diagnosis.scripts.replay import Recorder
from sigmascope.diagnosis.scripts.rules import found_in
from sigmascope.diagnosis.scripts.seen import Called, Line, OptimizerSeen, ScriptRun

G = torch.Generator().manual_seed(0)
A, B = (torch.randn(6, 3, generator=G, requires_grad=True) for _ in range(2))
HERE = Line("train.py", 3)


def cosines():
    return F.normalize(A, dim=1) @ F.normalize(B, dim=1).T


@pytest.mark.parametrize(
    ("made", "size"),
    [
        (lambda: cosines() / 0.5, 2.0),
        (lambda: cosines() * 3.0, 3.0),
        (lambda: cosines(), 1.0),
        (lambda: (cosines() / 0.1).masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf), 10.0),
        (lambda: A @ B.T / 0.1, None),
        (lambda: F.normalize(A, dim=1) @ B.T, None),
        (lambda: cosines() + 0.1, None),
        (lambda: A.detach() @ B.detach().T, None),
    ],
)
def test_how_large_scores_of_vectors_of_length_one_can_be(made, size):
    assert largest_score(made()) == (None if size is None else pytest.approx(size))


def narrow(many, size, steps=8):
    run = ScriptRun(steps=steps, narrow={HERE: (many, size)})
    return {f.name: f.severity for f in found_in(run)}


def test_scores_are_narrow_from_half_of_the_loss_of_equal_ones_on():
    """For two classes log(1 + exp(-2 s)) is a half of log 2 at s = 0.4407."""
    at = -0.5 * torch.tensor(2**0.5 - 1, dtype=torch.float64).log().item()
    assert narrow(2, at * (1 - 1e-6)) == {"narrow-scores": "warning"}
    assert narrow(2, at * (1 + 1e-6)) == {}
    worse = -0.5 * torch.tensor(2**0.9 - 1, dtype=torch.float64).log().item()
    assert narrow(2, worse * (1 - 1e-6)) == {"narrow-scores": "error"}
    assert narrow(2, worse * (1 + 1e-6)) == {"narrow-scores": "warning"}
    assert narrow(2, 0.1, steps=7) == {}
    assert narrow(1, 0.1) == {}


def seen(told, **what):
    return pytest.param({"steps": 8, **what}, told, id=f"{what}"[:60])


def called(told, **what):
    return seen(told, modules=[Called("Net", HERE, **what)])


def closed(told, unasked, asks):
    options = {"max_iter": asks}
    optimizer = OptimizerSeen("LBFGS", HERE, 1, looked=10, options=options, unasked=unasked)
    return seen(told, steps=0, optimizers=[optimizer])


def warmed(told, steps):
    rates = {"rates": [0.1, 0.2], "planned": 1.0, "warm_up": (9, 10)}
    optimizer = OptimizerSeen("SGD", None, 1, steps=steps, **rates)
    return seen(told, steps=0, optimizers=[optimizer], backwards=1)


TURNED, LAGS, SAME = "reversed-class-weights", "slow-statistics", "unchanged-inputs"
LIMITS = (
    seen(TURNED, weighted={HERE: ([1.0, 1.5], [10, 30])}),
    seen("", weighted={HERE: ([1.0, 1.5 * (1 - 1e-6)], [10, 30])}),
    seen("", weighted={HERE: ([1.0, 1.5], [10, 29])}),  # as many, more or less
    seen("", weighted={HERE: ([1.5, 1.0], [10, 30])}),
    seen("", weighted={HERE: ([1.0, 3.0, 2.0], [10, 40, 90])}),  # no order in it
    seen(TURNED, weighted={HERE: ([0.1, 0.0, 0.9], [10, 0, 90])}),  # one was not seen
    # pairs are none where others are nearer for sure
    seen("unrelated-pairs", pairs={HERE: (8.1, 4, 2.9)}),
    seen("", pairs={HERE: (7.9, 4, 2.9)}),
    seen("", pairs={HERE: (8.1, 4, 3.1)}),
    seen("unmoved-states", unmoved=(4, 4)),
    seen("", unmoved=(3, 3)),
    seen("", unmoved=(4, 5)),
    called("", lagging=0.5),
    called(LAGS, lagging=0.5 + 1e-6),
    called(SAME, unchanged=0.25),
    called("", unchanged=0.249),
    called("", unchanged=1.0),
    called("longer-than-trained", longest=4, asked_longest=6),
    called("", longest=4, asked_longest=5),
    closed("unrecomputed-closure", 9, 20),
    closed("", 8, 20),
    closed("", 9, 1),
    seen("", steps=0, attached=Counter({("sub", HERE): 1})),
    seen("attached-target", steps=0, attached=Counter({("sub", HERE): 2})),
    warmed("", 7),
    warmed("long-warm-up", 8),
)


@pytest.mark.parametrize(("what", "told"), LIMITS)
def test_what_is_counted_is_told_from_its_limit_on(what, told):
    assert [f.name for f in found_in(ScriptRun(**what))] == [told] * bool(told)


@pytest.mark.parametrize(
    ("zero", "numbers", "own", "severity"),
    [
        (10, 10, False, ["error"]),
        (9, 10, False, []),
        (1, 10, True, ["warning"]),
        (1, 11, True, ["note"]),
    ],
)
def test_parameters_are_idle_where_all_or_both_factors_are(zero, numbers, own, severity):
    seen = OptimizerSeen("SGD", HERE, 1, looked=8, steps=8, rates=[0.1])
    seen.zero, seen.numbers, seen.zero_names, seen.zero_weights = zero, numbers, ("a",), own
    found = [f.severity for f in found_in(ScriptRun(optimizers=[seen], backwards=8))]
    assert found == severity


def test_columns_are_compared_to_the_last_bit():
    x = torch.randn(8, 4, generator=G)
    kept = lambda x, y: [*map(bool, unchanged_columns(x, y))]
    assert kept(x, torch.cat([x[:, :1], x[:, 1:] + 1e-6], 1)) == [True, False, False, False]
    constant = torch.cat([torch.ones(8, 1), x[:, 1:]], 1)
    assert kept(constant, constant.clone()) == [False, True, True, True]  # the same for all
    assert unchanged_columns(x, x[:, :2]) is None
    assert unchanged_columns(x[:7], x[:7]) is None  # of a few it may be by chance


@given(
    kept=st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=5),
    between=st.integers(0, 5),
)
def test_of_layers_that_are_called_one_by_one_the_last_tells_what_none_has_changed(kept, between):
    """Unless something is computed between two of them, of which it is not known what it does."""
    looks = Comparisons(ScriptRun(), Recorder(lambda: None), lambda: None)
    x, layers = torch.randn(8, 4), [Called("Layer", None) for _ in kept]
    weight = torch.ones(4, requires_grad=True)
    for k, (layer, columns) in enumerate(zip(layers, kept, strict=True)):
        x = x.flip(1) if k == between else x
        y = torch.where(torch.tensor(columns), x, x + weight)
        looks.passed(layer, (x,), (y, y.sum()))
        x = y
    told = np.mean(np.all(kept, 0)) if between not in range(1, len(kept)) else 0
    assert [layer.unchanged for layer in layers] == [0] * (len(kept) - 1) + [told]


class Wrapped(Dataset):
    def __init__(self, inner):
        self.inner, self.rows, self.ids = inner, np.ones((4, 2), np.float32), torch.arange(4)
        self.names, self.turned = np.array(["a", "b"]), np.arange(4.0)[::-1]

    def __getitem__(self, k):
        return self.rows[k]


def test_what_a_data_set_holds_lies_in_memory():
    inner = Wrapped(None)
    data = Wrapped(Subset(inner, [0, 1]))
    held = stored_in(data)
    assert [tuple(t.shape) for t in held] == [(4, 2), (4, 2)]
    assert {t.data_ptr() for t in held} == {d.rows.ctypes.data for d in (inner, data)}
    large = Wrapped(None)
    large.rows = np.ones((1 << 10, 1 << 8), np.float32)
    assert [tuple(t.shape) for t in stored_in(large)] == [(1 << 8, 1 << 8)]
    assert stored_in([1, 2]) == []
    assert [len(t) for t in stored_in(TensorDataset(torch.zeros(3), torch.ones(3).long()))] == [3]


def test_numbers_that_are_shifted_and_scaled_alone():
    x = torch.randn(50, generator=G)
    assert rescaled_by(x, (x - 0.5) / 2) > 0.3
    assert rescaled_by(x, x.clone()) == 0
    assert rescaled_by(x, x.flip(0)) == 0
    assert rescaled_by(x, -x) == 0
    assert rescaled_by(x, x[:-1]) == 0
    some = torch.where(torch.arange(50) < 25, (x - 0.5) / 2, x)
    assert rescaled_by(x, some) > 0.3  # those that were read
    assert rescaled_by(x, torch.where(torch.arange(50) < 24, some, x)) == 0


def test_edges_and_copies_are_known_by_their_shapes():
    assert is_edges(torch.zeros(2, 3, dtype=torch.long))
    assert not is_edges(torch.zeros(2, 2, dtype=torch.long))
    assert not is_edges(torch.zeros(3, 2, dtype=torch.long))
    assert not is_edges(torch.zeros(2, 3))
    a, b, c = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(3, 2)
    assert is_copy(a, b)
    assert not is_copy(a, a)
    assert not is_copy(a, c)


def test_classes_are_weighed_where_one_column_of_whole_numbers_says_them():
    y = torch.tensor([0, 0, 0, 1])
    x, twice = torch.randn(4, 2), torch.where(y == 1, 0.5, 2.0)
    assert weights_by_class(twice, TensorDataset(x, y)) == ((3, 2.0), (1, 0.5))
    part = Subset(Subset(TensorDataset(x, y), [3, 2, 1]), [0, 2])
    assert weights_by_class(torch.tensor([0.5, 2.0]), part) == ((1, 2.0), (1, 0.5))
    assert weights_by_class(twice, TensorDataset(x, y, torch.arange(4))) == ()
    assert weights_by_class(torch.tensor([1.0, 2, 1, 1]), TensorDataset(x, y)) == ()
    assert weights_by_class(twice[:2], TensorDataset(x, y)) == ()
    assert weights_by_class(twice, TensorDataset(x)) == ()
