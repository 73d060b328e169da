import numpy as np
import pytest

from tests.sources.idx import write_idx

FILE = """
import torch
from torch import nn
def linear(): return nn.Linear(64, 5)
def narrow(): return nn.Linear(6, 5)
def double(): return nn.Linear(64, 5).double()
def conv(): return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.LazyLinear(3))
def colour(): return nn.Conv2d(3, 4, 3)
def words(): return nn.Sequential(nn.Embedding(23, 4), nn.Flatten(), nn.Linear(32 * 4, 3))
def nothing(): return nn.ReLU()
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.words.weight
    def forward(self, ids): return self.head(self.words(ids))
"""


@pytest.fixture
def mine(tmp_path):
    """The spec of a function in a file of small models."""
    (tmp_path / "mine.py").write_text(FILE)
    return lambda name: f"{tmp_path / 'mine.py'}:{name}"


@pytest.fixture
def fashion(tmp_path):
    """A folder with the two training files of a very small Fashion-MNIST."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (30, 28, 28), dtype=np.uint8)
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", (np.arange(30) % 10).astype(np.uint8))
    return tmp_path, images
