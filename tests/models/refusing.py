"""A model that some ways of watching do not survive."""

from torch import nn


class Refuses(nn.Module):
    """Reads numbers in a way that no tape and no mode allows."""

    def __init__(self, fails):
        super().__init__()
        self.layer, self.head, self.fails = nn.Linear(4, 5), nn.Linear(5, 2), fails

    def forward(self, x):
        if self.fails():
            raise RuntimeError("not here")
        return self.head(self.layer(x).sigmoid())
