"""A command line in a folder of its own."""

import sys

import pytest

from sigmascope import cli

MINE = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def build(): return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 6), nn.Linear(6, 3)
    def forward(self, ids, features):
        return {"logits": self.out(self.words(ids).mean(1) + features)}

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(6, 5), nn.Linear(5, 3)
    def forward(self, x): return self.out(self.cells(x)[0][-1])

class Decoder(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 8), nn.Unflatten(1, (2, 2, 2)), nn.ConvTranspose2d(2, 1, 2))

def batch(): return torch.randn(8, 6), torch.arange(8) % 3
def loader(): return DataLoader(TensorDataset(*batch()), batch_size=4, shuffle=True)
def named():
    ids, features = torch.randint(9, (8, 4)), torch.randn(8, 6)
    return {"ids": ids, "features": features, "labels": torch.arange(8) % 3}
def series(): return torch.randn(8, 11, 6), torch.arange(8) % 3
def images(): return torch.randn(8, 6), torch.randn(8, 1, 3, 3)
def classes(): return torch.randn(8, 1, 5, 5), torch.arange(8 * 25).reshape(8, 5, 5) % 3
def segment(): return nn.Conv2d(1, 3, 3, padding=1)
"""


@pytest.fixture
def sigmascope(monkeypatch, capsys, tmp_path, as_users_see_it):
    """Run a command line in a folder with a space in its name; exit code, output, remarks."""
    home = tmp_path / "my models"
    home.mkdir()
    (home / "mine.py").write_text(MINE)
    monkeypatch.chdir(home)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["sigmascope", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return run
