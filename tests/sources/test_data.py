import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sigmascope.gate import Refusal
from sigmascope.sources import Data, fitted, open_data

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
has_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=generator(seed))


# Data sets by name


def test_digits_are_images_in_the_unit_interval():
    data = open_data("digits")
    assert data.inputs.shape == (128, 1, 8, 8)
    assert data.inputs.dtype == torch.float32
    assert (float(data.inputs.min()), float(data.inputs.max())) == (0.0, 1.0)
    assert data.outputs == 10
    assert data.shape == (1, 8, 8)
    assert data.name == "digits, 128 of 1797 samples drawn at random, classes balanced (seed 0)"


def test_the_subset_is_the_same_each_time_and_balanced():
    first, second = open_data("digits", samples=100), open_data("digits", samples=100)
    assert torch.equal(first.inputs, second.inputs)
    assert first.targets.bincount().tolist() == [10] * 10
    other = open_data("digits", samples=100, generator=generator(1))
    assert other.name.endswith("(seed 1)")
    assert not torch.equal(other.targets, first.targets)


def test_all_samples_come_in_order():
    data = open_data("digits", samples=None)
    assert len(data.inputs) == 1797
    assert data.targets[:10].tolist() == list(range(10))
    assert "all 1797" in data.name


def test_gaussian_has_the_shape_it_was_told():
    data = open_data("gaussian?shape=3x4x5", samples=7)
    assert data.inputs.shape == (7, 3, 4, 5)
    assert data.targets is None
    assert data.outputs is None
    assert torch.equal(data.inputs, open_data("gaussian", shape=(3, 4, 5), samples=7).inputs)


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


def write_idx(path, array):
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


@pytest.fixture
def fashion(tmp_path):
    """A folder with the two training files of a very small Fashion-MNIST."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (30, 28, 28), dtype=np.uint8)
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", (np.arange(30) % 10).astype(np.uint8))
    return tmp_path, images


def test_idx_files_are_read_exactly(fashion):
    folder, images = fashion
    data = open_data("fashion-mnist", folder=folder, samples=None)
    assert torch.equal((data.inputs[:, 0] * 255).round().byte(), torch.from_numpy(images))


def test_uncompressed_idx_files_are_read_too(fashion):
    folder, _ = fashion
    for path in folder.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert len(open_data("fashion-mnist", folder=folder).inputs) == 30


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda content: content[: len(content) // 2], "is damaged"),
        (lambda content: b"not gzip", "is damaged"),
        (lambda content: b"", "not an idx file|is damaged"),
        (lambda content: gzip.compress(b"\0\0\x08"), "not an idx file"),
        (lambda content: gzip.compress(b"<html>not found</html>"), "not an idx file"),
        (lambda content: gzip.compress(gzip.decompress(content)[:-5]), "must hold 23520 bytes"),
    ],
)
def test_damaged_idx_files_are_refused(fashion, damage, says):
    folder, _ = fashion
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(Refusal, match=says):
        open_data("fashion-mnist", folder=folder)


def test_an_uneven_fashion_mnist_is_refused(fashion):
    folder, _ = fashion
    write_idx(folder / "train-labels-idx1-ubyte.gz", np.zeros(29, dtype=np.uint8))
    with pytest.raises(Refusal, match="30 images and 29 labels"):
        open_data("fashion-mnist", folder=folder)


# Files


def test_every_kind_of_file_gives_the_same_batch(tmp_path):
    x, y = numbers(9, 4), torch.arange(9) % 3
    np.save(tmp_path / "a.npy", x.numpy())
    np.savez(tmp_path / "a.npz", x=x.numpy(), y=y.numpy())
    torch.save({"inputs": x, "targets": y}, tmp_path / "a.pt")
    torch.save((x, y), tmp_path / "b.pt")
    torch.save(x, tmp_path / "c.pt")
    save_file({"images": x, "labels": y}, tmp_path / "a.safetensors")
    for name in ("a.npy", "a.npz", "a.pt", "b.pt", "c.pt", "a.safetensors"):
        data = open_data(str(tmp_path / name))
        assert torch.equal(data.inputs, x), name
        if name not in ("a.npy", "c.pt"):
            assert torch.equal(data.targets, y), name
            assert data.outputs == 3
        assert data.name == f"{name}, all 9 samples"


def test_a_sole_array_needs_no_name(tmp_path):
    np.savez(tmp_path / "a.npz", whatever=np.ones((3, 2)))
    assert open_data(str(tmp_path / "a.npz")).inputs.shape == (3, 2)


def test_arguments_of_a_model_stay_a_mapping(tmp_path):
    np.savez(
        tmp_path / "a.npz",
        input_ids=np.ones((3, 2), dtype=np.int64),
        attention_mask=np.ones((3, 2)),
        labels=np.zeros(3, dtype=np.int64),
    )
    data = open_data(str(tmp_path / "a.npz"))
    assert set(data.inputs) == {"input_ids", "attention_mask"}
    assert data.shape is None
    assert len(data.targets) == 3


def test_a_large_file_is_sampled_with_its_targets(tmp_path):
    x = torch.arange(1000).unsqueeze(1).float()
    np.savez(tmp_path / "a.npz", x=x.numpy(), y=(np.arange(1000) % 4))
    data = open_data(str(tmp_path / "a.npz"), samples=40)
    assert data.targets.bincount().tolist() == [10] * 4
    assert torch.equal(data.inputs[:, 0].long() % 4, data.targets)


def test_values_are_left_as_they_are(tmp_path):
    for dtype in ("uint8", "float64", "float16", ">f4", "int32"):
        array = np.arange(6).reshape(3, 2).astype(dtype)
        np.save(tmp_path / "a.npy", array)
        inputs = open_data(str(tmp_path / "a.npy")).inputs
        assert str(inputs.dtype).removeprefix("torch.") == np.dtype(dtype).newbyteorder("=").name
        assert inputs.tolist() == array.tolist()


@pytest.mark.parametrize(
    ("targets", "outputs"),
    [
        (torch.tensor([0, 2, 1]), 3),
        (torch.tensor([-1, 1, 1]), 2),
        (torch.tensor([0.5, 2, 1]), 1),
        (torch.zeros(3, 4), 4),
        (torch.tensor([True, False, True]), 2),
    ],
)
def test_outputs_follow_from_the_targets(tmp_path, targets, outputs):
    torch.save({"x": torch.zeros(3, 2), "y": targets}, tmp_path / "a.pt")
    assert open_data(str(tmp_path / "a.pt")).outputs == outputs


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("i-was-here"),))


def _files(folder):
    """Files that are not data, each with what is said about it."""
    np.save(folder / "objects.npy", np.array([{}, None], dtype=object))
    np.savez(folder / "objects.npz", x=np.array([{}, None], dtype=object))
    np.save(folder / "words.npy", np.array(["a", "b"]))
    np.save(folder / "one.npy", np.float64(3))
    np.save(folder / "empty.npy", np.zeros((0, 3)))
    np.savez(folder / "keys.npz", a=np.ones(3), b=np.ones(3))
    np.savez(folder / "twice.npz", x=np.ones(3), data=np.ones(3))
    np.savez(folder / "none.npz")
    np.savez(folder / "uneven.npz", x=np.ones((3, 2)), y=np.ones(4))
    torch.save(Evil(), folder / "evil.pt")
    torch.save({"x": torch.ones(2), "y": Evil()}, folder / "evil-inside.pt")
    torch.save(torch.nn.Linear(2, 2), folder / "module.pt")
    torch.save({"x": "words"}, folder / "words.pt")
    torch.save(torch.ones(50), folder / "whole.pt")
    whole = (folder / "whole.pt").read_bytes()
    (folder / "cut.pt").write_bytes(whole[: len(whole) // 2])
    (folder / "text.pt").write_text("hello")
    (folder / "nothing.npy").write_bytes(b"")
    (folder / "text.npy").write_text("hello")
    (folder / "text.npz").write_text("hello")
    save_file({"x": torch.ones(50)}, folder / "whole.safetensors")
    whole = (folder / "whole.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[:-60])
    (folder / "text.safetensors").write_text("hello, this is not it")
    (folder / "table.csv").write_text("1,2")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("objects.npy", "Python objects"),
        ("objects.npz", "Python objects"),
        ("words.npy", "must hold numbers, got an array of <U1"),
        ("one.npy", "single number 3.0"),
        ("empty.npy", r"is empty: its shape is \(0, 3\)"),
        ("keys.npz", "must name its inputs `x`.*it has `a`, `b`"),
        ("twice.npz", "`x`, `data`, any of which"),
        ("none.npz", "is empty"),
        ("uneven.npz", "4 targets for 3 inputs"),
        ("evil.pt", "could run code"),
        ("evil-inside.pt", "could run code"),
        ("module.pt", "could run code"),
        ("words.pt", "must hold numbers"),
        ("cut.pt", "is damaged"),
        ("text.pt", "could run code|is damaged"),
        ("nothing.npy", "it has no bytes"),
        ("text.npy", "damaged or not a NumPy file|Python objects"),
        ("text.npz", "damaged or not a NumPy file|Python objects"),
        ("cut.safetensors", "is damaged"),
        ("text.safetensors", "is damaged"),
        ("table.csv", "must be a file of kind .npy"),
        ("wohle.pt", "no file .*Did you mean `whole.pt`"),
        ("nowhere/a.pt", "there is no folder"),
    ],
)
def test_a_file_that_is_not_data_is_refused(tmp_path, monkeypatch, name, says):
    _files(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match=says) as refusal:
        open_data(str(tmp_path / name))
    assert "\n" not in str(refusal.value)
    assert not Path("i-was-here").exists()


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(Refusal, match="is a folder"):
        open_data(str(tmp_path / "a.npy"))


# Specs that lead nowhere


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("digit", "no data set `digit`.*Did you mean `digits`"),
        ("fashionmnist", "Did you mean `fashion-mnist`"),
        ("", "no data set ``"),
        ("gaussian", "needs the shape"),
        ("gaussian?shape=3x0", "must read like 64 or 3x32x32"),
        ("gaussian?shape=a", "must read like"),
        ("gaussian?size=3", "no option `size`; it has `shape`"),
        ("digits?split=test", "no option `split`; it has none"),
        ("digits?split", "must read"),
        ("cifar10?split=valid", "must be train or test"),
        ("loader.py", "followed by the name of a loader"),
    ],
)
def test_a_spec_that_leads_nowhere_is_refused(spec, says):
    with pytest.raises(Refusal, match=says):
        open_data(spec)


def test_no_samples_are_refused():
    with pytest.raises(Refusal, match="1 or more, got 0"):
        open_data("digits", samples=0)


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


# Precision


def test_floating_inputs_follow_the_model():
    module = torch.nn.Linear(4, 2).double()
    data = fitted(open_data("gaussian?shape=4"), module)
    assert data.inputs.dtype == torch.float64
    assert data.name.endswith("as float64")
    ids = Data({"ids": torch.ones(2, 3).long(), "mask": torch.ones(2, 3)}, None, "x", None)
    assert [t.dtype for t in fitted(ids, module).inputs.values()] == [torch.int64, torch.float64]
    pair = Data((torch.ones(2, 3), torch.ones(2, 3).double()), None, "x", None)
    assert [t.dtype for t in fitted(pair, module).inputs] == [torch.float64] * 2
    assert fitted(data, module) is data
    assert fitted(data, torch.nn.ReLU()) is data
