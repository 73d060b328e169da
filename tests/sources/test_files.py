"""What a file declares is weighed before it is read."""

import gzip
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sigmascope.core import guard
from sigmascope.core.guard import Refusal
from sigmascope.sources import open_data
from sigmascope.sources.files import read_idx
from tests.fuzz import world
from tests.sources.idx import write_idx


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=generator(seed))


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


@pytest.mark.parametrize("form", ["of today", "compressed", "of torch before 1.6"])
def test_what_torch_saved_is_read_however_its_bytes_lie(form, tmp_path):
    path, x = tmp_path / "x.pt", numbers(9, 4)
    torch.save(x, path, _use_new_zipfile_serialization=form != "of torch before 1.6")
    if form == "compressed":
        with zipfile.ZipFile(path) as plain:
            held = {name: plain.read(name) for name in plain.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in held.items():
                packed.writestr(name, content)
    assert torch.equal(open_data(str(path)).inputs, x)


def test_values_are_left_as_they_are(tmp_path):
    for dtype in ("uint8", "float64", "float16", ">f4", "int32"):
        array = np.arange(6).reshape(3, 2).astype(dtype)
        np.save(tmp_path / "a.npy", array)
        inputs = open_data(str(tmp_path / "a.npy")).inputs
        assert str(inputs.dtype).removeprefix("torch.") == np.dtype(dtype).newbyteorder("=").name
        assert inputs.tolist() == array.tolist()


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
    (folder / "images" / "cat").mkdir(parents=True)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("objects.npy", "Python objects"),
        ("objects.npz", "Python objects"),
        ("words.npy", "must hold numbers, got an array of <U1. Number them: `numpy.unique"),
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
        ("table.csv", "must be a file of kind .npy.*a function that reads it.*`file.py:function`"),
        ("images", "is a folder; name a file in it, or write a function that reads it"),
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


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays")
    world.build(folder)
    return folder


REFUSED = {
    "claims.npy": "must hold 17592186044416 bytes|GiB or more of memory",
    "claims_zero.npy": "must hold 0 bytes|at least one sample|declares",
    "cut.npy": "must hold .* it is damaged",
    "head.npy": "damaged or not a NumPy file",
    "future.npy": "damaged or not a NumPy file",
    "negative.npy": "must hold|damaged",
    "deep.npy": "damaged or not a NumPy file",
    "sparse.npy": "or more of memory|damaged",
    "bomb.npz": "unpacked, needs 256 MiB",
    "many.npz": "damaged or not a NumPy file|must name its inputs|holds no arrays",
    "locked.npz": "is encrypted",
    "method.npz": "uses method 97",
    "flipped.npz": "damaged",
    "cut.npz": "damaged",
    "words.npy": "must hold numbers",
    "objects.npy": "could run code",
    "fields.npy": "must hold numbers",
    "date.npy": "must hold numbers",
    "pipe.npy": "device, pipe or socket",
    "empty.npy": "it has no bytes",
}


@pytest.mark.parametrize("name", REFUSED)
def test_arrays_that_mean_harm_are_refused_cheaply(home, name):
    tracemalloc.start()
    with guard.memory("100MB"), pytest.raises(guard.Refusal, match=REFUSED[name]):
        open_data(str(home / name))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20e6


@pytest.mark.parametrize("name", ["x.npy", "xy.npz", "packed.npz", "data.pt"])
def test_arrays_that_mean_well_are_read(home, name):
    assert len(open_data(str(home / name)).inputs) == 9


def test_a_budget_that_is_raised_lets_more_in(home):
    with guard.memory("1MB"), pytest.raises(guard.Refusal, match="SIGMASCOPE_MEMORY"):
        open_data("gaussian?shape=1000x1000")
    with guard.memory("1GB"):
        assert open_data("gaussian?shape=1000x1000", samples=2).shape == (1000, 1000)


def shared(depth, of):
    for _ in range(depth):
        of = [of, of]
    return of


@pytest.mark.parametrize(
    "content",
    [
        shared(60, 1.0),
        {"x": shared(60, [torch.zeros(2)])},
        {"x": torch.zeros(4, 2), "y": (shared(40, 1.0),)},
        [circle := [1.0], circle.append(circle)],
    ],
    ids=["numbers", "tensors", "targets", "circle"],
)
def test_lists_that_share_their_parts_are_weighed_as_they_would_be_written_out(content, tmp_path):
    torch.save(content, tmp_path / "x.pt")
    assert (tmp_path / "x.pt").stat().st_size < 5000
    with pytest.raises(Refusal, match="written out"):
        open_data(str(tmp_path / "x.pt"))


def test_lists_that_share_a_little_are_read(tmp_path):
    row = [1.0, 2.0]
    torch.save({"x": [row] * 30, "y": [0, 1, 2] * 10}, tmp_path / "x.pt")
    assert open_data(str(tmp_path / "x.pt")).inputs.shape == (30, 2)


def test_what_a_list_takes_in_memory_is_weighed(tmp_path):
    torch.save([float(i) for i in range(1000)], tmp_path / "x.pt")
    needed = 32 * 1001  # 32 bytes for each number, and for the list
    with guard.memory(needed):
        assert len(open_data(str(tmp_path / "x.pt"), samples=None).inputs) == 1000
    with guard.memory(needed - 1), pytest.raises(Refusal, match="written out"):
        open_data(str(tmp_path / "x.pt"))


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (2, 1, 3, 2)])
def test_idx_files_of_every_number_of_dimensions_are_read(tmp_path, shape):
    array = (np.arange(np.prod(shape)) % 256).astype(np.uint8).reshape(shape)
    write_idx(tmp_path / "a.gz", array)
    assert read_idx(tmp_path / "a.gz").tolist() == array.tolist()
    content = gzip.decompress((tmp_path / "a.gz").read_bytes())
    for damaged, says in (
        (content[:-1], f"must hold {array.size} bytes, got {array.size - 1}"),
        (content + b"0", f"must hold {array.size} bytes, got {array.size + 1}"),
        (content[: 4 + 4 * len(shape) - 1], "not an idx file"),
        (content[:3], "not an idx file"),
        (b"\0\0\x09" + content[3:], "not an idx file"),
    ):
        (tmp_path / "b").write_bytes(damaged)
        with pytest.raises(Refusal, match=says):
            read_idx(tmp_path / "b")


def test_a_folder_with_a_data_file_is_still_a_folder(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    with pytest.raises(Refusal, match="folder"):
        open_data(str(tmp_path))
