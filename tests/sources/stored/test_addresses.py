import contextlib
import http.server
import json
import sys
import threading

import numpy as np
import pytest
from safetensors.torch import save

from sigmascope.gate import Refusal
from sigmascope.sources.stored import open_checkpoint
from sigmascope.sources.stored.addresses import is_address
from tests.sources.stored.checks import numbers

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


@pytest.mark.parametrize("place", ["s3://a/b", "memory://x", "https://a.b/c", "hf://a/b/c"])
def test_addresses_are_told_from_files(place):
    assert is_address(place)
    assert not is_address("folder/file")
    assert not is_address("/a/b:c")
