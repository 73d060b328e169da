import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.sources import Data, open_data
from sigmascope.sources.samples import chosen_data


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


def test_targets_that_were_not_chosen_may_be_unknown():
    x = torch.arange(4.0).unsqueeze(1)
    for gaps, first in (([3], 3), ([0, 2], 0)):
        y = torch.arange(4.0)
        y[gaps] = float("nan")
        says = rf"got {len(gaps)} of 4 samples .* the first in row {first}: leave"
        with pytest.raises(Refusal, match=says):
            chosen_data("here", x, y, None, None)
        rows = chosen_data("here", x, torch.arange(4.0), 1, None).inputs[0].long()
        y = torch.full((4,), float("nan"))
        y[rows] = 7.0
        assert chosen_data("here", x, y, 1, None).targets.tolist() == [7.0]


def test_a_row_of_several_targets_counts_once():
    y = torch.zeros(3, 2)
    y[1] = float("inf")
    with pytest.raises(Refusal, match="got 1 of 3 samples"):
        chosen_data("here", torch.ones(3, 2), y, None, None)


def test_a_sample_of_several_tensors_has_no_shape():
    assert Data((torch.ones(2, 3), torch.ones(2, 4)), None, "pair", None).shape is None
    assert Data(torch.ones(2, 3, 4), None, "one", None).shape == (3, 4)
