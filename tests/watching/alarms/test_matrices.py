"""What trained matrices are in their model, and which optimizers are meant to be Muon."""

import pytest
import torch
from torch import nn

from sigmascope.watching.alarms.matrices import trained_matrices
from tests.watching.made import stack


class Words(nn.Module):
    """An embedding, a hidden layer and a readout."""

    def __init__(self):
        super().__init__()
        self.words, self.hidden = nn.Embedding(50, 8), nn.Linear(8, 8)
        self.norm, self.readout = nn.LayerNorm(8), nn.Linear(8, 50)

    def forward(self, x):
        return self.readout(self.norm(torch.relu(self.hidden(self.words(x)))))


def matrices(model):
    return [p for p in model.parameters() if p.ndim == 2]


def test_roles_are_those_of_the_model_and_vectors_are_none():
    model = Words()
    found = trained_matrices(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    roles = {name: m.role for name, m in found.items()}
    assert roles == {"words.weight": "embedding", "hidden.weight": "", "readout.weight": "readout"}
    assert not any(m.meant for m in found.values())


def test_a_readout_that_is_the_embedding_is_an_embedding_and_no_hidden_layer_a_readout():
    model = Words()
    model.readout.weight = model.words.weight
    found = trained_matrices(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    assert {n: m.role for n, m in found.items()} == {
        "words.weight": "embedding",
        "hidden.weight": "",
    }


def test_what_no_optimizer_trains_is_not_there():
    model = stack(5, 6, 3)
    assert [*trained_matrices(model, [torch.optim.SGD(model[0].parameters(), lr=0.1)])] == [
        "0.weight"
    ]


class Muonlike(torch.optim.SGD):
    """A name that says what it is meant to be."""


def test_muon_is_told_by_its_name_its_flag_or_its_steps():
    model = stack(5, 6, 3)
    a, b = matrices(model)
    rest = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": [a], "use_muon": True}, {"params": [b, *rest], "use_muon": False}]
    muon = torch.optim.Muon([a], ns_steps=3)
    for optimizers, meant, steps in (
        ([muon, torch.optim.Adam([b])], (True, False), (3, None)),
        ([Muonlike([a, b], lr=0.1)], (True, True), (None, None)),
        ([Muonlike(groups, lr=0.1)], (True, False), (None, None)),
        ([torch.optim.SGD(groups, lr=0.1)], (True, False), (None, None)),
        ([torch.optim.SGD([{"params": [a], "ns_steps": 2}], lr=0.1)], (True,), (2,)),
    ):
        found = trained_matrices(model, optimizers)
        assert tuple(m.meant for m in found.values()) == meant
        assert tuple(m.steps for m in found.values()) == steps


def test_one_row_is_a_vector_where_muon_of_torch_trains_it():
    model = stack(5, 6, 1)
    found = trained_matrices(model, [torch.optim.Muon(matrices(model))])
    assert found["2.weight"].role == "vector"
    assert "2.weight" not in trained_matrices(model, [Muonlike(matrices(model), lr=0.1)])


@pytest.mark.parametrize("shape", [(200, 200), (400, 100), (100, 400)])
def test_noise_has_the_stable_rank_of_noise(shape):
    torch.manual_seed(0)
    layer = nn.Linear(shape[1], shape[0], bias=False)
    found = trained_matrices(layer, [torch.optim.SGD(layer.parameters(), lr=0.1)])["weight"]
    s = torch.linalg.svdvals(torch.randn(shape))
    assert found.side == min(shape)
    assert found.of_noise == pytest.approx(float(s.square().sum() / s[0] ** 2), rel=0.06)
