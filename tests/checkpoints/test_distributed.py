import os
import pickle
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import given, settings, strategies as st
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from sigmascope.checkpoints import open_checkpoint
from sigmascope.checkpoints.distributed import METADATA
from sigmascope.core.guard import Refusal
from tests.checkpoints.checks import by_name, mutated, numbers, opens, opens_or_refuses

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed")


def saved(folder, state):
    dcp.save(state, checkpoint_id=folder)
    return folder


def state():
    return {
        "w": numbers(6, 4),
        "turned": numbers(6, 4).t(),
        "half": numbers(3, 2, dtype=torch.bfloat16),
        "scalar": torch.tensor(2.0),
        "small": numbers(2, 2).to(torch.float8_e4m3fn),
        "ids": torch.arange(3),
    }


def test_tensors_read_as_torch_saved_them(tmp_path):
    content = {"model": state(), "optim": {"m": torch.ones(2)}, "step": 3}
    wanted = {n: t.float() if n == "small" else t for n, t in state().items() if n != "ids"}
    names = [f"model.{n}" for n in state()] + ["optim.m", "step"]
    found = opens(
        saved(tmp_path, content), wanted, names=names, format="torch.distributed.checkpoint"
    )
    why = {entry.name: entry.why for entry in found.left_out}
    assert why["optim.m"] == "Of the training loop, not weights."
    assert why["step"].startswith("An object that was pickled whole")
    opens(tmp_path / METADATA, wanted)


def changed(folder, change):
    """Change the metadata, as torch reads and writes it."""
    metadata = pickle.loads((folder / METADATA).read_bytes())
    change(metadata)
    (folder / METADATA).write_bytes(pickle.dumps(metadata))


def sharded(folder, tensor, boxes):
    """A tensor whose boxes are tensors of their own, as ranks write them."""
    parts = {f"part{n}": tensor[box].contiguous() for n, box in enumerate(boxes)}
    saved(folder, parts)

    def joined(metadata):
        properties = TensorProperties(dtype=tensor.dtype)
        entry = TensorStorageMetadata(properties, tensor.shape, [])
        for n, box in enumerate(boxes):
            first = torch.Size(s.indices(k)[0] for s, k in zip(box, tensor.shape, strict=True))
            entry.chunks.append(ChunkStorageMetadata(first, parts[f"part{n}"].shape))
            old = MetadataIndex(f"part{n}", torch.Size([0] * tensor.ndim))
            metadata.storage_data[MetadataIndex("w", first, n)] = metadata.storage_data.pop(old)
        metadata.state_dict_metadata = {"w": entry}

    changed(folder, joined)


S = slice
ROWS = [(S(0, 2), S(None)), (S(2, 5), S(None)), (S(5, 9), S(None))]
BOXES = [(S(0, 4), S(0, 3)), (S(0, 4), S(3, 5)), (S(4, 9), S(0, 1)), (S(4, 9), S(1, 5))]


@pytest.mark.parametrize("boxes", [ROWS, BOXES])
def test_boxes_are_put_together(tmp_path, boxes):
    sharded(tmp_path, numbers(9, 5), boxes)
    opens(tmp_path, {"w": numbers(9, 5)}, names=["w"])


@pytest.mark.parametrize("boxes", [ROWS[:2], [*ROWS[:2], ROWS[1], ROWS[0]], [*BOXES, BOXES[0]]])
def test_boxes_that_do_not_make_up_a_tensor_are_refused(tmp_path, boxes):
    with pytest.raises((Refusal, KeyError)):  # noqa: PT012
        sharded(tmp_path, numbers(9, 5), boxes)
        open_checkpoint(tmp_path)


def infos(metadata):
    return next(iter(metadata.storage_data.values()))


def entry(metadata):
    return next(iter(metadata.state_dict_metadata.values()))


def set_to(of, **fields):
    def change(metadata):
        for name, value in fields.items():
            setattr(of(metadata), name, value)

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (set_to(infos, relative_path="../x"), "leads out of it"),
        (set_to(infos, relative_path="/etc/passwd"), "leads out of it"),
        (set_to(infos, relative_path="gone.distcp"), "cannot be read"),
        (set_to(infos, relative_path=3), "a chunk has no place"),
        (set_to(infos, offset=1 << 40), "a chunk lies outside of `__0_0.distcp`"),
        (set_to(infos, offset=-1), "a chunk lies outside"),
        (set_to(entry, size=torch.Size([1 << 40, 1 << 40])), "not beyond all memory"),
        (set_to(entry, size=torch.Size([7, 4])), "its chunks do not make it up"),
        (set_to(entry, size=torch.Size([3, 4])), "a chunk lies outside of it"),
        (set_to(entry, chunks=[]), "its chunks do not make it up"),
        (set_to(lambda m: m, storage_data=3), "is not the metadata"),
    ],
)
def test_metadata_that_lies_is_refused(tmp_path, change, says):
    changed(saved(tmp_path, {"w": numbers(6, 4)}), change)
    with pytest.raises(Refusal, match=says):
        open_checkpoint(tmp_path)


def test_chunks_of_a_codec_are_left_out(tmp_path):
    changed(saved(tmp_path, {"w": numbers(6, 4)}), set_to(infos, transform_descriptors=["zstd"]))
    assert "changed by a codec" in open_checkpoint(tmp_path).left_out[0].why


def test_chunks_that_are_not_where_they_are_said_to_be_are_refused(tmp_path):
    saved(tmp_path, {"w": numbers(6, 4)})
    (stored,) = open_checkpoint(tmp_path).tensors
    path = tmp_path / "__0_0.distcp"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(Refusal, match="damaged"):
        stored.read()


def test_metadata_runs_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "made"),))

    (tmp_path / METADATA).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(Refusal, match="is not the metadata"):
        open_checkpoint(tmp_path)
    assert not Path(tmp_path, "made").exists()


@pytest.mark.parametrize("data", [b"", b"x", pickle.dumps({}), pickle.dumps(Path("x"))])
def test_other_pickles_are_refused(tmp_path, data):
    (tmp_path / METADATA).write_bytes(data)
    with pytest.raises(Refusal):
        open_checkpoint(tmp_path)


def test_keys_tell_tensors_apart(tmp_path):
    found = by_name(open_checkpoint(saved(tmp_path, {"a": torch.ones(2), "b": torch.ones(2)})))
    assert found["a"].key() != found["b"].key()


def test_any_bytes_open_or_are_refused(tmp_path_factory):
    folder = saved(tmp_path_factory.mktemp("distributed"), {"w": numbers(6, 4), "b": numbers(3)})
    whole = {name: (folder / name).read_bytes() for name in (METADATA, "__0_0.distcp")}

    @settings(max_examples=80)
    @given(st.data())
    def opened(data):
        for name, content in whole.items():
            (folder / name).write_bytes(content)
        name = data.draw(st.sampled_from(sorted(whole)))
        (folder / name).write_bytes(data.draw(mutated(whole[name], len(whole[name]))))
        opens_or_refuses(folder)

    opened()
