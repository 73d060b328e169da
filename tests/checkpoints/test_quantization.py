import json

import pytest
import torch

from sigmascope.checkpoints import open_checkpoint
from sigmascope.checkpoints.arrays import InMemory
from sigmascope.checkpoints.quantization import assembled, bits_of, block_of
from sigmascope.core.guard import Refusal
from tests.checkpoints.checks import by_name, numbers, opens, raw_names, reads

# Every packing here is written by loops from the published layout, not by the code under test.


def words(codes, bits, order=None):
    """Codes `[n, m]` packed down each column into words of 32 bits, the lowest bits first."""
    n, m = codes.shape
    packed = []
    for column in range(m):
        stream = 0
        for k in range(n):
            group, place = divmod(k, 32 // bits) if order else (0, k)
            code = int(
                codes[group * len(order) + order[place], column] if order else codes[k, column]
            )
            stream |= code << bits * (group * (32 // bits) + place)
        count = -(-n * bits // 32)
        packed.append([(stream >> 32 * w) & 0xFFFFFFFF for w in range(count)])
    signed = torch.tensor(packed, dtype=torch.int64).T
    return torch.where(signed >= 1 << 31, signed - (1 << 32), signed).int().contiguous()


def draw(high, *shape, seed=1):
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


def gptq(out, inner, *, bits=4, groups=2, added=1, acts=True, name="x.", low=1):
    codes, zeros = draw(1 << bits, inner, out), draw((1 << bits) - low, groups, out, seed=2) + low
    scales = numbers(groups, out).half()
    g_idx = draw(groups, inner, seed=3).int()
    g_idx[0], g_idx[-1] = 0, groups - 1
    g_idx = g_idx if acts else (torch.arange(inner) // (inner // groups)).int()
    state = {
        f"{name}qweight": words(codes, bits),
        f"{name}qzeros": words((zeros - added).T % (1 << bits), bits).T.contiguous(),
        f"{name}scales": scales,
    }
    if acts:
        state[f"{name}g_idx"] = g_idx
    want = scales.float()[g_idx.long()] * (codes - zeros[g_idx.long()])
    return state, want.T.contiguous()


def awq(out, inner, groups=2, name="y."):
    codes, zeros = draw(16, inner, out), draw(16, groups, out, seed=2)
    scales = numbers(groups, out).half()
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    state = {
        f"{name}qweight": words(codes.T, 4, order).T.contiguous(),
        f"{name}qzeros": words(zeros.T, 4, order).T.contiguous(),
        f"{name}scales": scales,
    }
    group = torch.arange(inner) // (inner // groups)
    return state, (scales.float()[group] * (codes - zeros[group])).T.contiguous()


def four_bits(rows, columns, *, nested=True, kind="nf4", name="z.weight", block=16):
    codes, table = draw(16, rows * columns), torch.linspace(-1, 1, 16) ** 3
    count = rows * columns // block
    sizes = numbers(count).abs()
    fields = {"quant_type": kind, "blocksize": block, "dtype": "float16", "shape": [rows, columns]}
    state = {
        name: (codes[::2] * 16 + codes[1::2]).to(torch.uint8)[:, None],
        f"{name}.quant_map": table,
    }
    if nested:
        inner, scales = draw(256, count), torch.linspace(-1, 1, 256)
        fields |= {"nested_blocksize": 4, "nested_dtype": "float32", "nested_offset": 0.75}
        outer = numbers(-(-count // 4)).abs()
        sizes = scales[inner] * outer[torch.arange(count) // 4] + 0.75
        state |= {f"{name}.absmax": inner.to(torch.uint8), f"{name}.nested_absmax": outer}
        state[f"{name}.nested_quant_map"] = scales
    else:
        state[f"{name}.absmax"] = sizes
    text = json.dumps(fields).encode()
    state[f"{name}.quant_state.bitsandbytes__{kind}"] = torch.tensor(list(text), dtype=torch.uint8)
    want = table[codes] * sizes[torch.arange(rows * columns) // block]
    return state, want.reshape(rows, columns)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("acts", [True, False])
def test_gptq_reads_by_its_definition(bits, acts):
    state, want = gptq(32, 64, bits=bits, acts=acts)
    found = opens(state, {"x.weight": want}, names=state)
    assert by_name(found)["x.weight"].dtype == f"int{bits} (GPTQ)"


def config(**settings):
    return {"quantization_config": settings}


def made(state, settings):
    return assembled({n: InMemory(t) for n, t in state.items()}, settings)


@pytest.mark.parametrize(("added", "layout"), [(0, "gptq_v2"), (1, "gptq"), (1, "")])
def test_zeros_of_gptq_are_stored_less_one_and_of_its_second_version_as_they_are(added, layout):
    state, want = gptq(8, 64, added=added, low=0)  # a zero that is stored less one wraps around
    (tensor,), left = made(state, config(quant_method="gptq", checkpoint_format=layout))
    assert not left
    reads(tensor, want)


@pytest.mark.parametrize("groups", [1, 2, 3, 24])
def test_awq_reads_by_its_definition(groups):
    state, want = awq(16, 24, groups)
    found = opens(state, {"y.weight": want}, names=state)
    assert by_name(found)["y.weight"].dtype == "int4 (AWQ)"


@pytest.mark.parametrize("layout", ["marlin", "gemv", "exllama\x1b"])
def test_layouts_that_are_not_known_are_left_out(layout):
    state, _ = gptq(8, 64)
    tensors, left = made(state, config(checkpoint_format=layout))
    assert not tensors
    assert sorted(e.name for e in left) == sorted(state)
    assert "is not known" in left[0].why
    assert left[0].why.isprintable()


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_four_bits_of_bitsandbytes_read_by_their_definition(nested, kind):
    state, want = four_bits(6, 16, nested=nested, kind=kind)
    found = open_checkpoint(state)
    assert raw_names(found) == sorted(state)
    (tensor,) = found.tensors
    assert (tensor.name, tensor.dtype) == ("z.weight", f"{kind} (bitsandbytes)")
    assert torch.allclose(tensor.read(), want, atol=1e-6)
    reads(tensor, tensor.read())


def test_rows_of_eight_bits_of_bitsandbytes_read_by_their_definition():
    codes, scales = (draw(255, 5, 7) - 127).to(torch.int8), numbers(5).abs()
    state = {"w.weight": codes, "w.SCB": scales}
    state["w.weight_format"] = torch.tensor(0, dtype=torch.uint8)
    found = opens(state, {"w.weight": codes.float() * (scales / 127)[:, None]}, names=state)
    assert by_name(found)["w.weight"].dtype == "int8 (bitsandbytes)"


def test_scales_of_blocks_are_deepseek_s():
    codes, scales = numbers(200, 300).to(torch.float8_e4m3fn), numbers(2, 3).abs()
    spread = scales.repeat_interleave(128, 0)[:200].repeat_interleave(128, 1)[:, :300]
    state = {"a.weight_scale_inv": scales, "a.weight": codes}
    found = opens(state, {"a.weight": codes.float() * spread}, names=state)
    assert found.tensors[0].dtype == "float8_e4m3fn (scaled)"


def test_the_configuration_names_other_blocks():
    codes, scales = numbers(8, 12).to(torch.float8_e4m3fn), numbers(2, 3)
    state = {"a.weight": codes, "a.weight_scale_inv": scales}
    (tensor,), _ = made(state, config(weight_block_size=[4, 4]))
    reads(tensor, codes.float() * scales.repeat_interleave(4, 0).repeat_interleave(4, 1))


@pytest.mark.parametrize("shape", [(), (1,), (6, 1), (6,), (1, 8), (6, 2)])
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.int8])
def test_scales_of_all_of_rows_and_of_groups_are_compressed_tensors(shape, kind):
    codes, scales = (10 * numbers(6, 8)).to(kind), numbers(*shape, dtype=torch.bfloat16)
    spread = scales.float()[:, None] if shape == (6,) else scales.float()
    spread = spread.repeat_interleave(4, 1) if shape == (6, 2) else spread
    state = {"a.weight": codes, "a.weight_scale": scales, "a.input_scale": torch.tensor(2.0)}
    opens(
        state, {"a.weight": codes.float() * spread, "a.input_scale": torch.tensor(2.0)}, names=state
    )


def test_codes_of_zero_are_taken_off():
    codes, scales, zeros = (
        draw(99, 6, 8).to(torch.int8),
        numbers(6, 1),
        draw(9, 6, 1).to(torch.int8),
    )
    state = {"a.weight": codes, "a.weight_scale": scales, "a.weight_zero_point": zeros}
    opens(state, {"a.weight": (codes.float() - zeros) * scales}, names=state)


def test_experts_have_scales_of_their_own():
    codes = numbers(3, 6, 8).to(torch.float8_e4m3fn)
    for shape in ((3, 1, 8), (3, 6, 1), (3, 6), (3, 1, 1)):
        scales = numbers(*shape)
        spread = scales[..., None] if shape == (3, 6) else scales
        state = {"e.gate_up_proj": codes, "e.gate_up_proj_scale": scales}
        opens(state, {"e.gate_up_proj": codes.float() * spread}, names=state)


def test_whole_numbers_are_left_out_with_their_reason():
    kinds = (torch.int8, torch.uint8, torch.int64, torch.bool, torch.uint16, torch.complex64)
    state = {str(kind): torch.ones(2, 2).to(kind) for kind in kinds}
    why = {e.name: e.why for e in open_checkpoint(state).left_out}
    assert why["torch.int8"].startswith("int8 without scales")
    assert why["torch.bool"] == "bool: a mask, not weights."
    assert why["torch.uint16"].startswith("uint16: whole numbers")
    assert why["torch.complex64"].startswith("complex64: complex numbers")
    assert len(why) == len(kinds)


@pytest.mark.parametrize(
    ("codes", "scales"),
    [
        ("a.weight", "a.weight_scale"),
        ("a.weight", "a.weight_scale_2"),
        ("a.weight_packed", "a.weight_scale"),
        ("a.weight_packed", "a.weight_global_scale"),
        ("a.weight_packed", "a.weight_zero_point"),
        ("e.down_proj_blocks", "e.down_proj_scales"),
    ],
)
def test_scales_of_codes_that_are_not_read_are_no_weights(codes, scales):
    state = {codes: torch.ones(4, 2, dtype=torch.uint8), scales: numbers(4, 2)}
    state |= {"logit_scale": torch.tensor(2.0), "b.weight_scale": numbers(3)}
    found = open_checkpoint(state)
    assert [t.name for t in found.tensors] == ["logit_scale", "b.weight_scale"]
    assert raw_names(found) == sorted(state)
    assert any(e.why == f"Scales of `{codes}`, whose codes cannot be read." for e in found.left_out)


@pytest.mark.parametrize("scale", ["a.scale", "a.scale_weight"])
def test_scales_beside_a_weight_are_its_own(scale):
    state = {"a.weight": numbers(4, 2).to(torch.float8_e4m3fn), scale: torch.tensor(0.5)}
    opens(state, {"a.weight": state["a.weight"].float() / 2}, names=state)


def test_two_numbers_in_a_byte_are_left_out():
    kind = getattr(torch, "float4_e2m1fn_x2", None)
    if kind is None:
        pytest.skip("this torch has no such kind")
    found = open_checkpoint({"w": torch.zeros(2, 2, dtype=torch.uint8).view(kind)})
    assert "packed numbers" in found.left_out[0].why


@pytest.mark.parametrize(
    ("shape", "scales", "block"),
    [
        ((6, 8), (), (6, 8)),
        ((6, 8), (6,), (1, 8)),
        ((6, 8), (6, 1), (1, 8)),
        ((6, 8), (1, 8), (6, 1)),
        ((6, 8), (6, 4), (1, 2)),
        ((6, 8), (8,), None),
        ((6, 8), (5, 1), None),
        ((300, 200), (3, 2), (128, 128)),
        ((2, 300, 200), (2, 3, 2), (128, 128)),
        ((2, 6, 8), (2,), (6, 8)),
        ((6,), (6,), (1,)),
        ((0, 8), (3, 3), None),
    ],
)
def test_blocks_are_told_by_shapes(shape, scales, block):
    assert block_of(shape, scales) == block


def test_bits_are_told_by_shapes():
    for bits in (2, 3, 4, 8):
        assert bits_of((2 * bits, 32), (3, bits), (3, 32), 64) == bits
    assert bits_of((8, 32), (3, 5), (3, 32), 64) is None
    assert bits_of((8, 32), (3, 4), (2, 32), 64) is None
    assert bits_of((9, 32), (3, 4), (3, 32), 64) is None


STATE = "z.weight.quant_state.bitsandbytes__nf4"


def stated(text):
    return torch.tensor(list(text if isinstance(text, bytes) else json.dumps(text).encode())).byte()


def without(name, state):
    return {n: t for n, t in state.items() if n != name}


GPTQ, AWQ, FOUR = gptq(8, 64)[0], awq(16, 24, groups=2)[0], four_bits(6, 16)[0]
UNEVEN = {name: torch.cat([t, t, t[:1]]) for name, t in AWQ.items() if "qweight" not in name}
EIGHTHS = numbers(6, 8).to(torch.float8_e4m3fn)
LIES = [
    (b"{", "no JSON object"),
    (b"[]", "no JSON object"),
    ({}, "must have a shape"),
    ({"shape": [-1], "blocksize": 16}, "must have a shape"),
    ({"shape": [], "blocksize": 16}, "no shape"),
    ({"shape": [6, 16], "blocksize": 0}, "no size of blocks"),
    ({"shape": [6, 16], "blocksize": 16, "nested_blocksize": 0}, "no size of blocks"),
    ({"shape": [6, 16], "blocksize": 16, "nested_offset": "x"}, "an offset that is no number"),
    ({"shape": [600, 16], "blocksize": 16}, "fewer than its shape needs"),
    ({"shape": [6, 16], "blocksize": 2}, "fewer than its shape needs"),
    (b" " * 70_000, "too large"),
]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (AWQ | UNEVEN, "fit no layout"),  # 5 groups of 24 columns
        (without("x.scales", GPTQ), "its qzeros or scales are not in the file"),
        (GPTQ | {"x.qzeros": torch.zeros(3, 3, dtype=torch.int32)}, "fit no layout"),
        ({"a.weight": EIGHTHS, "a.weight_scale": numbers(5)}, "fit no blocks"),
        (
            {"a.weight": EIGHTHS, "a.weight_scale": torch.ones(6, 1, dtype=torch.uint8)},
            "its scales are uint8",
        ),
        (without("z.weight.quant_map", FOUR), "a part of it is not in the file"),
        *((FOUR | {STATE: stated(lie)}, says) for lie, says in LIES),
    ],
)
def test_arrays_that_make_up_no_weight_are_left_out_with_their_reason(state, says):
    found = open_checkpoint(state)
    assert raw_names(found) == sorted(state)
    assert not found.tensors
    assert says in found.left_out[0].why


def test_nested_scales_that_do_not_fit_are_refused():
    tensors, _ = four_bits(6, 16)
    tensors["z.weight.nested_quant_map"] = torch.zeros(3)
    with pytest.raises(Refusal, match="nested scales do not fit"):
        open_checkpoint(tensors).tensors[0].read()


def test_codes_in_wider_numbers_are_the_same_codes():
    tensors, want = four_bits(6, 16)
    wide = tensors | {"z.weight": tensors["z.weight"].view(-1).view(torch.bfloat16)[:, None]}
    (narrow,), (stored,) = open_checkpoint(tensors).tensors, open_checkpoint(wide).tensors
    reads(stored, narrow.read())
    assert torch.allclose(stored.read(), want, atol=1e-6)


def test_codes_are_turned_in_parts(monkeypatch):
    (stored,) = open_checkpoint(four_bits(6, 16)[0]).tensors
    whole = stored.read()
    monkeypatch.setattr("sigmascope.checkpoints.decoders.WITHIN", 7)
    reads(stored, whole)


def test_nested_blocks_are_of_256_where_the_state_is_silent():
    tensors, _ = four_bits(300, 16)
    fields = {"shape": [300, 16], "blocksize": 16, "nested_offset": 0.0}
    sizes = {"z.weight.nested_absmax": torch.tensor([1.0, 3.0]), STATE: stated(fields)}
    found = open_checkpoint(tensors | sizes).tensors[0].read()
    codes = tensors["z.weight"].flatten().long()
    codes = torch.stack((codes // 16, codes % 16), 1).reshape(300, 16)
    scales = tensors["z.weight.nested_quant_map"][tensors["z.weight.absmax"].long()]
    scales = scales * torch.tensor([1.0] * 256 + [3.0] * 44)
    want = tensors["z.weight.quant_map"][codes] * scales[:, None]
    assert torch.allclose(found, want, atol=1e-6)
