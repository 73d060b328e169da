"""What a checkpoint holds comes into the model, or is refused by name: nothing is lost unsaid."""

import warnings

import pytest
import torch
from hypothesis import assume, given, strategies as st
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.sources import load_checkpoint

W = torch.linspace(-2, 2, 6).reshape(2, 3)


class Weight(nn.Module):
    def __init__(self, like=W, buffer=None):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros_like(like))
        if buffer is not None:
            self.register_buffer("mark", buffer)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight


def loaded(folder, state, model):
    torch.save(state, folder / "a.pt")
    return load_checkpoint(model, folder / "a.pt")


REFUSED = {
    "complex numbers": (torch.complex(W, W), W, "complex64, the model's float32.*imaginary part"),
    "an overflow": (W.double() * 1e30, W.half(), "6 of 6 entries beyond float16"),
    "an overflow of one": (W.double().index_fill(0, torch.tensor(0), 1e39), W, "3 of 6 entries be"),
    "an overflow of eight bits": (W * 1e4, W.to(torch.float8_e4m3fn), "float8_e4m3fn|beyond"),
    "too small": (W.double() * 1e-60, W, "too small for float32"),
    "integers": ((10 * W).long(), W, "int64, the model's float32.*quantised"),
    "eight bits": ((10 * W).to(torch.int8), W, "int8.*multiplied by their scale"),
    "signs": (W > 0, W, "bool, the model's float32"),
    "NaN": (torch.where(W > 1, torch.nan, W), W, "2 of 6 entries that are NaN"),
    "infinities": (torch.where(W > 1, torch.inf, W), W, "infinite"),
    "sparse": (W.to_sparse(), W, "to_dense"),
    "no numbers": (W.to("meta"), W, "meta device"),
}


@pytest.mark.parametrize(("kept", "own", "says"), REFUSED.values(), ids=REFUSED)
def test_what_would_be_lost_is_refused_by_name(tmp_path, kept, own, says):
    model = Weight(own)
    with pytest.raises(Refusal, match=f"(?s)`weight`.*({says})"):
        loaded(tmp_path, {"weight": kept}, model)
    assert not model.weight.detach().float().any()  # nothing was copied


@pytest.mark.parametrize(
    ("kept", "own", "says"),
    [
        (W.double() / 3, W, "1 tensor rounded from float64 to float32"),
        (W / 3, W.bfloat16(), "rounded from float32 to bfloat16"),
        (W.bfloat16(), W, "bfloat16 in the file, float32 here"),
        (torch.where(W < -1, 1e-30, W), W.half(), "to float16, 2 entries to zero"),
        (W, W, r"^from a.pt$"),
        (W, torch.complex(W, W), "float32 in the file, complex64 here"),
    ],
)
def test_rounding_is_said(tmp_path, kept, own, says):
    import re

    assert re.search(says, loaded(tmp_path, {"weight": kept}, Weight(own)))


@pytest.mark.parametrize(
    ("kept", "own"),
    [
        (torch.tensor(2.5), torch.tensor(0)),
        (torch.tensor(2**40), torch.tensor(0, dtype=torch.int32)),
        (torch.tensor(2**53 + 1), torch.tensor(0.0, dtype=torch.float64)),
        (torch.tensor(2), torch.tensor(True)),
    ],
)
def test_buffers_take_exact_values_only(tmp_path, kept, own):
    with pytest.raises(Refusal, match=r"`mark`.*cannot hold its values"):
        loaded(tmp_path, {"weight": W, "mark": kept}, Weight(buffer=own))


def test_a_mask_may_be_infinite_and_a_count_may_be_wider(tmp_path):
    mask = torch.full((3, 3), -torch.inf).triu(1)
    model = Weight(buffer=torch.zeros(3, 3))
    loaded(tmp_path, {"weight": W, "mark": mask}, model)
    assert torch.equal(model.mark, mask)
    count = Weight(buffer=torch.tensor(0))
    loaded(tmp_path, {"weight": W, "mark": torch.tensor(7, dtype=torch.int32)}, count)
    assert int(count.mark) == 7


def test_tied_weights_that_differ_in_the_file_are_refused(tmp_path):
    a, b = torch.ones(3, 3), torch.zeros(3, 3)
    with pytest.raises(Refusal, match=r"`a.weight` and `b.weight` are one tensor"):
        loaded(tmp_path, {"a.weight": a, "b.weight": b}, Tied())
    loaded(tmp_path, {"a.weight": a, "b.weight": a.clone()}, Tied())


def test_a_model_without_memory_is_refused(tmp_path):
    with pytest.raises(Refusal, match="meta device in the model"):
        loaded(tmp_path, {"weight": W}, Weight(W).to("meta"))


DTYPES = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
    torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool, torch.float8_e4m3fn,
)  # fmt: skip
FLOATING = tuple(d for d in DTYPES if d.is_floating_point or d.is_complex)


@given(
    st.sampled_from(DTYPES),
    st.sampled_from(FLOATING),
    st.integers(-70, 70),
    st.integers(0, 2**31),
    st.sampled_from([1.0, float("nan"), float("inf"), 0.0]),
)
def test_a_load_is_refused_or_keeps_every_number_to_rounding(
    tmp_path_factory, kept, own, power, seed, odd
):
    assume(kept is not torch.float8_e4m3fn or abs(power) < 8)
    g = torch.Generator().manual_seed(seed)
    value = torch.randn(3, 4, generator=g, dtype=torch.float64) * 2.0**power
    value[0, 0] *= odd
    if kept.is_complex:
        value = torch.complex(value, value.flip(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of casts in this test
        value = value.to(kept)
    model = Weight(torch.zeros(3, 4, dtype=own))
    try:
        loaded(tmp_path_factory.mktemp("cast"), {"weight": value}, model)
    except Refusal:
        return
    wide = torch.complex128
    before, after = value.to(wide), model.weight.detach().to(wide)
    assert bool(after.isfinite().all())
    off = float((after - before).norm() / before.norm()) if bool(before.any()) else 0.0
    assert off <= torch.finfo(own).eps
