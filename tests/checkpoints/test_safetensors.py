import json

import pytest
import torch
from hypothesis import given, settings
from safetensors.torch import save, save_file

from sigmascope.checkpoints import open_checkpoint
from sigmascope.checkpoints.safetensors import read_header
from sigmascope.core.guard import Refusal, memory
from tests.checkpoints.checks import by_name, mutated, numbers, opens, opens_or_refuses

LONGEST = 100_000_000

KINDS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
EIGHTHS = [torch.float8_e4m3fn, torch.float8_e5m2]


def test_every_kind_of_number_reads_as_safetensors_wrote_it(tmp_path):
    state = {str(k): numbers(5, 3, dtype=k) for k in KINDS + EIGHTHS}
    state |= {"scalar": torch.tensor(2.5), "none": torch.zeros(0, 3), "vector": numbers(7)}
    whole = {"ids": torch.arange(4), "mask": torch.ones(3, dtype=torch.bool)}
    save_file(state | whole, tmp_path / "a.safetensors")
    wanted = {n: t.float() if t.dtype in EIGHTHS else t for n, t in state.items()}
    found = opens(tmp_path / "a.safetensors", wanted, names=[*state, *whole], format="safetensors")
    assert {e.name: e.why.split(":")[0] for e in found.left_out} == {"ids": "int64", "mask": "bool"}
    assert by_name(found)["torch.float16"].dtype == "float16"
    assert by_name(found)["torch.float16"].bytes == 30


def test_order_is_that_of_the_header(tmp_path):
    file(tmp_path, {n: entry("F32", [1], 4 * i, 4 * i + 4) for i, n in enumerate("zax")}, 12)
    assert [t.name for t in open_checkpoint(tmp_path / "a.safetensors").tensors] == list("zax")


def file(folder, header, size, *, length=None, cut=None):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = (len(data) if length is None else length).to_bytes(8, "little") + data + bytes(size)
    (folder / "a.safetensors").write_bytes(content[:cut])
    return folder / "a.safetensors"


def entry(dtype="F32", shape=(2, 2), start=0, end=16):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


TWICE = b'{"w": %b, "w": %b}' % ((json.dumps(entry()).encode(),) * 2)


@pytest.mark.parametrize(
    ("header", "size", "says"),
    [
        ({"w": entry()}, 15, "must lie within the 15 bytes"),
        ({"w": entry(end=17)}, 17, "must have 16 bytes by its shape"),
        ({"w": entry(start=-1, end=15)}, 16, "must lie within"),
        ({"w": entry(start=16, end=0)}, 16, "must lie within"),
        ({"w": entry(shape=[-2, -2])}, 16, "not negative"),
        ({"w": entry(shape=[1 << 40, 1 << 40])}, 16, "not beyond all memory"),
        ({"w": entry(shape=[0, 1 << 62], end=0)}, 16, "not beyond all memory"),
        ({"w": entry(shape=[1] * 65)}, 16, "at most 64 sizes"),
        ({"w": entry(shape=[2.0, 2])}, 16, "are whole"),
        ({"w": entry(shape=[True, 4])}, 16, "are whole"),
        ({"w": {**entry(), "dtype": 3}}, 16, "must have a dtype and a shape"),
        ({"w": {**entry(), "data_offsets": [0]}}, 16, "must have two `data_offsets`"),
        ({"w": {**entry(), "data_offsets": [0, 16.0]}}, 16, "must have two `data_offsets`"),
        ({"w": [1]}, 16, "must have a dtype and a shape"),
        ({"a": entry(), "w": entry(start=12, end=28)}, 28, "`w` .* begins within `a`"),
        (TWICE, 16, "declares `w` twice"),
        (b"[]", 0, "header is no object"),
        (b"{", 0, "not valid JSON"),
        (b"[" * 100_000, 0, "not valid JSON"),
        (b'{"w": ' + b"9" * 9999 + b"}", 0, "not valid JSON"),
        (b"\xff\xfe", 0, "not valid JSON"),
        ({"w\x1b[31m": entry()}, 15, r"w\\x1b\[31m"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, header, size, says):
    with pytest.raises(Refusal, match=says):
        read_header(str(file(tmp_path, header, size)))


@pytest.mark.parametrize("cut", [0, 3, 7])
def test_files_without_a_header_are_refused(tmp_path, cut):
    with pytest.raises(Refusal, match="must begin with a header"):
        read_header(str(file(tmp_path, {"w": entry()}, 16, cut=cut)))


@pytest.mark.parametrize("length", [LONGEST + 1, 1 << 63, 10_000])
def test_a_header_beyond_the_file_or_the_format_is_refused(tmp_path, length):
    with pytest.raises(Refusal, match="it declares a header of"):
        read_header(str(file(tmp_path, {"w": entry()}, 16, length=length)))
    path = file(tmp_path, {}, 0)
    assert not read_header(str(path))[0]
    path.write_bytes((path.stat().st_size - 7).to_bytes(8, "little") + path.read_bytes()[8:])
    with pytest.raises(Refusal, match="it declares a header of"):  # one byte more than there is
        read_header(str(path))


def test_a_cut_file_is_refused(tmp_path):
    path = file(tmp_path, {"w": entry()}, 16)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Refusal, match="or was cut"):
        open_checkpoint(path)


def test_a_tensor_beyond_the_budget_is_refused_when_it_is_read(tmp_path):
    path = file(tmp_path, {"w": entry(shape=[1 << 20, 1 << 20], end=1 << 42)}, 0)
    with path.open("r+b") as sparse:
        sparse.truncate((1 << 42) + 200)
    (stored,) = open_checkpoint(path).tensors
    assert stored.read(1 << 19, (1 << 19) + 2).shape == (2, 1 << 20)
    with memory("1GB"), pytest.raises(Refusal, match=r"needs 4.1e[+]03 GiB or more"):
        stored.read()


def test_kinds_that_are_not_known_are_left_out_by_name(tmp_path):
    found = open_checkpoint(
        file(tmp_path, {"w": entry("F6_E2M3"), "v": entry(start=16, end=32)}, 32)
    )
    assert [t.name for t in found.tensors] == ["v"]
    assert found.left_out[0].why == "F6_E2M3: a kind of number that is not read here."


def test_complex_numbers_are_left_out(tmp_path):
    # By hand, for the least version of safetensors writes none.
    found = open_checkpoint(file(tmp_path, {"w": entry("C64", end=32)}, 32))
    assert found.left_out[0].why.startswith("complex64: complex numbers")


VALID = save(
    {"a.weight": numbers(3, 4), "b": numbers(6, dtype=torch.float16), "n": torch.arange(3)}
)
BODY = len(VALID) - 8 - int.from_bytes(VALID[:8], "little")


@settings(max_examples=120)
@given(data=mutated(VALID, len(VALID) - BODY, BODY))
def test_any_bytes_open_or_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "mutated.safetensors"
    path.write_bytes(data)
    opens_or_refuses(path)
