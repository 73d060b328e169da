import pytest
import torch
from torch import nn

from sigmascope.linalg.spectra import counted
from sigmascope.probes import Subject, as_matrix, weights


def found(model):
    return {w.site: w for w in weights(model)}


def test_gates_are_split():
    lstm, gru = nn.LSTM(3, 5, num_layers=2), nn.GRUCell(3, 5)
    names = set(found(lstm))
    assert {f"weight_{a}_l{i}[{g}]" for a in ("ih", "hh") for i in (0, 1) for g in "ifgo"} == names
    torch.testing.assert_close(
        found(lstm)["weight_hh_l1[g]"].matrix, lstm.weight_hh_l1[10:15].detach()
    )
    assert set(found(gru)) == {f"weight_{a}[{g}]" for a in ("ih", "hh") for g in "rzn"}
    for gate, rows in zip(
        "rzn", gru.weight_ih.detach().chunk(3), strict=True
    ):  # reset, update, new
        torch.testing.assert_close(found(gru)[f"weight_ih[{gate}]"].matrix, rows)


def test_attention_is_split():
    names = set(found(nn.MultiheadAttention(4, 2)))
    assert names == {
        "in_proj_weight[q]",
        "in_proj_weight[k]",
        "in_proj_weight[v]",
        "out_proj.weight",
    }


def test_tied_weights_come_once():
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7, bias=False))
    model[1].weight = model[0].weight
    assert set(found(model)) == {"0.weight"}


def test_what_a_parametrisation_computes_is_read():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3), n_power_iterations=30)
    )
    assert set(found(model)) == {"0.weight"}
    before = {k: v.clone() for k, v in model.state_dict().items()}
    s = Subject(model, torch.randn(2, 4)).weights[0].spectrum()
    assert s.sigma[0] == pytest.approx(1, abs=1e-3)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_transposed_and_grouped_kernels_are_out_by_in():
    up = nn.ConvTranspose2d(4, 6, 2, groups=2)
    assert found(up)["weight"].shape == (6, 2 * 4)
    torch.testing.assert_close(
        found(up)["weight"].matrix[4, :4], up.weight[2, 1].flatten().detach()
    )
    assert found(nn.Conv2d(4, 6, 3, groups=2))["weight"].shape == (6, 18)


def test_a_parameter_of_no_layer_is_still_a_weight():
    class Placed(nn.Module):
        def __init__(self):
            super().__init__()
            self.place, self.inner = nn.Parameter(torch.randn(1, 5, 4)), nn.Linear(4, 2)

        def forward(self, x):
            return self.inner(x + self.place)

    assert found(Placed())["place"].shape == (5, 4)


def test_weights_as_maps_of_one_patch(as_users_see_it):
    assert as_matrix(torch.ones(3)).shape == (1, 3)
    assert as_matrix(torch.ones(3, 2)).shape == (3, 2)
    assert as_matrix(torch.ones(3, 2, 5, 5)).shape == (3, 50)


def test_singular_values_are_those_of_each_weight_and_solved_once():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(108, 6), nn.Linear(6, 6))
    subject = Subject(model, torch.randn(4, 2, 8, 8))
    with counted() as work:
        spectra = subject.weight_spectra
        once = work.operations
        assert subject.weight_spectra is spectra
    assert work.operations == once > 0
    assert [w.form for w, _ in spectra] == ["kernel", "matrix", "matrix"]
    for weight, s in spectra:
        torch.testing.assert_close(s.sigma, torch.linalg.svdvals(weight.matrix.double()))
        assert weight.spectrum() == s
