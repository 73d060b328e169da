"""Samples of batches, data sets and loaders."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from sigmascope import sources
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.programs.data import Mapped, parted, rows_of, taken

X, Y = torch.arange(50.0)[:, None], torch.arange(50)


class Stream(IterableDataset):
    def __iter__(self):
        return ((torch.tensor([float(i)]), i) for i in range(50))


KINDS = {
    "pair": (X, Y),
    "mapping": {"x": X, "labels": Y},
    "set": TensorDataset(X, Y),
    "list": [(x, y) for x, y in zip(X, Y, strict=True)],
    "loader": DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True),
    "stream": DataLoader(Stream(), batch_size=8),
    "batches": [(X[i : i + 8], Y[i : i + 8]) for i in range(0, 50, 8)],
}


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("list", "batches")])
@pytest.mark.parametrize("samples", [1, 16, 500])
def test_each_input_comes_with_its_target(kind, samples):
    state = torch.random.get_rng_state()
    found = taken(KINDS[kind], samples=samples)
    batch = found.batch["x"] if kind == "mapping" else found.batch
    assert torch.equal(batch[:, 0].long(), found.targets)
    assert len(batch) == min(samples, 50)
    assert len(set(found.targets.tolist())) == len(batch)
    assert found.total == (None if kind == "stream" else 50)
    assert found.size == (8 if kind in ("loader", "stream") else None)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_generator_of_batches():
    found = taken(iter(KINDS["batches"]), samples=20)
    assert (len(found.batch), found.total, found.size) == (20, None, 8)
    assert torch.equal(found.batch[:, 0].long(), found.targets)


def test_what_sources_open():
    found = taken(sources.open_data("digits", samples=32), samples=16)
    assert len(found.batch) == len(found.targets) == 16


def test_ragged_batches_are_left_out():
    ragged = [(torch.ones(2, 5), torch.ones(2)), (torch.ones(2, 7), torch.ones(2))]
    assert taken(iter(ragged), samples=8).batch.shape == (2, 5)


def test_targets_can_be_changed():
    found = taken(Mapped((X, Y), lambda y: -y), samples=16)
    assert torch.equal(found.batch[:, 0].long(), -found.targets)


@pytest.mark.parametrize(
    ("item", "kinds"),
    [((1, 2), (1, 2)), ([1, 2, 3], ((1, 2), 3)), ((1,), (1, None)), (5, (5, None))],
)
def test_parts(item, kinds):
    assert parted(item) == kinds


FLIPPED = X.numpy()[:, ::-1]


@pytest.mark.parametrize(
    "data",
    [
        (FLIPPED, Y.numpy()),
        {"x": FLIPPED, "labels": Y.numpy().astype(">i8")},
        [(FLIPPED, Y.numpy())],
        iter([(FLIPPED[:20], Y.numpy()[:20]), (FLIPPED[20:], Y.numpy()[20:])]),
        (pd.DataFrame(FLIPPED), pd.Series(Y.numpy())),
    ],
)
def test_arrays_and_frames_are_read_as_tensors(data):
    found = taken(data[0] if isinstance(data, list) else data, samples=50)
    batch = found.batch["x"] if isinstance(found.batch, dict) else found.batch
    assert torch.equal(batch.flip(1), X)
    assert torch.equal(found.targets, Y)


@pytest.mark.parametrize("samples", [0, -3])
def test_at_least_one_sample_is_taken(samples):
    with pytest.raises(Refusal, match="`samples` must be 1 or more, got "):
        taken((X, Y), samples=samples)


def test_arrays_of_words_are_refused():
    with pytest.raises(Refusal, match=r"got one of <U1\. Number what is none"):
        taken((X.numpy(), np.array(["a"] * 50)), samples=4)


def test_the_name_of_a_data_set_is_no_data():
    with pytest.raises(Refusal, match=r"got the text 'digits'. .* `open_data"):
        taken("digits", samples=4)


@pytest.mark.parametrize("data", [7, TensorDataset(X[:0]), iter([])])
def test_what_holds_nothing_is_refused(data):
    with pytest.raises(Refusal):
        taken(data, samples=4)


def test_rows_are_taken_of_what_has_one_for_each_sample_alone():
    given = {"own": torch.arange(5), "other": torch.arange(3), "one": torch.tensor(7)}
    found = rows_of(given, torch.tensor([4, 0]), count=5)
    assert {name: t.tolist() for name, t in found.items()} == {
        "own": [4, 0], "other": [0, 1, 2], "one": 7,
    }  # fmt: skip
