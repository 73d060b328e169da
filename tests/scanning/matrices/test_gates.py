"""Gates of recurrent layers are named as the library names them in a model."""

import pytest
import torch
from torch import nn

from sigmascope.probes.weights import GATES
from sigmascope.scanning.matrices import NAMES
from tests.scanning.cut_out import matrices, words


def test_the_names_are_those_of_a_model():
    assert {*map("".join, NAMES.values())} == {"", *GATES.values()}


@pytest.mark.parametrize(
    ("layer", "gates"),
    [
        (nn.LSTM(6, 5, 2, bidirectional=True), "ifgo"),
        (nn.GRU(6, 5, 2), "rzn"),
        (nn.LSTM(6, 8, proj_size=4), "ifgo"),
        (nn.LSTMCell(6, 5), "ifgo"),
        (nn.GRUCell(15, 5), "rzn"),
    ],
)
def test_every_gate_is_a_matrix(layer, gates):
    cut = matrices(nn.ModuleDict({"rnn": layer}))
    for name, weight in layer.named_parameters():
        if not name.startswith(("weight_ih", "weight_hh")):
            continue
        for gate, truth in zip(gates, weight.chunk(len(gates)), strict=True):
            assert torch.equal(cut[f"rnn.{name}[{gate}]"], truth)
        assert f"rnn.{name}" not in cut


def test_a_plain_recurrent_layer_has_one_matrix():
    assert [*matrices(nn.RNN(3, 4))] == ["weight_ih_l0", "weight_hh_l0"]


def test_gates_that_cannot_be_told_are_measured_whole_and_it_is_said():
    alone = {"weight_ih_l0": torch.randn(12, 3)}
    assert [*matrices(alone)] == ["weight_ih_l0"]
    assert "state is not beside it" in words(alone)["weight_ih_l0"]
    odd = {"weight_ih_l0": torch.randn(10, 3), "weight_hh_l0": torch.randn(10, 4)}
    assert "10 outputs are no gates of 4 units" in words(odd)["weight_ih_l0"]
    two = {"weight_ih_l0": torch.randn(8, 3), "weight_hh_l0": torch.randn(8, 4)}
    assert "no gates of 4" in words(two)["weight_hh_l0"]
