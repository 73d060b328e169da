import pytest
import torch
from torch import nn

from sigmascope.probes import OUTPUT, Subject
from sigmascope.probes.samples import rows, samples_first, spectra_of


def test_images_have_a_row_per_sample_and_a_row_per_pixel():
    x = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    both = rows(x, channels=1, count=2)
    assert torch.equal(both.samples, x.flatten(1))
    assert both.channels.shape == (40, 3)
    assert torch.equal(both.channels[7], x[0, :, 1, 2])


def test_flat_features_have_one_form_only():
    both = rows(torch.ones(4, 3), channels=1, count=4)
    assert set(both.forms()) == {"samples"}
    assert rows(torch.ones(4), channels=0, count=4).samples.shape == (4, 1)


@pytest.mark.parametrize(
    ("shape", "batch_dim", "expected"),
    [
        ((4, 7, 3), 0, (4, 7, 3)),
        ((7, 4, 3), 0, (4, 7, 3)),  # sequence first
        ((4, 4, 3), 1, (4, 4, 3)),
        ((12, 5), 0, (4, 3, 5)),  # windows folded into the batch
        ((7, 4), 0, (4, 7)),
        ((5, 8, 4), 0, None),  # the last dimension counts features
        ((5,), 0, None),
    ],
)
def test_samples_are_found(shape, batch_dim, expected):
    found = samples_first(torch.zeros(shape), count=4, batch_dim=batch_dim)
    assert (None if found is None else tuple(found.shape)) == expected


def test_a_representation_is_what_the_layer_reads():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True), nn.Linear(5, 2))
    x = torch.randn(4, 3)
    subject = Subject(model, x)
    with torch.no_grad():
        z = model[0](x)
    assert list(subject.activations) == ["0", "2", OUTPUT]
    assert torch.equal(subject.activations["0"].samples, x)
    assert torch.equal(subject.activations["2"].samples, z.relu())
    assert torch.equal(subject.preactivations["0"].samples, z)  # not what ReLU overwrote
    assert torch.equal(subject.activations[OUTPUT].samples, subject.output)


def test_an_input_overwritten_in_place_is_read_before():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            x = self.first(x)
            x += self.second(x)
            return x

    torch.manual_seed(0)
    model, x = Adds(), torch.randn(4, 3)
    with torch.no_grad():
        expected = model.first(x)
    assert torch.equal(Subject(model, x).activations["second"].samples, expected)


def test_squares_of_a_representation_neither_overflow_nor_vanish():
    wide = torch.tensor([[1e150, 1e-150]], dtype=torch.float64)
    assert spectra_of([wide])[0].mean_square == pytest.approx(5e299)
    assert spectra_of([torch.tensor([[3.0, 4.0]])])[0].mean_square == pytest.approx(12.5)
    assert spectra_of([torch.zeros(2, 2)])[0].mean_square == 0


def test_the_centred_spectrum_is_that_of_rows_less_their_mean():
    rows = torch.tensor([[1.0, 5.0], [3.0, 5.0]]).double()
    found = spectra_of([rows])[0]
    assert found.centred.sigma.tolist() == pytest.approx([2**0.5, 0], abs=1e-7)
    assert found.raw.sigma.square().sum().item() == pytest.approx(60)
    assert found.precision == 2.0**-52


def test_matrices_of_any_shapes_come_back_in_their_order():
    g = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (5, 3), (2, 7), (5, 3), (1, 1), (600, 600), (600, 600)]
    matrices = [torch.randn(shape, generator=g) + i for i, shape in enumerate(shapes)]
    for matrix, found in zip(matrices, spectra_of(matrices), strict=True):
        A = matrix.double()
        for one, of in ((found.raw, A), (found.centred, A - A.mean(0))):
            assert one.shape == tuple(A.shape)
            sigma = torch.linalg.svdvals(of)
            assert bool((one.low <= sigma + 1e-9).all())
            assert bool((sigma <= one.high + 1e-9).all())
        assert found.mean_square == pytest.approx(float(A.square().mean()))
    assert spectra_of([]) == ()
