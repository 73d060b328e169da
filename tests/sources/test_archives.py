"""What a file declares is weighed before it is read."""

import tracemalloc

import pytest

from sigmascope import gate
from sigmascope.sources import open_data, read_checkpoint
from tests.fuzz import world


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
    with gate.memory("100MB"), pytest.raises(gate.Refusal, match=REFUSED[name]):
        open_data(str(home / name))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20e6


@pytest.mark.parametrize("name", ["x.npy", "xy.npz", "packed.npz", "data.pt"])
def test_arrays_that_mean_well_are_read(home, name):
    assert len(open_data(str(home / name)).inputs) == 9


WEIGHTS = {
    "sparse.pt": "layout torch.sparse",
    "expanded.pt": "GiB or more of memory",
    "meta.pt": "meta device",
    "q.pt": "quantised",
    "evil.pt": "could run code",
    "cut.pt": "damaged",
    "inflated.pt": "damaged",
    "long.safetensors": "damaged",
    "claims.safetensors": "damaged",
    "list.pt": "must hold a state dict",
    "nested.pt": "something else",
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_mean_harm_are_refused(home, name):
    with gate.memory("1GB"), pytest.raises(gate.Refusal, match=WEIGHTS[name]):
        read_checkpoint(home / name)
    assert not (home / "it_ran").exists()


@pytest.mark.parametrize("name", ["good.pt", "good.safetensors", "old.pth"])
def test_weights_that_mean_well_are_read(home, name):
    assert len(read_checkpoint(home / name)) == 4


def test_a_budget_that_is_raised_lets_more_in(home):
    with gate.memory("1MB"), pytest.raises(gate.Refusal, match="SIGMASCOPE_MEMORY"):
        open_data("gaussian?shape=1000x1000")
    with gate.memory("1GB"):
        assert open_data("gaussian?shape=1000x1000", samples=2).shape == (1000, 1000)
