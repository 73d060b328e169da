import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from sigmascope.gate import Refusal
from sigmascope.sources.stored import open_checkpoint
from sigmascope.sources.stored.gguf import read_gguf
from tests.sources.stored.checks import by_name, numbers, opens, raw_names
from tests.sources.stored.test_headers import mutated, opens_or_refuses

gguf = pytest.importorskip("gguf")
Type = gguf.GGMLQuantizationType


def write(path, tensors, **metadata):
    """A file by the library: arrays of their own kind, or pairs of an array and a kind of block."""
    writer = gguf.GGUFWriter(str(path), "llama")
    for key, value in metadata.items():
        add = writer.add_array if isinstance(value, list) else writer.add_uint32
        add(key, value)
    for name, value in tensors.items():
        if isinstance(value, tuple):
            array, kind = value
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
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
        (
            {"entries": 1, "metadata": key(b"general.alignment", 4, struct.pack("<I", 3))},
            "its alignment is 3",
        ),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, declared, says):
    with pytest.raises(Refusal, match=says):
        read_gguf(str(file(tmp_path, **declared)))


def test_what_is_no_gguf_is_refused(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"GGUX" + bytes(60))
    with pytest.raises(Refusal, match="is no GGUF file"):
        open_checkpoint(tmp_path / "a.gguf")


@pytest.mark.parametrize(
    ("kind", "says"), [(16, "IQ2_XXS: blocks"), (99, "type 99 of ggml: blocks")]
)
def test_kinds_that_are_not_read_are_left_out_by_name(tmp_path, kind, says):
    found = open_checkpoint(file(tmp_path, info=info(kind=kind, sizes=(256,))))
    assert raw_names(found) == ["w"]
    assert found.left_out[0].why.startswith(says)


def valid(folder):
    arrays = {"a": numbers(3, 4).numpy(), "b": (numbers(2, 32).numpy(), Type.Q4_0)}
    return write(folder / "valid.gguf", arrays, one=1, some=[1, 2, 3]).read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("gguf")


def test_any_bytes_open_or_are_refused(folder):
    data = valid(folder)

    @settings(max_examples=300)
    @given(data=mutated(data, 330))
    def opened(data):
        (folder / "a.gguf").write_bytes(data)
        opens_or_refuses(folder / "a.gguf")

    opened()
