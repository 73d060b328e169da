"""What every format is held to."""

import pickle

import torch

from sigmascope.sources.stored import Checkpoint, open_checkpoint


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
