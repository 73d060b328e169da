import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.sources import Data, fitted, open_data
from sigmascope.sources.data import halves, turned


def test_no_samples_are_refused():
    with pytest.raises(Refusal, match="1 or more, got 0"):
        open_data("digits", samples=0)


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


@pytest.mark.parametrize("total", range(2, 8))
def test_halves_share_no_sample_and_hold_them_all(total):
    x = torch.arange(float(total))[:, None]
    first, second = halves(Data(x, 10 * x[:, 0], "set", 1))
    sizes = len(first.inputs), len(second.inputs)
    assert sizes == ((total + 1) // 2, total // 2)
    both = torch.cat([first.inputs, second.inputs])[:, 0]
    assert sorted(both.tolist()) == list(range(total))
    for half, size in zip((first, second), sizes, strict=True):
        assert torch.equal(half.targets, 10 * half.inputs[:, 0])
        assert half.name == f"set, {size} of them"


def test_one_sample_has_no_halves():
    with pytest.raises(Refusal, match="two samples or more to be halved, got 1"):
        halves(Data(torch.ones(1, 3), None, "set", None))
    assert halves(Data(torch.ones(4, 3), None, "set", None))[0].targets is None


@pytest.mark.parametrize(("dim", "shape"), [(0, (4, 3, 2)), (1, (3, 4, 2)), (2, (3, 2, 4))])
def test_samples_are_moved_to_their_dimension_where_a_tensor_has_it(dim, shape):
    data = Data((torch.ones(4, 3, 2), torch.ones(4)), None, "set", None)
    rows, ids = turned(data, dim).inputs
    assert rows.shape == shape
    assert ids.shape == (4,)


@pytest.mark.parametrize("dim", [-1, 3])
def test_a_dimension_that_no_tensor_has_is_refused(dim):
    data = Data((torch.ones(4, 3, 2), torch.ones(4)), None, "set", None)
    with pytest.raises(Refusal, match=f"from 0 to 2, .* got {dim}"):
        turned(data, dim)


def test_numbers_beyond_the_models_precision_are_refused_and_gaps_are_kept():
    module = torch.nn.Linear(2, 1)
    for value, fits in ((3e38, True), (1e39, False), (float("nan"), True), (float("inf"), True)):
        data = Data(torch.tensor([[0.0, value]], dtype=torch.float64), None, "set", None)
        if fits:
            assert fitted(data, module).inputs.dtype == torch.float32
        else:
            with pytest.raises(Refusal, match=r"must fit the model's float32, got 1e\+39"):
                fitted(data, module)


@pytest.mark.parametrize("spec", ["x" * 5000, "a\0b"])
def test_what_is_no_name_of_a_file_is_no_data_set(spec):
    with pytest.raises(Refusal, match="There is no data set"):
        open_data(spec)


def test_a_file_of_another_kind_is_read_or_refused_as_a_file(tmp_path):
    (tmp_path / "rows.csv").write_text("1,2")
    with pytest.raises(Refusal, match="must be a file of kind"):
        open_data(str(tmp_path / "rows.csv"))
    with pytest.raises(Refusal, match="There is no data set"):
        open_data(str(tmp_path / "none.csv"))
    with pytest.raises(Refusal, match="no file"):
        open_data(str(tmp_path / "none.npy"))
