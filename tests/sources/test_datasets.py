import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from sigmascope.core import guard
from sigmascope.core.guard import Refusal
from sigmascope.sources import datasets, open_data
from sigmascope.sources.datasets import fetch
from tests.sources.idx import write_idx

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


has_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")


def test_digits_are_images_in_the_unit_interval():
    before = torch.get_rng_state()
    data = open_data("digits")
    open_data("gaussian?shape=4")
    assert torch.equal(torch.get_rng_state(), before)
    assert data.inputs.shape == (128, 1, 8, 8)
    assert data.inputs.dtype == torch.float32
    assert (float(data.inputs.min()), float(data.inputs.max())) == (0.0, 1.0)
    assert data.outputs == 10
    assert data.shape == (1, 8, 8)
    assert data.name == "digits, 128 of 1797 samples drawn at random, classes balanced (seed 0)"


def test_all_samples_come_in_order():
    data = open_data("digits", samples=None)
    assert len(data.inputs) == 1797
    assert data.targets[:10].tolist() == list(range(10))
    assert "all 1797" in data.name


@has_shared
@pytest.mark.parametrize("folder", [SHARED, SHARED / "fashion-mnist"], ids=["above", "itself"])
def test_fashion_mnist_is_read_from_the_original_files(folder):
    data = open_data("fashion-mnist?split=test", folder=folder, samples=50)
    assert data.inputs.shape == (50, 1, 28, 28)
    assert float(data.inputs.max()) == 1.0
    assert data.targets.bincount().tolist() == [5] * 10
    assert data.name.startswith("fashion-mnist (test), 50 of 10000")


@has_shared
def test_cifar10_is_read_from_parquet(monkeypatch):
    monkeypatch.setenv("SIGMASCOPE_DATA", str(SHARED))
    data = open_data("cifar10?split=test", samples=20)
    assert data.inputs.shape == (20, 3, 32, 32)
    assert 0.2 < float(data.inputs.mean()) < 0.8
    assert data.targets.bincount().tolist() == [2] * 10


def test_an_uneven_fashion_mnist_is_refused(fashion):
    folder, _ = fashion
    write_idx(folder / "train-labels-idx1-ubyte.gz", np.zeros(29, dtype=np.uint8))
    with pytest.raises(Refusal, match="30 images and 29 labels"):
        open_data("fashion-mnist", folder=folder)


@pytest.mark.parametrize("spec", ["fashion-mnist", "cifar10"])
def test_a_folder_that_was_named_is_the_only_one_searched(tmp_path, spec):
    with pytest.raises(Refusal, match=f"{tmp_path}"):
        open_data(spec, folder=tmp_path)
    with pytest.raises(Refusal, match="There is no folder"):
        open_data(spec, folder=tmp_path / "nowhere")


def test_cifar10_of_other_columns_is_refused(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    parquet.write_table(pa.table({"a": [1]}), tmp_path / "train-0.parquet")
    with pytest.raises(Refusal, match="no columns `img` and `label`"):
        open_data("cifar10", folder=tmp_path)
    (tmp_path / "train-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(Refusal, match="damaged"):
        open_data("cifar10", folder=tmp_path)
    images = [{"bytes": b"not an image", "path": "a.jpg"}]
    parquet.write_table(pa.table({"img": images, "label": [1]}), tmp_path / "train-0.parquet")
    with pytest.raises(Refusal, match="Image 0 of"):
        open_data("cifar10", folder=tmp_path)


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


@pytest.mark.parametrize(("samples", "rows"), [(None, 128), (1, 1), (5, 5)])
def test_gaussian_has_as_many_rows_as_are_said_and_is_weighed_as_drawn(samples, rows):
    needed = 4 * 100 * rows
    with guard.memory(needed):
        data = open_data("gaussian?shape=10x10", samples=samples)
    assert data.inputs.shape == (rows, 10, 10)
    assert data.name == f"gaussian 10x10, {rows} samples (seed 0)"
    with guard.memory(needed - 1), pytest.raises(Refusal, match="of memory"):
        open_data("gaussian?shape=10x10", samples=samples)


def test_gaussian_is_drawn_from_the_generator_that_is_given():
    draw = lambda seed: open_data(
        "gaussian?shape=4", samples=3,
        generator=None if seed is None else torch.Generator().manual_seed(seed),
    )  # fmt: skip
    assert torch.equal(draw(None).inputs, draw(0).inputs)
    assert not torch.equal(draw(1).inputs, draw(0).inputs)
    assert draw(1).name.endswith("(seed 1)")
