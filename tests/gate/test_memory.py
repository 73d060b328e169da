"""A tensor is a plain array of numbers, or is refused by what it is instead."""

import pytest
import torch

from sigmascope import gate

ODD = {
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
    "layout torch.sparse_coo": lambda: torch.eye(3).to_sparse(),
    "layout torch.sparse_csr": lambda: torch.eye(3).to_sparse_csr(),
    "meta device": lambda: torch.ones(3, device="meta"),
    "of which torch computes nothing": lambda: torch.zeros(4, dtype=torch.uint8).view(
        torch.float4_e2m1fn_x2
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR")  # torch, of itself
@pytest.mark.parametrize("says", ODD)
def test_what_is_no_array_is_refused_by_its_kind(says):
    with pytest.raises(gate.Refusal, match=rf"^It must be a dense tensor, got .*{says}"):
        gate.require_dense(ODD[says](), "It")


def test_more_numbers_than_fit_are_refused():
    with gate.memory("1GB"), pytest.raises(gate.Refusal, match="more of memory"):
        gate.require_dense(torch.ones(1).expand(2**40), "It")


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.bool]
)
def test_arrays_of_any_number_pass(dtype):
    gate.require_dense(torch.ones(2, 3).to(dtype).T, "It")
    gate.require_dense(torch.zeros(0, 3, dtype=dtype), "It")
