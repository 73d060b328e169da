import io
import os
import pickle
import re
import tracemalloc
import zipfile
from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from sigmascope.checkpoints import open_checkpoint
from sigmascope.checkpoints.pickles import read_pickle
from sigmascope.checkpoints.torch_files import BUILDS, Storage, read_torch
from sigmascope.core.guard import Refusal, memory
from tests.checkpoints.checks import by_name, mutated, numbers, opens, opens_or_refuses


@pytest.fixture(params=[True, False], ids=["zip", "older"])
def saved(tmp_path, request):
    """Saves as torch does, and as it did before 1.6."""

    def save(content):
        torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=request.param)
        return tmp_path / "a.pt"

    return save


@pytest.fixture
def old(tmp_path):
    def save(content):
        torch.save(content, tmp_path / "a.pth", _use_new_zipfile_serialization=False)
        return tmp_path / "a.pth"

    return save


def views():
    base = numbers(6, 8)
    return {
        "whole": base,
        "turned": base.t(),
        "rows": base[2:5],
        "columns": base[:, 1::3],
        "same": base[:1].expand(4, 8),
        "channels": numbers(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "five": numbers(2, 3, 2, 2, 3),
        "scalar": torch.tensor(1.5, dtype=torch.float64),
        "none": torch.zeros(0, 4),
        "half": numbers(3, 3, dtype=torch.float16),
        "brain": numbers(3, 3, dtype=torch.bfloat16),
    }


def test_views_of_every_kind_read_as_torch_saved_them(saved):
    path = saved(views())
    opens(path, views(), names=views(), format="torch.save")
    for name, tensor in torch.load(path).items():
        assert torch.equal(by_name(open_checkpoint(path))[name].read(), tensor)


def test_kinds_of_eight_bits_read_as_float32(saved):
    small = numbers(3, 4).to(torch.float8_e5m2)
    opens(saved({"w": small}), {"w": small.float()})


def test_weights_are_found_among_what_a_loop_saves(saved):
    model = nn.Linear(3, 2)
    average = {"weight": torch.zeros(2, 3)}
    content = {"epoch": 3, "optimizer": {"m": [1]}, "state_dict": model.state_dict(),
               "ema": average}  # fmt: skip
    found = opens(
        saved(content),
        {"weight": model.weight.detach(), "bias": model.bias.detach()},
        names=["weight", "bias", "epoch", "optimizer", "ema"],
    )
    assert all("which holds the weights" in left.why for left in found.left_out)
    assert ["`torch.load(...)['ema']`" in left.why for left in found.left_out] == [0, 0, 1]


def test_parameters_and_ordered_mappings_are_read(saved):
    content = OrderedDict(w=nn.Parameter(numbers(2, 3)), n=torch.arange(3))
    opens(saved(content), {"w": numbers(2, 3)}, names=["w", "n"])


def test_tied_weights_have_one_key(saved):
    w = numbers(4, 3)
    path = saved({"a": w, "b": w, "c": w.clone(), "d": w[1:]})
    a, b, c, d = (t.key() for t in open_checkpoint(path).tensors)
    assert a == b
    assert len({a, c, d}) == 3


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def test_nothing_in_a_file_is_run(saved, tmp_path):
    bad = str(tmp_path / "made")
    path = saved({"w": numbers(2, 2), "hyper": Evil(bad), "f": os.path.join})
    found = opens(path, {"w": numbers(2, 2)}, names=["w", "hyper", "f"])
    assert not os.path.exists(bad)  # noqa: PTH110
    assert found.left_out[0].why == (
        "Not a tensor but an object of `posix.mkdir`, whose code is not run."
    )


def test_a_model_saved_whole_is_refused(saved):
    says = r"must hold a state dict .*`torch.nn.modules.linear.Linear`.* whose code is not run"
    with pytest.raises(Refusal, match=says):
        open_checkpoint(saved(nn.Linear(2, 2)))


ODD = {
    "sparse": lambda: torch.eye(3).to_sparse(),
    "compressed rows": lambda: torch.eye(3).to_sparse_csr(),
    "without numbers": lambda: torch.empty(2, device="meta"),
    "quantised": lambda: torch.quantize_per_tensor(torch.ones(3, 2), 0.1, 0, torch.qint8),
    "quantised by rows": lambda: torch.quantize_per_channel(
        torch.ones(3, 2), torch.full((3,), 0.1), torch.zeros(3), 0, torch.quint8
    ),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(3, 2), torch.ones(4, 2)]),
    "conjugate": lambda: torch.ones(3, 3, dtype=torch.cfloat).conj(),
    "a kind of number": lambda: torch.float32,
    "an array": lambda: torch.ones(3, 3).numpy(),
    "a layer": lambda: torch.nn.Linear(3, 2),
    "a generator's state": lambda: torch.Generator().get_state(),
}


@pytest.mark.filterwarnings("ignore")  # of kinds that torch warns of
@pytest.mark.parametrize("kind", ODD)
def test_one_odd_tensor_leaves_the_others_readable(saved, kind):
    file = saved({"a": torch.eye(2), "odd": ODD[kind](), "w": torch.eye(3)})
    if kind.startswith("quantised") and not zipfile.is_zipfile(file):
        with pytest.raises(Refusal, match="whose size is not known"):  # others lie behind it
            open_checkpoint(file)
        return
    found = open_checkpoint(file)
    read = {t.name for t in found.tensors}
    assert {"a", "w"} <= read
    why = {t.name: t.why for t in found.left_out}
    assert "odd" in read or why["odd"]
    if kind.startswith(("sparse", "quantised")):
        assert re.search("to_dense|dequantize", why["odd"])


def test_attributes_of_a_tensor_are_left_away(saved):
    marked = torch.arange(6.0).reshape(2, 3)
    marked.split_by = "rows"
    content = {"m": marked, "b": torch.nn.Buffer(torch.ones(2, 2)), "w": torch.eye(2)}
    opens(saved(content), {k: torch.as_tensor(v) for k, v in content.items()})


def rebuilt(storage, offset, size, stride):
    """What a pickle of a tensor says, read with a storage of 64 bytes."""
    return BUILDS["torch._utils._rebuild_tensor_v2"](storage, offset, size, stride, False, {})


@pytest.mark.parametrize(
    ("offset", "size", "stride"),
    [
        (0, (17,), (1,)),
        (-1, (2,), (1,)),
        (1, (4, 4), (4, 1)),
        (0, (2, 2), (1 << 61, 1)),
        (0, (2, 2), (-4, 1)),
        (0, (2, 2), (1,)),
        (0, (1 << 62,), (0,)),
        (0, (-2,), (1,)),
        (0, (2.0,), (1,)),
        (None, (2,), (1,)),
        (0, [2], "x"),
    ],
)
def test_tensors_outside_of_their_storage_are_refused(offset, size, stride):
    with pytest.raises(Refusal):
        rebuilt(Storage("file", 0, 64, torch.float32), offset, size, stride)


def test_a_tensor_repeated_without_end_is_weighed_when_it_is_read(saved):
    endless = torch.ones(1).expand(1 << 30, 1 << 20)
    (stored,) = open_checkpoint(saved({"w": endless})).tensors
    assert stored.bytes == 4
    assert stored.read(5, 7).shape == (2, 1 << 20)
    with pytest.raises(Refusal, match=r"needs 4.19e[+]06 GiB or more"):
        stored.read()


def packed(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def members():
    """Those of an archive of a hundred numbers."""
    torch.save({"w": torch.zeros(100)}, whole := io.BytesIO())
    with zipfile.ZipFile(whole) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


NONE = {"a/data.pkl": pickle.dumps({})}
SHORT = {n: d[:-4] if n.endswith("data/0") else d for n, d in members().items()}


@pytest.mark.parametrize(
    ("members", "method", "says"),
    [
        (NONE | {"a/constants.pkl": b"x"}, 0, "is a program of TorchScript"),
        (NONE | {"a/byteorder": "big"}, 0, "bytes in an order"),
        ({"x": "y"}, 0, r"a zip, but not of `torch.save`"),
        (members(), zipfile.ZIP_DEFLATED, r"is compressed, .* save it again"),
        (SHORT, 0, "fewer bytes than it declares"),
    ],
)
def test_archives_that_torch_does_not_write_are_refused(tmp_path, members, method, says):
    packed(tmp_path / "a.pt", members, method)
    with pytest.raises(Refusal, match=says):
        open_checkpoint(tmp_path / "a.pt")


def content(archive):
    state = {"a.weight": numbers(3, 4), "b": numbers(6), "n": {"c": torch.arange(3)}}
    torch.save(state, buffer := io.BytesIO(), _use_new_zipfile_serialization=archive)
    return buffer.getvalue()


@settings(max_examples=200)
@given(data=st.one_of(*(mutated(content(a), len(content(a))) for a in (True, False))))
def test_any_bytes_open_or_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "mutated.pt"
    path.write_bytes(data)
    opens_or_refuses(path, most=64 << 20)


def test_pickles_of_storages_need_an_archive():
    with pytest.raises(Refusal, match="outside of itself"):
        read_pickle(io.BytesIO(b"\x80\x02K\x01Q."), "file", builds=BUILDS)


def test_older_files_are_read_by_ranges(old):
    path = old({"w": numbers(100, 1000), "small": numbers(2)})
    tracemalloc.start()
    found = by_name(open_checkpoint(path))
    assert torch.equal(found["w"].read(3, 5), numbers(100, 1000)[3:5])
    assert tracemalloc.get_traced_memory()[1] < 3 << 18
    tracemalloc.stop()


def test_an_older_file_that_was_cut_is_refused(old):
    path = old({"w": numbers(100, 10)})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Refusal, match="was cut"):
        open_checkpoint(path)


def test_a_file_is_weighed_before_it_is_read_whole(old):
    path = old({"w": torch.zeros(1000)})
    with memory("1kB"), pytest.raises(Refusal, match="allow more"):
        open_checkpoint(path)


def test_an_older_file_that_became_shorter_is_refused(old):
    (stored,) = open_checkpoint(old({"w": torch.zeros(1000)})).tensors
    old({"v": torch.zeros(10)})
    with pytest.raises(Refusal, match="changed since it was opened"):
        stored.read()


def test_a_file_without_bytes_is_empty_and_not_damaged(tmp_path):
    (tmp_path / "a.pt").touch()
    with pytest.raises(Refusal, match=r"a\.pt` is empty: it has no bytes\. Save it again\."):
        read_torch(str(tmp_path / "a.pt"))
