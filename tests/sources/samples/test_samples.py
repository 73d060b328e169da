import numpy as np
import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.sources import Data, open_data
from sigmascope.sources.samples import choose, chosen_data, classes, described, outputs_for


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


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_subset_is_the_same_each_time_and_balanced():
    first, second = open_data("digits", samples=100), open_data("digits", samples=100)
    assert torch.equal(first.inputs, second.inputs)
    assert first.targets.bincount().tolist() == [10] * 10
    other = open_data("digits", samples=100, generator=generator(1))
    assert other.name.endswith("(seed 1)")
    assert not torch.equal(other.targets, first.targets)


def test_a_large_file_is_sampled_with_its_targets(tmp_path):
    x = torch.arange(1000).unsqueeze(1).float()
    np.savez(tmp_path / "a.npz", x=x.numpy(), y=(np.arange(1000) % 4))
    data = open_data(str(tmp_path / "a.npz"), samples=40)
    assert data.targets.bincount().tolist() == [10] * 4
    assert torch.equal(data.inputs[:, 0].long() % 4, data.targets)


def test_a_class_that_runs_out_leaves_room_to_the_others():
    labels = torch.tensor([0] * 9 + [1] * 2 + [2] * 9)
    for samples, counts in ((6, [2, 2, 2]), (10, [4, 2, 4]), (12, [5, 2, 5])):
        rows = choose(20, labels, samples=samples, generator=generator())
        assert len(set(rows.tolist())) == samples
        assert labels[rows].bincount(minlength=3).tolist() == counts


def test_without_classes_any_samples_are_chosen():
    rows = choose(50, None, samples=20, generator=None)
    assert len(set(rows.tolist())) == 20
    assert rows.tolist() != sorted(rows.tolist())
    assert torch.equal(rows, choose(50, None, samples=20, generator=generator(0)))
    assert choose(5, None, samples=5, generator=None).tolist() == [0, 1, 2, 3, 4]


def test_classes_are_whole_numbers_of_few_values():
    few, many = torch.arange(1000), torch.arange(1001)
    assert classes(few) is few
    assert classes(many) is None
    assert classes(many, most=1001) is many
    for none in (None, few.float(), few.unsqueeze(1), few.to(torch.complex64)):
        assert classes(none) is None


def test_a_choice_is_described_with_its_seed():
    of = lambda taken, **how: described("set", taken, 9, **how)
    assert of(9, balanced=True, generator=None) == "set, all 9 samples"
    assert of(4, balanced=False, generator=generator(7)) == (
        "set, 4 of 9 samples drawn at random (seed 7)"
    )


@pytest.mark.parametrize(
    ("targets", "outputs"),
    [
        (None, None),
        (torch.tensor([-1, 5, 5, 3]), 3),
        (torch.tensor([0, 5]), 6),
        (torch.tensor([-2, -1]), 2),
        (torch.zeros(3, 4, 5), 20),
        (torch.zeros(3, 1), 1),
        (torch.zeros(3), 1),
        (torch.zeros(3, dtype=torch.complex64), 1),
        (torch.zeros(3, 2, dtype=torch.complex64), 2),
        (torch.tensor([[0, 3], [1, 2]]), 4),
    ],
)
def test_outputs_are_classes_or_values_of_a_sample(targets, outputs):
    assert outputs_for(targets) == outputs


@pytest.mark.parametrize("samples", [1, 3, 4, 5, 6, None])
def test_as_many_are_chosen_as_were_asked_for_and_there_are(samples):
    for labels in (None, torch.tensor([0, 0, 0, 1, 2])):
        rows = choose(5, labels, samples=samples, generator=None)
        assert len(set(rows.tolist())) == len(rows) == min(5, samples or 5)
