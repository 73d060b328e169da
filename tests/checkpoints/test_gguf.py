import struct
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from sigmascope.checkpoints import open_checkpoint
from sigmascope.checkpoints.arrays import InMemory
from sigmascope.checkpoints.gguf import WITHIN, Blocks, read_gguf
from sigmascope.core.guard import Refusal
from tests.checkpoints.checks import (
    by_name,
    mutated,
    numbers,
    opens,
    opens_or_refuses,
    raw_names,
    reads,
    same,
)

gguf = pytest.importorskip("gguf")
Type = gguf.GGMLQuantizationType


def write(path, tensors, **metadata):
    """A file by the library: arrays of their own kind, or pairs of an array and a kind of block.

    An array of bytes beside a kind is the blocks themselves.
    """
    writer = gguf.GGUFWriter(str(path), "llama")
    for key, value in metadata.items():
        add = writer.add_array if isinstance(value, list) else writer.add_uint32
        add(key, value)
    for name, value in tensors.items():
        if isinstance(value, tuple):
            array, kind = value
            packed = array if array.dtype == np.uint8 else gguf.quants.quantize(array, kind)
            writer.add_tensor(name, packed, raw_dtype=kind)
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


QUANTISES = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.BF16, Type.MXFP4]


def test_every_kind_reads_as_the_library_turns_it(tmp_path):
    matrix = numbers(6, 96).numpy()
    made = {kind.name: (matrix, kind) for kind in QUANTISES}
    plain = {"f32": matrix, "f16": matrix.astype(np.float16), "f64": matrix.astype(np.float64)}
    plain |= {"experts": numbers(2, 3, 32).numpy(), "norm": numbers(7).numpy()}
    path = write(tmp_path / "a.gguf", {**made, **plain, "ids": np.arange(4, dtype=np.int32)})
    wanted = {name: torch.from_numpy(array) for name, array in plain.items()}
    for name, (array, kind) in made.items():
        back = gguf.quants.dequantize(gguf.quants.quantize(array, kind), kind)
        wanted[name] = torch.from_numpy(back)
    wanted["BF16"] = wanted["BF16"].bfloat16()
    found = opens(path, wanted, names=[*wanted, "ids"], format="GGUF")
    assert found.left_out[0].why.startswith("int32: whole numbers")
    assert by_name(found)["Q4_0"].dtype == "Q4_0"
    assert by_name(found)["Q4_0"].bytes == 6 * 3 * 18
    assert by_name(found)["experts"].shape == (2, 3, 32)


def test_vectors_in_blocks_are_cut_where_asked(tmp_path):
    vector = numbers(96).numpy()
    path = write(tmp_path / "a.gguf", {"v": (vector, Type.Q8_0)})
    want = gguf.quants.dequantize(gguf.quants.quantize(vector, Type.Q8_0), Type.Q8_0)
    opens(path, {"v": torch.from_numpy(want)})


def test_metadata_is_the_configuration_and_long_arrays_are_counted(tmp_path):
    words = [f"word{n}" for n in range(300)]
    path = write(
        tmp_path / "a.gguf", {"w": np.zeros(2, np.float32)}, blocks=3, words=words, few=[1, 2]
    )
    config = open_checkpoint(path).config
    assert config["general.architecture"] == "llama"
    assert (config["blocks"], config["few"]) == (3, [1, 2])
    assert config["words"] == "300 texts"


def test_parts_of_a_split_file_are_one_checkpoint(tmp_path):
    write(tmp_path / "m-00001-of-00002.gguf", {"a": numbers(2, 2).numpy()})
    write(tmp_path / "m-00002-of-00002.gguf", {"b": numbers(3, 2).numpy()})
    opens(tmp_path, {"a": numbers(2, 2), "b": numbers(3, 2)}, format="GGUF, 2 shards")
    write(tmp_path / "m-00002-of-00002.gguf", {"a": numbers(3, 2).numpy()})
    with pytest.raises(Refusal, match="must have different tensors, got one twice"):
        open_checkpoint(tmp_path)


def text(word):
    return struct.pack("<Q", len(word)) + word


def file(folder, *, tensors=1, entries=0, metadata=b"", info=None, size=64, version=3):
    info = text(b"w") + struct.pack("<IQIQ", 1, 4, 0, 0) if info is None else info
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + metadata + info
    (folder / "a.gguf").write_bytes(head + bytes(-len(head) % 32 + size))
    return folder / "a.gguf"


def info(name=b"w", sizes=(4,), kind=0, offset=0):
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def aligned(to):
    return key(b"general.alignment", 11, struct.pack("<q", to))


ARRAY = struct.pack("<IQ", 9, 1)


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"version": 1}, "version 2 or 3"),
        ({"version": 3 << 24}, "version 2 or 3"),
        ({"tensors": 10**9}, "it declares 1000000000 tensors"),
        ({"tensors": 900_000}, "damaged or was cut"),
        ({"entries": 10**9}, "it declares 1 tensors and 1000000000 entries"),
        ({"info": struct.pack("<Q", 1 << 63) + b"w"}, "declares 9223372036854775808 bytes"),
        ({"info": info(sizes=(1,) * 5)}, "has 5 dimensions"),
        ({"info": info(sizes=(1 << 62, 4))}, "not beyond all memory"),
        ({"info": info(sizes=(17,)), "size": 64}, "lies outside of the file"),
        ({"info": info(offset=4)}, "is not aligned"),
        ({"info": info(offset=1 << 60)}, "lies outside"),
        ({"info": info(kind=2, sizes=(31,))}, "no whole blocks of Q4_0"),
        ({"info": info() + info(), "tensors": 2}, "declares `w` twice"),
        ({"info": info() + info(b"v"), "tensors": 2}, "begins within"),
        ({"entries": 1, "metadata": key(b"a", 99, b"")}, "unknown type 99"),
        ({"entries": 1, "metadata": key(b"a", 9, ARRAY * 9)}, "unknown type 9"),
        ({"entries": 1, "metadata": key(b"a", 9, struct.pack("<IQ", 4, 1 << 62))}, "or was cut"),
        ({"entries": 1, "metadata": key(b"a", 9, struct.pack("<IQ", 8, 1 << 40))}, "or was cut"),
        ({"entries": 2, "metadata": key(b"a", 0, b"1") * 2}, "declares `a` twice"),
        *(
            ({"entries": 1, "metadata": aligned(n)}, f"its alignment is {n}")
            for n in (-1, 0, 3, 96, 1 << 62)
        ),
        ({"entries": 1, "metadata": key(b"general.alignment", 7, b"\1")}, "its alignment is True"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, declared, says):
    with pytest.raises(Refusal, match=says):
        read_gguf(str(file(tmp_path, **declared)))


@pytest.mark.parametrize("to", [1, 2, 8, 256])
def test_numbers_begin_where_the_alignment_says(tmp_path, to):
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + aligned(to) + info(offset=2 * to)
    gap = bytes(-len(head) % to + 2 * to)
    (tmp_path / "a.gguf").write_bytes(head + gap + struct.pack("<4f", 1, 2, 3, 4))
    (stored,) = open_checkpoint(tmp_path / "a.gguf").tensors
    assert stored.read().tolist() == [1, 2, 3, 4]


def test_what_is_no_gguf_is_refused(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"GGUX" + bytes(60))
    with pytest.raises(Refusal, match="is no GGUF file"):
        open_checkpoint(tmp_path / "a.gguf")


def test_kinds_that_are_not_known_are_left_out_by_name(tmp_path):
    found = open_checkpoint(file(tmp_path, info=info(kind=99, sizes=(256,))))
    assert raw_names(found) == ["w"]
    assert found.left_out[0].why.startswith("type 99 of ggml: blocks")


def valid(folder):
    arrays = {"a": numbers(3, 4).numpy(), "b": (numbers(2, 32).numpy(), Type.Q4_0)}
    return write(folder / "valid.gguf", arrays, one=1, some=[1, 2, 3]).read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("gguf")


def test_any_bytes_open_or_are_refused(folder):
    data = valid(folder)

    @settings(max_examples=120)
    @given(data=mutated(data, 330))
    def opened(data):
        (folder / "a.gguf").write_bytes(data)
        opens_or_refuses(folder / "a.gguf")

    opened()


PLAIN = ("F64", "F32", "F16", "BF16", "I8", "I16", "I32", "I64")


def raw(folder, kind, blocks, shape):
    """A file of one tensor `w` in blocks of any bytes."""
    return write(folder / "raw.gguf", {"w": (blocks.reshape(*shape[:-1], -1), kind)})


def random_blocks(kind, count):
    rng = np.random.default_rng(int(kind))
    return rng.integers(0, 256, (count, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)


@pytest.mark.parametrize("kind", [k for k in Type if k.name not in PLAIN], ids=lambda k: k.name)
def test_blocks_of_any_bytes_read_as_the_library_decodes_them(tmp_path, kind):
    blocks = random_blocks(kind, 12)
    try:
        with np.errstate(all="ignore"):
            want = gguf.dequantize(blocks, kind)
    except NotImplementedError:
        found = open_checkpoint(raw(tmp_path, kind, blocks, (12, -1)))
        assert found.tensors == ()
        assert kind.name in found.left_out[0].why
        return
    size = gguf.GGML_QUANT_SIZES[kind][0]
    for shape in ((6, 2 * size), (2, 3, 2 * size), (12 * size,)):
        path = raw(tmp_path, kind, blocks, shape)
        (stored,) = open_checkpoint(path).tensors
        assert stored.dtype == kind.name
        assert stored.bytes == blocks.size
        reads(stored, torch.from_numpy(want.reshape(shape)))


def test_a_block_is_a_scale_and_codes(tmp_path):
    codes = np.arange(-16, 16, dtype=np.int8)
    block = np.concatenate((np.float16([0.5]).view(np.uint8), codes.view(np.uint8)))
    (stored,) = open_checkpoint(raw(tmp_path, Type.Q8_0, block, (1, 32))).tensors
    assert stored.read().tolist() == [(0.5 * codes).tolist()]
    block = np.concatenate((np.float16([2]).view(np.uint8), np.full(16, 0xA3, np.uint8)))
    (stored,) = open_checkpoint(raw(tmp_path, Type.Q4_0, block, (1, 32))).tensors
    assert stored.read().tolist() == [[2.0 * (3 - 8)] * 16 + [2.0 * (10 - 8)] * 16]


def test_many_blocks_are_decoded_in_parts(tmp_path, monkeypatch):
    assert WITHIN >= 256
    monkeypatch.setattr("sigmascope.checkpoints.gguf.WITHIN", 64)
    blocks = random_blocks(Type.Q8_0, 20)
    (stored,) = open_checkpoint(raw(tmp_path, Type.Q8_0, blocks, (10, 64))).tensors
    with np.errstate(all="ignore"):
        want = gguf.dequantize(blocks, Type.Q8_0).reshape(10, 64)
    same(stored.read(3, 7), torch.from_numpy(want[3:7]))


def test_scales_that_are_not_finite_come_as_they_are():
    block = np.zeros((1, 34), np.uint8)
    block[0, :2] = np.float16([np.inf]).view(np.uint8)
    got = Blocks(8).rows([InMemory(torch.from_numpy(block))], (1, 32), 0, 1)
    assert got.isnan().all()


def test_without_gguf_blocks_are_refused_and_plain_numbers_read(tmp_path, monkeypatch):
    path = write(tmp_path / "plain.gguf", {"w": numbers(2, 3).numpy()})
    monkeypatch.setitem(sys.modules, "gguf", None)
    opens(path, {"w": numbers(2, 3)})
    with pytest.raises(Refusal, match=r"pip install 'sigmascope\[gguf\]'"):
        open_checkpoint(file(tmp_path, info=info(kind=8, sizes=(32,))))
