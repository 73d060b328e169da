import gzip
import hashlib

import pytest

from sigmascope.gate import Refusal
from sigmascope.sources import datasets, open_data
from sigmascope.sources.downloads import fetch

CONTENT = b"what was expected"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def url(tmp_path):
    path = tmp_path / "remote.gz"
    path.write_bytes(gzip.compress(CONTENT))
    return path.as_uri()


def test_a_file_arrives_whole_and_alone(tmp_path, url):
    path = tmp_path / "cache" / "deep" / "file.gz"
    assert fetch(url, path, sha256=DIGEST) == path
    assert gzip.decompress(path.read_bytes()) == CONTENT
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (gzip.compress(b"something else"), "is not the file expected"),
        (gzip.compress(CONTENT)[:-3], "cannot be fetched"),
        (b"<html>", "cannot be fetched"),
    ],
    ids=["another file", "cut off", "a page"],
)
def test_what_was_not_expected_leaves_nothing_behind(tmp_path, url, content, says):
    (tmp_path / "remote.gz").write_bytes(content)
    path = tmp_path / "cache" / "file.gz"
    with pytest.raises(Refusal, match=says):
        fetch(url, path, sha256=DIGEST)
    assert not path.parent.exists()


def test_a_cache_that_cannot_be_written_is_refused(tmp_path, url):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(Refusal, match=r"cannot be written.*SIGMASCOPE_DATA"):
        fetch(url, tmp_path / "cache" / "file.gz", sha256=DIGEST)


def test_without_a_network_the_refusal_says_where_to_put_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "FASHION_URL", (tmp_path / "nowhere").as_uri() + "/")
    monkeypatch.setattr(datasets, "DEBIAN", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SIGMASCOPE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match=r"cannot be fetched \(URLError.*SIGMASCOPE_DATA") as refusal:
        open_data("fashion-mnist")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "cache").exists()
    with pytest.raises(Refusal, match=r"CIFAR-10 is not here.*SIGMASCOPE_DATA"):
        open_data("cifar10")
