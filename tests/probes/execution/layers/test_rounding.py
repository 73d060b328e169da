import pytest
import torch
from torch.nn import functional as F
from zoo import fresh

from sigmascope.probes.execution.layers import rounding

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("width", [3, 64, 1024, 8192])
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_within_it_of_the_sum_of_their_sizes(dtype, width):
    x, W, b = (torch.randn(*s, generator=fresh()).to(dtype) for s in ((9, width), (8, width), (8,)))
    exact = F.linear(x.double(), W.double(), b.double())
    sizes = F.linear(x.double().abs(), W.double().abs(), b.double().abs())
    assert ((F.linear(x, W, b).double() - exact).abs() <= rounding(dtype, width + 2) * sizes).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_number_of_steps_that_a_layer_has_lets_anything_pass(dtype):
    assert rounding(dtype, 64 * 8192**0.5) < 0.1
