import sys
import textwrap

import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.sources import open_data

FILE = """
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

x = torch.arange(40.0).view(20, 2)
y = torch.arange(20) % 4
data = TensorDataset(x, y)
loader = DataLoader(data, batch_size=3)

def pair(): return x, y
def tuples(): return (x, x), y
def mapping(): return {"images": x, "labels": y}
def arguments(): return {"ids": x.long(), "mask": x, "labels": y}
def array(): return x.numpy()
def plain(): return [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
def loaders(): return loader
def batches(): return [(x[:5], y[:5]), (x[5:10], y[5:10])]
def forever():
    while True:
        yield {"x": x[:6]}
def listed(): return [x, y]

def nothing(): return None
def word(): return "words"
def three(): return x, x, y
def uneven(): return x, y[:3]
def uneven_parts(): return (x, x[:3]), y
def no_batch(): return iter(())
def words_inside(): return {"ids": x, "text": ["a"] * 20}
def ragged():
    yield torch.ones(2, 3)
    yield torch.ones(2, 4)
def mixed():
    yield x
    yield {"x": x, "z": x}
    yield (x, x, x)
def breaks():
    yield x[:1]
    raise RuntimeError("the disk is gone")
def broken(): raise RuntimeError("the disk is gone")
def needs(path): return x
class Broken(torch.utils.data.Dataset):
    def __len__(self): return 3
    def __getitem__(self, i): raise OSError("no such image")
broken_set = Broken()
"""


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "loading.py").write_text(textwrap.dedent(FILE))
    return lambda name: f"{tmp_path / 'loading.py'}:{name}"


@pytest.mark.parametrize("name", ["pair", "mapping", "loaders", "loader", "listed"])
def test_pairs_mappings_and_loaders_give_inputs_and_targets(spec, tmp_path, name):
    modules, path = set(sys.modules), list(sys.path)
    data = open_data(spec(name))
    assert sys.path == path  # nothing is left behind
    assert "loading" not in set(sys.modules) - modules
    assert [p.name for p in tmp_path.iterdir()] == ["loading.py"]
    assert torch.equal(data.inputs, torch.arange(40.0).view(20, 2))
    assert torch.equal(data.targets, torch.arange(20) % 4)
    assert data.outputs == 4


def test_arrays_and_lists_are_inputs_without_targets(spec):
    assert open_data(spec("array")).inputs.shape == (20, 2)
    assert open_data(spec("plain")).inputs.shape == (3, 2)
    assert open_data(spec("array")).targets is None


def test_tuples_and_mappings_of_inputs_stay_what_they_are(spec):
    assert isinstance(open_data(spec("tuples")).inputs, tuple)
    data = open_data(spec("arguments"), samples=5)
    assert set(data.inputs) == {"ids", "mask"}
    assert len(data.inputs["mask"]) == len(data.targets) == 5


def test_a_data_set_is_sampled_at_random(spec):
    data = open_data(spec("data"), samples=8)
    assert data.inputs.shape == (8, 2)
    assert torch.equal((data.inputs[:, 0] / 2).long() % 4, data.targets)
    assert data.inputs[:, 0].tolist() != sorted(data.inputs[:, 0].tolist())


def test_batches_are_taken_until_there_are_enough(spec):
    assert open_data(spec("batches")).inputs.shape == (10, 2)
    assert open_data(spec("forever"), samples=15).inputs.shape == (15, 2)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "got None"),
        ("word", "got str"),
        ("three", "a tuple of 3"),
        ("uneven", "3 targets for 20 inputs"),
        ("uneven_parts", r"got parts of 3 and 20 rows"),
        ("no_batch", "gave no batch"),
        ("words_inside", r"\['text'\] must hold numbers"),
        ("ragged", "cannot be joined"),
        ("mixed", "cannot be joined|a tuple of 3"),
        ("breaks", "RuntimeError: the disk is gone"),
        ("broken", r"raised RuntimeError: the disk is gone \(loading.py, line \d+\)"),
        ("needs", "needs the arguments `path`"),
        ("broken_set", "OSError: no such image"),
        ("piar", "Did you mean `pair`"),
    ],
)
def test_a_loader_that_gives_no_batch_is_refused(spec, name, says):
    with pytest.raises(Refusal, match=says) as refusal:
        open_data(spec(name))
    assert "\n" not in str(refusal.value)
