import pytest
import torch
from torch.nn import functional as F

from sigmascope import sources
from sigmascope.networks import mlp


@pytest.fixture(scope="module")
def trained():
    data = sources.open_data("digits", samples=1500)
    g = torch.Generator().manual_seed(0)
    model = mlp(inputs=64, outputs=10, depth=3, width=96, generator=g)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    x, y = data.inputs.float(), data.targets
    for _ in range(200):
        rows = torch.randint(1000, (64,), generator=g)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return model, x, y
