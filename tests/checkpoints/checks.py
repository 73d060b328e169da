"""What every format is held to."""

import pickle
import tracemalloc

import torch
from hypothesis import strategies as st

from sigmascope.checkpoints import Checkpoint, open_checkpoint
from sigmascope.core.guard import Refusal


def by_name(checkpoint):
    return {tensor.name: tensor for tensor in checkpoint.tensors}


def raw_names(checkpoint):
    """Every name that is accounted for, sorted, each as often as it is."""
    held = [*checkpoint.tensors, *(s for a in checkpoint.adapters for s in (a.A, a.B))]
    return sorted(
        [n for t in held for n in t.tensors] + [entry.name for entry in checkpoint.left_out]
    )


def same(got, want):
    """Equal bit for bit, of the same kind and shape, NaN where NaN is."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.device.type == "cpu"
    assert got.is_contiguous()
    assert torch.equal(torch.nan_to_num(got, nan=7.0), torch.nan_to_num(want, nan=7.0))


def reads(stored, want):
    """A tensor reads as `want`, whole and by rows, also after a pickling."""
    assert stored.shape == tuple(want.shape)
    same(stored.read(), want)
    again = pickle.loads(pickle.dumps(stored))
    assert again.name == stored.name
    assert again.shape == stored.shape
    if not stored.shape:
        same(again.read(), want)
        return
    n = stored.shape[0]
    for start, stop in (
        (0, n),
        (0, 1),
        (n // 2, n),
        (max(n - 1, 0), n),
        (n // 3, n // 2),
        (n, n),
        (1, n + 9),
    ):
        same(again.read(start, stop), want[start:stop])


def opens(source, wanted, *, names=None, format=None):
    """A checkpoint has these tensors, and every raw name is accounted for once."""
    found = open_checkpoint(source)
    assert isinstance(found, Checkpoint)
    if names is not None:
        assert raw_names(found) == sorted(names)
    if format is not None:
        assert found.format == format
    assert sorted(by_name(found)) == sorted(wanted)
    for name, tensor in wanted.items():
        reads(by_name(found)[name], tensor)
    return found


def numbers(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@st.composite
def mutated(draw, valid, head, body=0):
    """Bytes of a file with some of its first ones changed, taken out, put in, or its end cut."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, min(head, len(data)) - 1))
        what = draw(st.sampled_from(["set", "insert", "delete", "cut", "digits"]))
        if what == "set":
            data[at] = draw(st.integers(0, 255))
        elif what == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=9))
        elif what == "delete":
            del data[at : at + draw(st.integers(1, 9))]
        elif what == "digits":
            data[at : at + 1] = str(draw(st.integers(-(1 << 70), 1 << 70))).encode()
        else:
            del data[draw(st.integers(at, len(data))) :]
        if not data:
            break
    if draw(st.booleans()) and len(data) > 8 and valid[8:9] == b"{":  # so that the JSON is reached
        data[:8] = (len(data) - 8 - body).to_bytes(8, "little", signed=True)
    return bytes(data)


def opens_or_refuses(path, most=4 << 20):
    """Every tensor is inside of the file and reads, or there is a refusal; little is asked."""
    said = "fine"
    tracemalloc.start()
    try:
        found = open_checkpoint(path)
        size = sum(p.stat().st_size for p in (path.iterdir() if path.is_dir() else [path]))
        for tensor in found.tensors:
            assert tensor.bytes <= size
            assert tensor.read().shape == tensor.shape
            assert tensor.read(1, 2).shape[1:] == tensor.shape[1:]
    except Refusal as error:
        said = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < most
    assert said.isprintable()
