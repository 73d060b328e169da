import io
import zipfile

import pytest

from sigmascope.gate import Refusal
from sigmascope.sources.stored.places import (
    Window,
    digest,
    joined,
    last,
    names_at,
    read_bytes,
    read_document,
    size_at,
    stamp,
)


@pytest.mark.parametrize("place", ["s3://a/b", "memory://x", "https://a.b/c", "hf://a/b/c"])
def test_names_within_an_address(place):
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
