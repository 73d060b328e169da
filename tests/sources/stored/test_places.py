import io
import json
import sys
import zipfile

import numpy as np
import pytest
from safetensors.torch import save

from sigmascope.gate import Refusal
from sigmascope.sources.stored import open_checkpoint
from sigmascope.sources.stored.places import (
    Window,
    digest,
    is_address,
    joined,
    last,
    names_at,
    read_bytes,
    read_document,
    size_at,
    stamp,
)
from tests.sources.stored.checks import numbers


@pytest.mark.parametrize("place", ["s3://a/b", "memory://x", "https://a.b/c", "hf://a/b/c"])
def test_addresses_are_told_from_files(place):
    assert is_address(place)
    assert not is_address("folder/file")
    assert not is_address("/a/b:c")
    assert joined(place, "x") == f"{place}/x"
    assert last(f"{place}/x") == "x"


def test_ranges_of_a_file(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(100)))
    place = str(tmp_path / "a")
    assert size_at(place) == 100
    assert read_bytes(place, 10, 3).tolist() == [10, 11, 12]
    assert read_bytes(place, 100, 0).tolist() == []
    with pytest.raises(Refusal, match="must give 3 bytes from byte 98 on, got 2"):
        read_bytes(place, 98, 3)
    with pytest.raises(Refusal, match="cannot be read"):
        read_bytes(str(tmp_path), 0, 1)
    with pytest.raises(Refusal, match="cannot be read"):
        size_at("a\0b")


def test_names_in_a_folder(tmp_path):
    (tmp_path / "b").write_text("")
    (tmp_path / "a").write_text("")
    (tmp_path / "inner").mkdir()
    assert names_at(str(tmp_path)) == ["a", "b"]
    assert names_at(str(tmp_path / "a")) is None


def test_a_stamp_changes_with_the_file(tmp_path):
    path = tmp_path / "a"
    path.write_text("1")
    first = stamp(str(path))
    assert stamp(str(path)) == first
    path.write_text("12")
    assert stamp(str(path)) != first


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "not valid JSON"), ("[]", "hold a JSON object"), ("[" * 99_999, "not valid JSON")],
)
def test_documents_that_are_none_are_refused(tmp_path, text, says):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(Refusal, match=says):
        read_document(str(tmp_path / "a.json"))


def test_large_documents_are_refused(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(Refusal, match="a small JSON"):
        read_document(str(tmp_path / "a.json"))


def test_parts_of_a_digest_are_told_apart():
    assert digest("a", "bc") != digest("ab", "c")
    assert digest("a", b"\xff") == digest("a", b"\xff")


def test_a_window_is_a_file_of_its_own(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("x", "text")
    data = inner.getvalue()
    (tmp_path / "a").write_bytes(b"before" + data + b"after")
    window = Window(str(tmp_path / "a"), start=6, size=len(data), most=1 << 20)
    with zipfile.ZipFile(window) as archive:
        assert archive.read("x") == b"text"
    with pytest.raises(OSError, match="negative"):
        window.seek(-1)
    window.most = 3
    window.seek(0)
    with pytest.raises(Refusal, match="at most 3 are read"):
        window.read()


fsspec = pytest.importorskip("fsspec")


def put(name, data):
    with fsspec.filesystem("memory").open(name, "wb") as file:
        file.write(data)


@pytest.fixture
def counted(monkeypatch):
    """Bytes that are read of the file system in memory, which is empty before and after."""
    from fsspec.implementations.memory import MemoryFileSystem

    seen, whole = [], MemoryFileSystem.cat_file

    def cat_file(self, path, start=None, end=None, **options):
        got = whole(self, path, start=start, end=end, **options)
        seen.append(len(got))
        return got

    monkeypatch.setattr(MemoryFileSystem, "cat_file", cat_file)
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    return seen


def test_safetensors_afar_are_read_by_ranges(counted):
    data = save({"a": numbers(100, 1000), "b": numbers(50, 10)})
    put("/m/model.safetensors", data)
    found = open_checkpoint("memory://m/model.safetensors")
    assert sum(counted) < 1000
    counted.clear()
    big, small = sorted(found.tensors, key=lambda t: -t.bytes)
    assert (big.read(3, 5) == numbers(100, 1000)[3:5]).all()
    assert sum(counted) == 8000
    assert (small.read() == numbers(50, 10)).all()
    assert sum(counted) == 10_000


def test_folders_afar_are_read_by_their_index(counted):
    put("/m/one.safetensors", save({"a": numbers(100, 100)}))
    put("/m/two.safetensors", save({"b": numbers(3, 3)}))
    put("/m/config.json", b'{"model_type": "x"}')
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    put("/m/model.safetensors.index.json", json.dumps(index).encode())
    for place in ("memory://m", "memory://m/model.safetensors.index.json"):
        found = open_checkpoint(place)
        assert found.format == "safetensors, 2 shards"
        assert found.config == {"model_type": "x"}
    assert sum(counted) < 2000
    assert (found.tensors[1].read() == numbers(3, 3)).all()
    before = found.fingerprint
    put("/m/two.safetensors", save({"b": numbers(3, 4)}))
    assert open_checkpoint("memory://m").fingerprint != before


def test_gguf_afar_is_read_by_ranges(counted, tmp_path):
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(str(tmp_path / "a.gguf"), "llama")
    writer.add_tensor("w", np.ones((1000, 1000), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    put("/a.gguf", (tmp_path / "a.gguf").read_bytes())
    (stored,) = open_checkpoint("memory://a.gguf").tensors
    assert sum(counted) < 1 << 19
    assert stored.read(0, 2).shape == (2, 1000)


def test_other_formats_afar_are_refused(counted):
    put("/a.pt", b"PK\x03\x04" + bytes(100))
    put("/d/.metadata", b"x")
    with pytest.raises(Refusal, match="download it, or save it as safetensors"):
        open_checkpoint("memory://a.pt")
    with pytest.raises(Refusal, match="download it, or save it as safetensors"):
        open_checkpoint("memory://d")


def test_what_is_not_there_afar_is_refused(counted):
    with pytest.raises(Refusal, match="cannot be read"):
        open_checkpoint("memory://nothing.safetensors")
    with pytest.raises(Refusal, match="cannot be read"):
        open_checkpoint("nosuch://a/b.safetensors")


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_client_that_is_missing_is_named(kind):
    client = {"s3": "s3fs", "gs": "gcsfs"}[kind]
    with pytest.raises(Refusal, match=f"`pip install fsspec {client}`"):
        open_checkpoint(f"{kind}://bucket/a.safetensors")


def test_without_fsspec_files_are_read_and_addresses_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(Refusal, match="needs fsspec: `pip install fsspec s3fs`"):
        open_checkpoint("s3://bucket/a.safetensors")
