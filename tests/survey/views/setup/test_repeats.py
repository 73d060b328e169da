"""Samples that come more than once are counted, and what that leaves untold is exact."""

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from sigmascope import survey
from sigmascope.survey.views.setup import untold_share
from sigmascope.survey.views.task import target_rows
from tests.survey.views.setup.test_dependences import Towers, read


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (torch.eye(5), 5),
        (torch.ones(5, 5), 1),
        (torch.eye(5)[[0, 0, 1, 1, 1]], 2),
        (1 + 1e-7 * torch.eye(5), 1),  # rounding
        (1 + 1e-2 * torch.eye(5), 5),
        ((torch.ones(5, 5), torch.eye(5)), 5),  # in one part of the batch they differ
        ((torch.eye(5)[[0, 0, 1, 1, 1]], torch.eye(5)[[0, 1, 0, 0, 0]]), 3),
    ],
)
def test_how_many_samples_differ(batch, count):
    model = Towers() if isinstance(batch, tuple) else nn.Linear(5, 4)
    seen = read(model, batch)["(inputs)", "distinct samples"]
    assert seen.estimate.value == count


def test_ids_are_samples_too():
    ids = torch.tensor([[0, 1], [0, 1], [1, 0]])
    model = nn.Sequential(nn.Embedding(3, 4), nn.Flatten(), nn.Linear(8, 2))
    assert read(model, ids)["(inputs)", "distinct samples"].estimate.value == 2


class Graph(nn.Module):
    """Nodes that are told apart by their edges alone."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(1, 6), nn.Linear(6, 2)

    def forward(self, x, edges):
        degree = torch.zeros(len(x), 1).index_add_(0, edges[0], torch.ones(edges.shape[1], 1))
        return self.b(self.a(x * degree).relu())


def test_parts_that_are_not_counted_by_samples_may_tell_them_apart():
    edges = torch.tensor([[0, 0, 1, 2], [1, 2, 3, 4]])
    seen = read(Graph(), (torch.ones(5, 1), edges))["(inputs)", "distinct samples"].estimate
    assert (seen.value, seen.low, seen.high) == (1, 1, 5)
    alone = read(nn.Linear(5, 2), torch.ones(4, 5))["(inputs)", "distinct samples"].estimate
    assert (alone.low, alone.high) == (1, 1)


def untold(x, y, loss=nn.functional.cross_entropy):
    found = survey.profile(
        nn.Sequential(nn.Linear(x.shape[1], 3)), x, targets=y, loss=loss, views=["setup"]
    )
    series = found.series("contradicted targets")
    return series[0].estimate if series else None


def test_equal_samples_with_other_targets():
    x = torch.eye(5)[[0, 0, 1, 1, 2, 2]]
    assert untold(x, torch.tensor([0, 0, 1, 1, 2, 2])).value == pytest.approx(0.0, abs=1e-12)
    assert untold(x, torch.tensor([0, 1, 0, 1, 0, 1])).value == pytest.approx(1.0)
    # one group of three has two classes: 2/6 of its 1, of 2/3 in all, for each sample
    assert untold(x, torch.tensor([0, 1, 1, 1, 2, 2])).value == pytest.approx((1 / 6) / (11 / 18))
    assert untold(torch.eye(6), torch.tensor([0, 1, 0, 1, 0, 1])) is None  # none comes twice
    assert untold(torch.ones(6, 5), torch.tensor([0, 1, 0, 1, 0, 1])) is None  # all the same
    values = untold(
        x,
        torch.tensor([[0.0, 1, 2]]).repeat(6, 1) * torch.arange(6)[:, None],
        nn.functional.mse_loss,
    )
    assert values.value == pytest.approx(6 * 0.25 / 17.5)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=3, max_size=40))
def test_no_function_of_the_inputs_tells_more(pairs):
    groups = torch.tensor([g for g, _ in pairs]).unique(return_inverse=True)[1]
    wanted = target_rows(torch.tensor([y for _, y in pairs]), len(pairs))
    if wanted is None:
        return
    one_hot = torch.eye(int(groups.max()) + 1, dtype=torch.float64)[groups]
    best = one_hot @ torch.linalg.lstsq(one_hot, wanted).solution
    share = float((wanted - best).square().sum() / wanted.square().sum())
    assert untold_share(groups, wanted) == pytest.approx(share, abs=1e-9)
