"""Multiply-adds of a layer are those that torch counts, operation by operation."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from sigmascope import survey
from sigmascope.models.layers import Call, multiply_adds

LAYERS = [
    (nn.Linear(5, 7), (3, 5)),
    (nn.Linear(5, 7, bias=False), (3, 4, 5)),
    (nn.Conv1d(4, 6, 3, padding=1), (2, 4, 9)),
    (nn.Conv2d(4, 6, (3, 2), stride=2, groups=2), (2, 4, 9, 8)),
    (nn.Conv2d(4, 4, 3, groups=4, dilation=2), (2, 4, 9, 8)),
    (nn.Conv3d(2, 3, 2), (2, 2, 4, 5, 6)),
    (nn.ConvTranspose2d(4, 6, 3, stride=2), (2, 4, 5, 6)),
    (nn.Embedding(9, 4), None),
]


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda x: str(x)[:30])
def test_they_are_those_that_torch_counts(layer, shape):
    x = torch.ones(3, 2, dtype=torch.long) if shape is None else torch.randn(shape)
    with FlopCounterMode(display=False) as counted:
        y = layer(x)
    assert multiply_adds(Call("a", layer, x, y, 0)) == counted.get_total_flops() // 2


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_recurrent_layer_uses_every_entry_at_every_step(kind):
    layer, x = kind(4, 6, num_layers=2, bidirectional=True), torch.randn(5, 3, 4)
    gates = {nn.RNN: 1, nn.LSTM: 4, nn.GRU: 3}[kind]
    first, second = 2 * gates * 6 * (4 + 6), 2 * gates * 6 * (12 + 6)
    assert multiply_adds(Call("a", layer, x, layer(x)[0], 0)) == 15 * (first + second)


@pytest.mark.parametrize("batch_first", [False, True])
def test_attention_of_a_sequence_with_itself_has_its_two_products(batch_first):
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first).eval()
    x = torch.randn((3, 5, 8) if batch_first else (5, 3, 8))
    with FlopCounterMode(display=False) as counted, torch.no_grad():
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            y, _ = layer(x, x, x)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    assert multiply_adds(Call("a", layer, x, y, 0)) == counted.get_total_flops() // 2


def test_of_a_layer_of_another_kind_nothing_is_claimed_but_a_plain_map_is_known():
    class Own(nn.Module):
        def __init__(self, *shape):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(*shape))

        def forward(self, x):
            return x @ self.weight

    own, x = Own(4, 6), torch.randn(3, 4)
    assert multiply_adds(Call("a", own, x, own(x), 0)) == 3 * 24
    odd = Own(2, 4, 6)
    assert multiply_adds(Call("a", odd, x, odd(x), 0)) is None


def test_a_profile_tells_shapes_and_sizes_of_its_layers():
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    first, second = survey.profile(net, torch.randn(5, 4)).layers
    assert (first.reads, first.writes, second.writes) == ((5, 4), (5, 6), (5, 2))
    assert (first.numbers, second.numbers) == (30, 14)
    assert (first.multiply_adds, second.multiply_adds) == (5 * 24, 5 * 12)
