import contextlib
import http.server
import io
import json
import struct
import sys
import threading
import zipfile

import numpy as np
import pytest
from safetensors.torch import save

from sigmascope.checkpoints import open_checkpoint
from sigmascope.checkpoints.locations import (
    Stream,
    digest,
    is_remote,
    joined,
    name_of,
    names_in,
    read_json,
    read_range,
    require_inside,
    size_of,
    stamp,
)
from sigmascope.core.guard import Refusal, memory
from tests.checkpoints.checks import numbers

BLOCK = 65536


@pytest.mark.parametrize("place", ["s3://a/b", "memory://x", "https://a.b/c", "hf://a/b/c"])
def test_addresses_are_told_from_files_and_have_names_within(place):
    assert is_remote(place)
    assert not is_remote("folder/file")
    assert not is_remote("/a/b:c")
    assert joined(place, "x") == f"{place}/x"
    assert name_of(f"{place}/x") == "x"


def test_ranges_of_a_file(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(100)))
    place = str(tmp_path / "a")
    assert size_of(place) == 100
    assert read_range(place, 10, 3).tolist() == [10, 11, 12]
    assert read_range(place, 100, 0).tolist() == []
    with pytest.raises(Refusal, match="must give 3 bytes from byte 98 on, got 2"):
        read_range(place, 98, 3)
    with pytest.raises(Refusal, match="a folder"):
        read_range(str(tmp_path), 0, 1)
    with pytest.raises(Refusal, match="cannot be read"):
        size_of("a\0b")


def test_names_in_a_folder(tmp_path):
    (tmp_path / "b").write_text("")
    (tmp_path / "a").write_text("")
    (tmp_path / "inner").mkdir()
    assert names_in(str(tmp_path)) == ["a", "b"]
    assert names_in(str(tmp_path / "a")) is None


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
        read_json(str(tmp_path / "a.json"))


def test_large_documents_are_refused(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(Refusal, match="a small JSON"):
        read_json(str(tmp_path / "a.json"))


def test_parts_of_a_digest_are_told_apart():
    assert digest("a", "bc") != digest("ab", "c")
    assert digest("a", b"\xff") == digest("a", b"\xff")


def test_a_stream_is_a_file_of_its_own(tmp_path, monkeypatch):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("x", "text")
    data = inner.getvalue()
    (tmp_path / "a").write_bytes(b"before" + data + b"after")
    stream = Stream(str(tmp_path / "a"), 6, len(data))
    with zipfile.ZipFile(stream) as archive:
        assert archive.read("x") == b"text"
    with pytest.raises(OSError, match="negative"):
        stream.seek(-1)
    monkeypatch.setattr("sigmascope.checkpoints.locations.HEADER", 3)
    with pytest.raises(Refusal, match="at most 3 are read"):
        Stream(str(tmp_path / "a")).read()


def stream(folder, data):
    (folder / "a").write_bytes(data)
    return Stream(str(folder / "a"))


def test_blocks_of_a_stream_are_joined(tmp_path):
    data = b"".join(struct.pack("<I", n) for n in range(BLOCK))
    at = stream(tmp_path, data)
    assert at.read(2) == data[:2]
    assert at.read(2 * BLOCK) == data[2 : 2 + 2 * BLOCK]
    assert at.seek(BLOCK, 1) == 2 + 3 * BLOCK
    assert at.read(4) == data[2 + 3 * BLOCK :][:4]
    assert at.seek(0) == 0
    assert at.read(4) == data[:4]
    at.seek(-3, 2)
    assert at.read() == data[-3:]
    assert at.read(4) == b""


def test_lines_of_a_stream_end_where_they_end(tmp_path):
    at = stream(tmp_path, b"a" * 700 + b"\nb\nc")
    assert [at.readline() for _ in range(4)] == [b"a" * 700 + b"\n", b"b\n", b"c", b""]
    assert at.tell() == 704


def test_the_end_of_the_file_and_of_headers_is_the_end(tmp_path, monkeypatch):
    at = stream(tmp_path, bytes(64))
    with pytest.raises(Refusal, match="declares 65 bytes at byte 0"):
        at.require(65)
    monkeypatch.setattr("sigmascope.checkpoints.locations.HEADER", 10)
    with pytest.raises(Refusal, match="headers at most 10"):
        at.require(11)


def test_what_a_header_may_become_in_memory_is_weighed(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1000))
    with memory("10kB"):
        assert len(Stream(str(tmp_path / "a"), weight=9).read()) == 1000
        with pytest.raises(Refusal, match="allow more"):
            Stream(str(tmp_path / "a"), weight=11).read()


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


class Ranges(http.server.BaseHTTPRequestHandler):
    """A server of a few files, which counts what it sends; under `/whole/` it knows no ranges."""

    files, sent = {}, []

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        name = self.path.removeprefix("/whole")
        data, asked = self.files.get(name), self.headers.get("Range")
        if data is None:
            self.send_error(404)
            return
        size = len(data)
        if asked and name == self.path:
            first, last = asked.removeprefix("bytes=").split("-")
            data = data[int(first) : int(last) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            with contextlib.suppress(OSError):  # who asked may have gone
                for at in range(0, len(data), 1 << 16):
                    self.wfile.write(data[at : at + (1 << 16)])
                    self.sent.append(len(data[at : at + (1 << 16)]))

    def log_message(self, *_):
        pass


@pytest.fixture
def web():
    pytest.importorskip("aiohttp")
    Ranges.files, Ranges.sent = {}, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_web_is_read_by_ranges(web):
    Ranges.files["/a.safetensors"] = save({"w": numbers(5000, 1000)})
    (stored,) = open_checkpoint(f"{web}/a.safetensors").tensors
    assert (stored.read(4000, 4002) == numbers(5000, 1000)[4000:4002]).all()
    assert sum(Ranges.sent) < 20_000


def test_shards_of_the_web_are_read_by_their_index(web):
    Ranges.files["/m/1.safetensors"] = save({"a": numbers(3, 2)})
    Ranges.files["/m/2.safetensors"] = save({"b": numbers(2, 2)})
    index = {"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
    Ranges.files["/m/model.safetensors.index.json"] = json.dumps(index).encode()
    found = open_checkpoint(f"{web}/m/model.safetensors.index.json")
    assert [t.read().tolist() for t in found.tensors] == [
        numbers(3, 2).tolist(),
        numbers(2, 2).tolist(),
    ]


def test_a_server_without_ranges_is_refused_and_not_read_whole(web):
    Ranges.files["/a.safetensors"] = save({"w": numbers(10_000, 1000)})
    with pytest.raises(Refusal, match=r"cannot be read .*range requests"):
        open_checkpoint(f"{web}/whole/a.safetensors")
    assert sum(Ranges.sent) < 30_000_000


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
def test_a_client_that_is_missing_is_named(monkeypatch, kind):
    client = {"s3": "s3fs", "gs": "gcsfs"}[kind]
    monkeypatch.setitem(sys.modules, client, None)
    with pytest.raises(Refusal, match=f"`pip install fsspec {client}`"):
        open_checkpoint(f"{kind}://bucket/a.safetensors")


def test_without_fsspec_files_are_read_and_addresses_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(Refusal, match="needs fsspec: `pip install fsspec s3fs`"):
        open_checkpoint("s3://bucket/a.safetensors")


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a/../../x", "s3://x", "a\\b", "c:x", "", "a\0b", "memory::x"]
)
def test_names_that_lead_out_of_a_folder_are_refused(name):
    with pytest.raises(Refusal, match="leads out of it"):
        require_inside(name, "folder")


def test_names_within_a_folder_are_taken():
    assert require_inside("a-00001.safetensors", "folder") == "a-00001.safetensors"
    assert require_inside("sub/a.bin", "folder") == "sub/a.bin"
