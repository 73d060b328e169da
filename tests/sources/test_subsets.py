import numpy as np
import torch

from sigmascope.sources import open_data
from sigmascope.sources.subsets import choose, classes, described


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
