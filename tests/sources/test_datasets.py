from pathlib import Path

import numpy as np
import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.sources import open_data
from tests.sources.idx import write_idx

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


has_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")


def test_digits_are_images_in_the_unit_interval():
    data = open_data("digits")
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


def test_nothing_touches_the_global_generator():
    before = torch.get_rng_state()
    open_data("digits")
    open_data("gaussian?shape=4")
    assert torch.equal(torch.get_rng_state(), before)


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
