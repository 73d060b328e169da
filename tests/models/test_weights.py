import sys

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from sigmascope.linalg.spectra import counted
from sigmascope.models import Subject, as_matrix, convolution_operator, weights
from sigmascope.models.weights import operator, patches, symbol
from tests.models_zoo import Net


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
    assert found(
        Net(
            lambda m, x: m.inner(x + m.place),
            place=nn.Parameter(torch.randn(1, 5, 4)),
            inner=nn.Linear(4, 2),
        )
    )["place"].shape == (5, 4)


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


# ------------------------------------------------------------------------------
# Convolutions as matrices, against the matrix found by applying them to every unit vector.


KINDS = {
    "plain": {"kernel_size": 3, "padding": 1},
    "strided": {"kernel_size": 3, "padding": 1, "stride": 2},
    "dilated": {"kernel_size": 3, "padding": 2, "dilation": 2},
    "grouped": {"kernel_size": 3, "padding": 1, "groups": 2},
    "rectangular": {"kernel_size": (3, 1), "padding": (1, 0), "stride": (1, 2)},
    "everything": {"kernel_size": 3, "padding": 2, "stride": 2, "dilation": 2, "groups": 2},
    "larger than the grid": {"kernel_size": 7, "padding": 3},
}


def dense(module, shape):
    """The matrix of a linear module, column by column."""
    n = torch.Size(shape).numel()
    with torch.no_grad():
        images = torch.eye(n, dtype=torch.float64).reshape(n, *shape)
        zero = module(torch.zeros(1, *shape, dtype=torch.float64))
        return (module(images) - zero).flatten(1).T


@pytest.mark.parametrize("kind", KINDS)
def test_symbol_has_the_singular_values_of_the_periodic_operator(kind):
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 6, padding_mode="circular", **KINDS[kind]).double()
    if kind == "larger than the grid":
        conv = nn.Conv2d(4, 6, 7, padding=3, padding_mode="circular").double()
    A = dense(conv, (4, 8, 6))
    expected = torch.linalg.svdvals(A)
    blocks = symbol(conv, grid=(8, 6))
    found = torch.linalg.svdvals(blocks).flatten().sort(descending=True).values
    torch.testing.assert_close(found[: len(expected)], expected, rtol=1e-9, atol=1e-9)
    assert found[len(expected) :].abs().sum() < 1e-8


def test_one_and_three_dimensions():
    torch.manual_seed(0)
    for conv, shape in (
        (nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), (2, 9)),
        (nn.Conv3d(2, 3, 3, padding=1, padding_mode="circular"), (2, 3, 4, 3)),
    ):
        expected = torch.linalg.svdvals(dense(conv.double(), shape))
        found = torch.linalg.svdvals(symbol(conv, grid=shape[1:])).flatten()
        torch.testing.assert_close(
            found.sort(descending=True).values, expected, atol=1e-9, rtol=1e-9
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transpose", [False, True])
def test_operator_is_the_convolution_and_its_adjoint(kind, transpose):
    torch.manual_seed(0)
    options = dict(KINDS[kind])
    if transpose:
        conv = nn.ConvTranspose2d(4, 6, output_padding=0, **options).double()
    else:
        conv = nn.Conv2d(4, 6, **options).double()
    A = dense(conv, (4, 8, 6))
    op = convolution_operator(conv, grid=(8, 6))
    assert op.shape == tuple(A.shape)
    torch.testing.assert_close(op.dense(), A)
    torch.testing.assert_close(op.adjoint(torch.eye(op.shape[0], dtype=torch.float64)), A.T)


def test_the_kernel_understates_the_norm_of_the_operator():
    """A constant kernel: the flattened kernel has norm 3, the operator has norm 9."""
    conv = nn.Conv2d(1, 1, 3, padding=1, bias=False)
    nn.init.ones_(conv.weight)
    model = nn.Sequential(conv, nn.Flatten(), nn.Linear(64, 2))
    found = {
        w.form: w.spectrum()
        for w in Subject(model, torch.randn(2, 1, 8, 8)).weights
        if w.site == "0.weight"
    }
    assert found["kernel"].sigma[0] == pytest.approx(3)
    assert found["operator"].sigma[0] == pytest.approx(9)
    assert found["operator"].how == "fft(periodic 8x8 grid)"


def test_transposed_operator_is_the_adjoint_of_the_convolution_with_its_kernel():
    torch.manual_seed(0)
    up = nn.ConvTranspose2d(4, 6, 2, stride=2, bias=False).double()
    model = nn.Sequential(up, nn.Flatten(), nn.LazyLinear(2)).double()
    x = torch.randn(2, 4, 3, 3).double()
    model(x)
    operator = next(w for w in Subject(model, x).weights if w.form == "operator")
    expected = torch.linalg.svdvals(dense(up, (4, 3, 3)))  # kernel 2, stride 2: nothing overlaps
    assert operator.shape == (6 * 36, 4 * 9)
    torch.testing.assert_close(
        operator.spectrum().sigma[: len(expected)], expected, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("kind", KINDS)
def test_patches_times_kernel_is_the_convolution(kind):
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 6, bias=False, **KINDS[kind])
    x = torch.randn(3, 4, 8, 6)
    W = conv.weight.reshape(conv.groups, 6 // conv.groups, -1)
    torch.testing.assert_close((W @ patches(conv, x)).flatten(1, 2), conv(x).flatten(2))


def test_a_convolution_too_dear_is_left_out_and_said_so(monkeypatch):
    from sigmascope import survey

    monkeypatch.setattr(sys.modules["sigmascope.models.weights"], "OPERATOR_WORK", 1.0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 2))
    measured = survey.profile(model, torch.randn(2, 1, 8, 8), views=["weights"])
    assert {r.form for r in measured.readings} == {"kernel", "matrix"}
    assert [s.site for s in measured.skipped if s.what == "operator"] == ["0.weight"]


def test_of_a_small_residual_network_only_the_first_stage_is_seen_as_operators():
    """Twice the channels on half the side cost twice as much (He et al. 2016, Sec. 4.2)."""
    seen = {
        channels: operator(nn.Conv2d(channels, channels, 3, padding=1), site="", size=(side, side))
        for channels, side in ((64, 32), (128, 16))
    }
    assert seen[64] is not None
    assert seen[128] is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_half_of_the_frequencies_say_what_all_of_them_do(data):
    draw = lambda *a: data.draw(st.integers(*a))
    spatial = draw(1, 3)
    sizes = lambda *a: tuple(draw(*a) for _ in range(spatial))
    groups, stride = draw(1, 2), sizes(1, 3)
    kind = f"Conv{'Transpose' * data.draw(st.booleans())}{spatial}d"
    how = {"stride": stride, "dilation": sizes(1, 2), "groups": groups}
    module = getattr(nn, kind)(groups * draw(1, 2), groups * draw(1, 3), sizes(1, 3), **how)
    grid = tuple(s * draw(1, 4) for s in stride)
    found = operator(module, site="weight", size=grid)
    all_of_them = torch.linalg.svdvals(found.matrix).flatten().sort(descending=True).values
    assert torch.allclose(found.spectrum().sigma, all_of_them, rtol=0, atol=1e-13)
