"""Copies of weights in a file without a name, where memory has no room for them."""

import os
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal, memory
from sigmascope.models.samples import run
from sigmascope.models.state import LARGE, PIECE, Spill, spills, still

WIDTH = 1500  # weights of nine megabytes: two pieces and a bit


class Overwrites(nn.Module):
    """Changes its weights in every run, without a trace in any counter, and may fail then."""

    def __init__(self, fails=False):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.fails = fails

    def forward(self, x):
        self.layer.weight.data.mul_(2)
        self.layer.weight.data[0, 0] = float("nan")
        self.layer.bias.data.add_(1)
        if self.fails:
            raise KeyboardInterrupt
        return self.layer(x)


@pytest.fixture
def put(monkeypatch):
    """Bytes of the tensors that are written to files."""
    seen, write = [], Spill.put

    def watched(self, t):
        seen.append(t.numel() * t.itemsize)
        return write(self, t)

    monkeypatch.setattr(Spill, "put", watched)
    return seen


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_model_that_overwrites_its_weights_is_put_right_from_the_file(put, folder):
    net = Overwrites()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    for _ in range(2):
        with memory("10MB"), still(net), torch.no_grad():
            run(net, torch.ones(1, WIDTH))
        assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert put == [4 * WIDTH * WIDTH] * 2
    assert not [*folder.iterdir()]


def test_ctrl_c_in_the_run_leaves_weights_as_they_were(put, folder):
    net = Overwrites(fails=True)
    before = net.layer.weight.detach().clone()
    with pytest.raises(KeyboardInterrupt), memory("10MB"), still(net), torch.no_grad():
        run(net, torch.ones(1, WIDTH))
    assert torch.equal(net.layer.weight, before)
    assert put
    assert not [*folder.iterdir()]


def test_copies_stay_in_memory_where_they_fit(put):
    net = Overwrites()
    with memory("40MB"), still(net), torch.no_grad():
        run(net, torch.ones(1, WIDTH))
    assert not put


def test_weights_that_the_first_run_left_alone_are_not_written_again(put):
    net = nn.Linear(WIDTH, WIDTH)
    with memory("10MB"):
        for _ in range(3):
            with still(net), torch.no_grad():
                run(net, torch.ones(1, WIDTH))
    assert put == [4 * WIDTH * WIDTH]


@pytest.mark.parametrize(
    "t",
    [
        torch.arange(3.0e6),
        torch.arange(3e6, dtype=torch.float64).view(1000, 3000).T,
        torch.arange(3e6).to(torch.bfloat16)[1:],
        torch.zeros(20, 3, 200, 200).to(memory_format=torch.channels_last),
        torch.full((1000, 1000), -0.0),
    ],
)
def test_every_bit_comes_back_whatever_the_layout(t):
    assert spills(t)
    before, copy = t.clone(), Spill(10**8, 0.5).put(t)
    assert copy.holds(t)
    for place in (0, -1):
        spot = tuple(place for _ in t.shape)
        t[spot] = 7
        assert not copy.holds(t)
        copy.restore(t)
        assert copy.holds(t)
    assert torch.equal(t, before)
    assert torch.equal(t.signbit(), before.signbit())


@pytest.mark.parametrize(
    "t",
    [
        torch.zeros(LARGE // 4 - 1),
        torch.zeros(1, 1).expand(2000, 2000),
        torch.zeros(2000, 4000)[:, ::2],
        torch.zeros(1000, 1000).to_sparse(),
        torch.zeros(10**6, dtype=torch.complex64),
        torch.zeros(10**6, device="meta"),
    ],
)
def test_what_is_small_or_lies_in_many_places_is_not_written(t):
    assert not spills(t)


def test_several_share_a_file():
    file = Spill(10**8, 0.5)
    a, b = torch.ones(PIECE // 4 + 5), torch.full((PIECE // 2,), 2.0)
    kept = [file.put(a), file.put(b)]
    del file
    assert kept[0].holds(a)
    assert kept[1].holds(b)


def test_without_room_on_disk_it_is_said_what_is_needed(monkeypatch):
    free = namedtuple("usage", "total used free")(0, 0, 10)
    monkeypatch.setattr("shutil.disk_usage", lambda _: free)
    net = nn.Linear(WIDTH, WIDTH)
    words = r"copy of its weights, 8\.58 MiB.* got: 10 bytes are free\. Allow 17\.2 MiB .*TMPDIR="
    with pytest.raises(Refusal, match=words), memory("10MB"), still(net):
        pass


def test_a_disk_that_fills_up_meanwhile_is_said(monkeypatch):
    class Full:
        def seek(self, place): ...
        def close(self): ...
        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    with pytest.raises(Refusal, match=r"No space left on device.*TMPDIR="):
        Spill(10, 0.5).put(torch.zeros(10**6))


@pytest.mark.skipif(sys.platform != "linux", reason="a file that is open has its name there")
def test_a_process_that_is_killed_leaves_no_file(tmp_path):
    code = (
        "import os, signal, torch\n"
        "from sigmascope.models.state import Spill\n"
        "kept = Spill(10**7, 0.5).put(torch.zeros(10**6))\n"
        "print(os.fstat(kept.file.file.fileno()).st_size, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    where = {**os.environ, "TMPDIR": str(tmp_path)}
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env=where, capture_output=True)
    assert int(done.stdout) == 4 * 10**6
    assert done.returncode < 0
    assert not [*tmp_path.iterdir()]
