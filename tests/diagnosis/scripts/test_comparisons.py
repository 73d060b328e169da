"""What losses are given, and what data are behind a second look: each number next to its limit."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, Subset, TensorDataset

from sigmascope.diagnosis.scripts.comparisons import (
    is_copy,
    is_edges,
    largest_score,
    rescaled_by,
    stored_in,
    unchanged_share,
)
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


@pytest.mark.parametrize(
    ("weights", "counts", "told"),
    [
        ([1.0, 1.5], [10, 30], True),
        ([1.0, 1.5 * (1 - 1e-6)], [10, 30], False),
        ([1.0, 1.5], [10, 29], False),  # as many, more or less
        ([1.5, 1.0], [10, 30], False),
        ([1.0, 3.0, 2.0], [10, 40, 90], False),  # no order in it
        ([0.1, 0.0, 0.9], [10, 0, 90], True),  # of a class that was not seen nothing is known
    ],
)
def test_weights_are_turned_round_where_they_rise_with_the_number(weights, counts, told):
    run = ScriptRun(steps=8, weighted={HERE: (weights, counts)})
    assert [f.name for f in found_in(run)] == ["reversed-class-weights"] * told


@pytest.mark.parametrize(("best", "told", "says"), [(8.1, 2.9, 1), (7.9, 2.9, 0), (8.1, 3.1, 0)])
def test_pairs_are_none_where_others_are_nearer_for_sure(best, told, says):
    run = ScriptRun(steps=8, pairs={HERE: (best, 4, told)})
    assert [f.name for f in found_in(run)] == ["unrelated-pairs"] * says


@pytest.mark.parametrize(("still", "of", "told"), [(4, 4, True), (3, 3, False), (4, 5, False)])
def test_states_are_their_own_successors_in_all_steps_or_not(still, of, told):
    run = ScriptRun(steps=8, unmoved=(still, of))
    assert [f.name for f in found_in(run)] == ["unmoved-states"] * told


@pytest.mark.parametrize(("left", "told"), [(0.5, False), (0.5 + 1e-6, True)])
def test_statistics_lag_where_most_of_them_is_the_start(left, told):
    run = ScriptRun(steps=8, modules=[Called("Net", HERE, lagging=left)])
    assert [f.name for f in found_in(run)] == ["slow-statistics"] * told


@pytest.mark.parametrize(("share", "told"), [(0.25, True), (0.249, False), (1.0, False)])
def test_columns_that_come_out_as_they_were(share, told):
    run = ScriptRun(steps=8, modules=[Called("Net", HERE, unchanged=share)])
    assert [f.name for f in found_in(run)] == ["unchanged-inputs"] * told


@pytest.mark.parametrize(("asked", "told"), [(6, True), (5, False)])
def test_sequences_half_as_long_again(asked, told):
    run = ScriptRun(steps=8, modules=[Called("Net", HERE, longest=4, asked_longest=asked)])
    assert [f.name for f in found_in(run)] == ["longer-than-trained"] * told


@pytest.mark.parametrize(
    ("zero", "numbers", "own", "severity"),
    [
        (10, 10, False, "error"),
        (9, 10, False, None),
        (1, 10, True, "warning"),
        (1, 11, True, "note"),
    ],
)
def test_parameters_are_idle_where_all_or_both_factors_are(zero, numbers, own, severity):
    seen = OptimizerSeen("SGD", HERE, 1, looked=8, steps=8, rates=[0.1])
    seen.zero, seen.numbers, seen.zero_names, seen.zero_weights = zero, numbers, ("a",), own
    found = [f.severity for f in found_in(ScriptRun(optimizers=[seen], backwards=8))]
    assert found == [severity] * (severity is not None)


@pytest.mark.parametrize(
    ("unasked", "asks", "told"), [(9, 20, True), (8, 20, False), (9, 1, False)]
)
def test_a_closure_is_to_compute_something_each_time(unasked, asks, told):
    seen = OptimizerSeen("LBFGS", HERE, 1, looked=10, options={"max_iter": asks}, unasked=unasked)
    run = ScriptRun(optimizers=[seen])
    assert [f.name for f in found_in(run)] == ["unrecomputed-closure"] * told


def test_columns_are_compared_to_the_last_bit():
    x = torch.randn(8, 4, generator=G)
    assert unchanged_share((x,), torch.cat([x[:, :1], x[:, 1:] + 1e-6], 1)) == 0.25
    assert unchanged_share((x,), x + 1e-6) == 0
    assert unchanged_share((x,), x[:, :2]) == 0
    constant = torch.cat([torch.ones(8, 1), x[:, 1:]], 1)
    assert unchanged_share((constant,), constant.clone()) == 0.75  # what is the same for all
    assert unchanged_share((x[:7],), x[:7]) == 0  # of a few it may be by chance


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
    assert stored_in(TensorDataset(torch.zeros(3))) == []  # a tuple of what nobody writes to


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
