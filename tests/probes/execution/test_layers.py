import pytest
import torch
from torch import nn

from sigmascope.probes.execution.layers import channel_dim


@pytest.mark.parametrize(
    ("module", "shape", "dim"),
    [
        (nn.Conv2d(3, 4, 1), (2, 3, 5, 5), 1),
        (nn.BatchNorm1d(3), (2, 3), 1),
        (nn.BatchNorm1d(3), (2, 3, 7), 1),
        (nn.GroupNorm(1, 3), (2, 3, 7), 1),
        (nn.Linear(3, 4), (2, 7, 3), 2),
        (nn.LayerNorm(3), (2, 7, 3), 2),
    ],
)
def test_where_channels_stand(module, shape, dim):
    assert channel_dim(module, torch.ones(shape)) == dim
