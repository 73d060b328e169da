"""The operator of a convolution is that of the layer with circular padding, written out."""

import pytest
import torch
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.records import Reading, Skipped
from sigmascope.records.scans import Matrix
from sigmascope.scanning import scan
from sigmascope.scanning.measuring import QUANTITIES, operator_items, operator_spectrum

G = torch.Generator().manual_seed(0)
MATRIX = Matrix("c.weight", "convolution", 0, 3, 18, "float32", ("c.weight",), 1, "full", 1.0)


def dense(kernel, grid):
    """The matrix of the circular convolution, by its taps."""
    out, inner, *taps = kernel.shape
    points = list(torch.cartesian_prod(*[torch.arange(grid)] * len(taps)).reshape(-1, len(taps)))
    place = {tuple(p.tolist()): i for i, p in enumerate(points)}
    M = torch.zeros(out, len(points), inner, len(points), dtype=torch.float64)
    for i, p in enumerate(points):
        for tap in torch.cartesian_prod(*[torch.arange(t) for t in taps]).reshape(-1, len(taps)):
            j = place[tuple(((p + tap) % grid).tolist())]
            M[:, i, :, j] += kernel[(slice(None), slice(None), *tap)].double()
    return M.reshape(out * len(points), -1)


@pytest.mark.parametrize(
    ("shape", "grid"), [((3, 2, 3, 3), 5), ((2, 4, 3, 3), 2), ((3, 2, 4), 6), ((2, 1, 1, 1), 3)]
)
def test_singular_values_are_those_of_the_operator_written_out(shape, grid):
    kernel = torch.randn(shape, generator=G)
    if shape[1] == 1:
        kernel = torch.cat([kernel, kernel], dim=1)
    ours, theirs = operator_spectrum(kernel, grid), torch.linalg.svdvals(dense(kernel, grid))
    points = grid ** (len(shape) - 2)
    assert ours.shape == (shape[0] * points, kernel.shape[1] * points)
    assert torch.allclose(ours.sigma, theirs, atol=1e-12)
    assert (ours.low <= theirs + 1e-14).all()
    assert (theirs <= ours.high + 1e-14).all()


def test_one_input_for_each_output_is_depthwise():
    layer = nn.Conv2d(4, 4, 3, groups=4, padding=1, padding_mode="circular", bias=False)
    x = torch.eye(4 * 36).reshape(-1, 4, 6, 6)
    M = layer(x).detach().flatten(1).double()
    found = operator_spectrum(layer.weight.detach(), 6)
    assert torch.allclose(found.sigma, torch.linalg.svdvals(M), atol=1e-6)
    assert found.complete


def test_what_is_read_of_it_and_what_is_too_dear():
    kernel = torch.randn(3, 2, 3, 3, generator=G)
    found = {r.quantity: r for r in operator_items(MATRIX, kernel, 8)}
    assert found["spectral norm"].form == "operator"
    assert "periodic 8x8 grid, stride 1" in found["spectral norm"].estimate.how
    assert set(found) == set(QUANTITIES)
    (dear,) = operator_items(MATRIX, kernel, 10**6)
    assert isinstance(dear, Skipped)
    assert "smaller grid" in dear.why
    zero = list(operator_items(MATRIX, torch.zeros(3, 2, 3, 3), 4))
    named = [item.quantity if isinstance(item, Reading) else "" for item in zero]
    assert named == ["spectral norm", "Frobenius norm", ""]


def test_a_scan_with_a_grid_reads_kernels_as_operators_too():
    weights = {"conv.weight": torch.randn(3, 2, 3, 3, generator=G), "fc.weight": torch.eye(9)}
    found = scan(weights, grid=6)
    forms = {(r.site, r.form) for r in found.series("spectral norm")}
    assert forms == {
        ("conv.weight", "kernel"), ("conv.weight", "operator"), ("fc.weight", "matrix"),
    }  # fmt: skip
    assert {r.form for r in scan(weights).readings} == {"kernel", "matrix"}
    with pytest.raises(Refusal, match="0 to 4096 points"):
        scan(weights, grid=-1)
