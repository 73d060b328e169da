"""Loaders that give samples as they lie, and last batches of one sample."""

import pytest
import torch
from fingerprints import differences, fingerprint
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset

import sigmascope as ss
from sigmascope.diagnosis.programs.data import taken
from sigmascope.diagnosis.programs.opened import last_batch_items, opened, order_items
from sigmascope.records import Reading

G = torch.Generator().manual_seed(0)
Y = torch.arange(240).remainder(3)
X = torch.randn(240, 4, generator=G) + torch.eye(4)[Y]
SORTED = TensorDataset(X[Y.argsort(stable=True)], Y.sort().values)


def alike(data):
    return {i.quantity: i.estimate.value for i in order_items(data) if isinstance(i, Reading)}


def network(*inner):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), *inner, nn.ReLU(), nn.Linear(8, 3))


def test_sorted_classes_are_seen_batch_by_batch():
    found = alike(DataLoader(SORTED, batch_size=16))
    assert found["batches of one class"] == 1.0  # 80 of each are five batches
    assert found["the same if mixed"] == pytest.approx(3 * (1 / 3) ** 16, rel=0.2)


@pytest.mark.parametrize(
    "data",
    [
        DataLoader(SORTED, batch_size=16, shuffle=True),
        DataLoader(SORTED),  # batches of one always hold one class
        DataLoader(TensorDataset(X), batch_size=16),
        DataLoader(TensorDataset(X, X), batch_size=16),
        (X, Y.sort().values),  # of which nobody says in what order it is trained on
        X,
    ],
)
def test_of_others_nothing_is_said(data):
    assert alike(data) == {}


@settings(max_examples=40, deadline=None)
@given(classes=st.integers(2, 6), size=st.integers(8, 40), seed=st.integers(0, 99))
def test_mixed_samples_are_no_fault(classes, size, seed):
    """However many classes and however large batches are, also where one class is frequent."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(400, generator=generator) ** 3 * classes).long()
    found = alike(DataLoader(TensorDataset(X[:1].expand(400, 4), y), batch_size=size))
    assert found["batches of one class"] < 0.5 or found["the same if mixed"] > 0.05


def test_samples_of_a_sorted_loader_are_of_all_classes():
    found = taken(DataLoader(SORTED, batch_size=16), samples=30)
    assert set(found.targets.tolist()) == {0, 1, 2}
    assert (found.total, found.size) == (240, 16)
    more = taken(DataLoader(SORTED, batch_size=16), samples=60)
    assert torch.equal(more.batch[:30], found.batch)


def test_rows_that_only_neighbours_fit_are_taken_as_they_come():
    rows = [(torch.zeros(2 + i // 8, 4), i // 8) for i in range(32)]  # lengths go up
    found = taken(DataLoader(rows, batch_size=8), samples=16)  # type: ignore[arg-type]
    assert found.batch.shape == (8, 2, 4)


def test_a_sorted_loader_is_the_first_cause():
    whole = {"model": network(), "loss": "cross_entropy", "optimizer": "adam",
             "lr": 0.02, "epochs": 8}  # fmt: skip
    names = [
        [f.name for f in ss.diagnose({**whole, "data": DataLoader(SORTED, 24, shuffle=s)}).findings]
        for s in (False, True)
    ]
    assert names == [["sorted-samples"], []]


class Squeezed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, x):
        return self.inner(x).squeeze()


@pytest.mark.parametrize("model", [network(nn.BatchNorm1d(8)), Squeezed()])
@pytest.mark.parametrize(
    ("count", "drop", "raises"), [(97, False, True), (97, True, False), (96, False, False)]
)
def test_a_last_batch_of_one(model, count, drop, raises):
    loader = DataLoader(TensorDataset(X[:count], Y[:count]), 16, shuffle=True, drop_last=drop)
    program = ss.Program(model, loader, F.cross_entropy, "adam")
    before = fingerprint(model=model)
    items = [*last_batch_items(program, opened(program, samples=64))]
    assert [i.what for i in items] == (["training"] if raises else [])
    assert not differences(before, fingerprint(model=model))


def test_a_last_batch_of_one_that_works_is_no_fault():
    program = ss.Program(network(), DataLoader(TensorDataset(X[:97], Y[:97]), 16), F.cross_entropy)
    assert [*last_batch_items(program, opened(program, samples=64))] == []


class Unsized(Sampler):
    def __iter__(self):
        return iter(range(97))


def test_a_sampler_that_does_not_know_how_many_it_gives_is_let_be():
    loader = DataLoader(TensorDataset(X[:97], Y[:97]), 16, sampler=Unsized())
    program = ss.Program(network(nn.BatchNorm1d(8)), loader, F.cross_entropy)
    assert [*last_batch_items(program, opened(program, samples=64))] == []
    assert [*order_items(loader)] == []
