"""A model that has its batch size written into it is asked with that."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sigmascope.diagnosis.programs.opened import opened
from sigmascope.diagnosis.programs.program import Program

X, Y = torch.randn(320, 6), torch.randint(0, 3, (320,))


class Rows(nn.Module):
    """Takes so many samples at once, and no other number."""

    def __init__(self, rows):
        super().__init__()
        self.rows, self.layer = rows, nn.Linear(6, 3)

    def forward(self, x):
        return self.layer(x).view(self.rows, 3)


@pytest.mark.parametrize(
    ("rows", "data", "size"),
    [
        (32, (X, Y), None),  # the usual size
        (20, (X, Y), 20),
        (20, DataLoader(TensorDataset(X, Y), batch_size=20), None),
        (320, (X, Y), 320),  # all at once, as the nodes of a graph
    ],
)
def test_as_many_samples_are_taken_as_the_user_takes_at_once(rows, data, size):
    known = opened(Program(Rows(rows), data, batch_size=size), samples=128)
    assert len(known.batch) == rows
    assert known.targets is not None
    assert len(known.targets) == rows
