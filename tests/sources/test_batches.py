import numpy as np
import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.sources import open_data
from sigmascope.sources.batches import as_batch, as_tensor, count, joined, parts, split, take


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


def test_an_array_that_runs_backwards_is_read():
    assert as_tensor(np.arange(3)[::-1], place="x").tolist() == [2, 1, 0]


def test_a_tensor_is_read_in_the_order_of_its_bytes():
    array = np.array([[1, 2], [3, 4]], dtype=">i2")
    assert as_tensor(array, place="it").tolist() == [[1, 2], [3, 4]]
    long = as_tensor(torch.tensor([[1, 2**32 - 1]], dtype=torch.uint32), place="it")
    assert (long.dtype, long.tolist()) == (torch.int64, [[1, 2**32 - 1]])
    assert not as_tensor(torch.ones(2, requires_grad=True), place="it").requires_grad


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "it must hold numbers, got None"),
        (["a"], "it must hold numbers, got a value of type list"),
        (3, "got the single number 3"),
        ([[], []], r"it is empty: its shape is \(2, 0\)"),
        (np.array([2**63], dtype=np.uint64), "it must fit 63 bits"),
    ],
)
def test_what_holds_no_rows_of_numbers_is_refused(value, says):
    with pytest.raises(Refusal, match=says):
        as_tensor(value, place="it")


def test_parts_have_one_row_a_sample_each():
    with pytest.raises(Refusal, match=r"^it must .* got parts of 2 and 3 rows\. What has no"):
        as_batch({"a": torch.ones(2), "b": torch.ones(3)}, place="it")
    with pytest.raises(Refusal, match=r"it\['b'\] must hold numbers"):
        as_batch({"a": torch.ones(2), "b": None}, place="it")


def test_batches_of_every_kind_are_joined_and_taken_apart():
    kinds = (
        torch.arange(6).view(3, 2),
        (torch.arange(3), torch.arange(6).view(3, 2)),
        {"ids": torch.arange(3), "mask": torch.ones(3, 2)},
    )
    for batch in kinds:
        halves = [take(batch, torch.tensor(rows)) for rows in ([0], [1, 2])]
        assert [count(half) for half in halves] == [1, 2]
        whole = joined(halves, place="it")
        assert type(whole) is type(batch)
        pairs = zip(parts(whole), parts(batch), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    "second", [torch.ones(2, 4), (torch.ones(2, 3),), {"x": torch.ones(2, 3)}],
    ids=["wider", "a tuple", "a mapping"],
)  # fmt: skip
def test_batches_that_differ_are_not_joined(second):
    with pytest.raises(Refusal, match="The batches of it cannot be joined"):
        joined([torch.ones(2, 3), second], place="it")


def test_arguments_of_the_model_come_before_names_of_inputs():
    content = {"x": 1, "mask": 2, "Labels": 3}
    assert split(content, place="it", strict=True) == (1, 3)
    assert split(content, place="it", strict=True, takes={"x", "mask"}) == (
        {"x": 1, "mask": 2},
        3,
    )
    assert split({"a": 1, "b": 2}, place="it", strict=False) == ({"a": 1, "b": 2}, None)
    with pytest.raises(Refusal, match="`y`, `label`, any of which may be meant"):
        split({"x": 1, "y": 2, "label": 3}, place="it", strict=True)
