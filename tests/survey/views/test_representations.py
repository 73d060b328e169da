import pytest
import torch
from torch import nn

from sigmascope import survey
from sigmascope.models.networks import mlp


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), torch.randn(8, 4)


def test_the_float32_formula_underflows_and_ours_does_not():
    """32 default layers without bias on normal input: 1.02-1.03, where float32 has nan."""
    model = mlp(
        inputs=128,
        outputs=10,
        depth=32,
        width=128,
        bias=False,
        generator=torch.Generator().manual_seed(1),
    )
    x = torch.randn(128, 128, generator=torch.Generator().manual_seed(2))
    H = x
    with torch.no_grad():
        for block in model.hidden:
            H = block(H)
    M = H.T @ H / len(H)
    assert not (M.trace() ** 2 / M.square().sum()).isfinite()
    measured = survey.profile(model, x, views=["representations"])
    last = next(r for r in measured.series("participation ratio") if r.site == "readout")
    assert 1.01 < last.estimate.value < 1.04
    assert last.estimate.high - last.estimate.low < 1e-9


def test_overflow_inside_is_read_not_raised():
    model, x = small()
    with torch.no_grad():
        model[0].weight.fill_(3e38)
    measured = survey.profile(model, x.abs() + 1)
    assert measured.series("non-finite entries")[0].site == "2"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_relative_variation_is_known_up_to_four_roundings_both_ways(dtype):
    model, x = small()
    measured = survey.profile(model.to(dtype), x.to(dtype), views=["representations"])
    for r in measured.series("relative variation", form="samples"):
        e, noise = r.estimate, 4 * torch.finfo(dtype).eps
        assert e.high - e.value == pytest.approx(noise, rel=1e-6)
        assert e.value - e.low == pytest.approx(noise, rel=1e-6)
