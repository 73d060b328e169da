"""Attentions that are written out: over what their softmax is, and what they sum up."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.models.structure import attentions

X = torch.randn(6, 5, 8, generator=torch.Generator().manual_seed(0))
MASK = torch.tril(torch.ones(5, 5)) == 0


class Attends(nn.Module):
    """Queries, keys and values of the input, and some way to put them together."""

    def __init__(self, way, dim):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.way, self.dim = way, dim

    def forward(self, x):
        return self.way(self.q(x), self.k(x), self.v(x), self.dim)


def heads(t):
    return t.view(*t.shape[:2], 2, 4).transpose(1, 2)


def plain(q, k, v, dim):
    return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), dim=dim) @ v


def masked(q, k, v, dim):
    scores = torch.bmm(q, k.mT).masked_fill(MASK, -1e9)
    return torch.bmm(F.dropout(nn.Softmax(dim)(scores), 0.1), v)


def added(q, k, v, dim):
    return torch.matmul((torch.where(MASK, -1e9, 0.1 * (q @ k.mT)) + 1).softmax(dim), v)


def of_heads(q, k, v, dim):
    q, k, v = map(heads, (q, k, v))
    out = (q @ k.transpose(-2, -1)).softmax(dim=dim).contiguous() @ v
    return out.transpose(1, 2).reshape(X.shape)


def by_letters(q, k, v, dim):
    w = torch.einsum("bqd,bkd->bqk", q, k).softmax(dim)
    return torch.einsum("bqk,bkd->bqd", w, v)


def from_the_right(q, k, v, dim):
    """Columns are queries: values come first, and the softmax belongs over the rows."""
    w = (k @ q.mT).softmax(-1 if dim == -2 else -2)
    return (v.mT @ w).mT


WAYS = (plain, masked, added, of_heads, by_letters, from_the_right)


@pytest.mark.parametrize("way", WAYS)
def test_weights_of_one_sum_add_up_to_one_where_the_softmax_is_over_keys(way):
    (found,) = attentions(Attends(way, -1).eval(), X)
    assert found.gap == 0.0
    assert found.over == found.summed


@pytest.mark.parametrize("way", WAYS)
def test_a_softmax_over_queries_is_told_with_its_line(way):
    (found,) = attentions(Attends(way, -2).eval(), X)
    assert found.gap > 0.01
    assert found.over != found.summed
    assert found.place.startswith("test_attention.py:")


def test_other_samples_and_heads_are_told_too():
    for way, dim in ((plain, 0), (of_heads, 0), (of_heads, 1)):
        (found,) = attentions(Attends(way, dim), X)
        assert found.gap > 0.01


def assigned(q, k, v, dim):
    """A soft assignment to clusters, whose sums are of samples: no attention."""
    w = F.softmax(q, -1)
    return (w.mT @ v).sum(1)


def slots(q, k, v, dim):
    """Weights that are a softmax over queries, and made to add up to one after it."""
    w = (q @ k.mT).softmax(-2)
    return (w / w.sum(-1, keepdim=True)) @ v


def linear(q, k, v, dim):
    """Attention without scores: a softmax over features, another one over places."""
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


def fixed(q, k, v, dim):
    """A graph that no weight leads to."""
    return (torch.eye(5).expand(6, 5, 5) @ k).softmax(-2).mT @ v


@pytest.mark.parametrize("way", [assigned, slots, linear, fixed])
def test_what_is_no_attention_or_normalised_in_another_way_is_left_in_peace(way):
    assert all(a.gap == 0 for a in attentions(Attends(way, -1), X))


def test_a_call_of_torch_is_none_and_the_model_is_left_as_it_was():
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert attentions(layer, X) == ()
    assert layer.training
    assert all(p.grad is None for p in itertools.chain(model.parameters(), layer.parameters()))


@pytest.mark.parametrize("dim", [0, 1])
def test_rows_that_are_samples_attend_to_no_place(dim):
    """Of two dimensions the first are samples: what mixes these is told elsewhere."""
    assert attentions(Attends(plain, dim), X[0]) == ()
