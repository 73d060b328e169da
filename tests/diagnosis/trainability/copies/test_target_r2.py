"""How much outputs tell of targets, on numbers worked out by hand."""

import pytest
import torch

from sigmascope.diagnosis.trainability.copies import right_share, target_share, thinned


def test_outputs_that_are_the_targets_tell_all():
    y = torch.tensor([[1.0], [2.0], [4.0], [9.0]])
    told, aligned = target_share(y, y)
    assert told == pytest.approx(1, abs=1e-5)
    assert aligned == pytest.approx(1)
    told, aligned = target_share(-3 * y + 7, y)
    assert told == pytest.approx(1, abs=1e-5)
    assert aligned == pytest.approx(-3)


def test_half_of_the_variance_is_told_by_one_of_two_parts():
    x = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    y = x + torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    assert target_share(x, y) == pytest.approx((0.5, 0.5), rel=1e-5)


def test_classes_that_have_no_score_are_left_out():
    """The class 4 of 3 scores, as labels to be ignored are."""
    scores = torch.eye(3)[[0, 1, 2, 0, 1, 2]]
    classes = torch.tensor([0, 1, 2, 0, 1, 4])
    told, aligned = target_share(scores, classes)
    # columns 0 and 1 are told whole; of class 2 the indicator (0,0,1,0,0,0) by (0,0,1,0,0,1)
    sizes = [4 / 3, 4 / 3, 5 / 6]
    assert aligned == pytest.approx((4 / 3 + 4 / 3 + 1 - 2 / 6) / sum(sizes))
    assert told == pytest.approx((4 / 3 + 4 / 3 + (2 / 3) ** 2 / (4 / 3)) / sum(sizes), rel=1e-5)
    assert target_share(scores, torch.tensor([-100, 1, 2, 0, 1, 2]))[0] > 0.8


@pytest.mark.parametrize("output", [torch.ones(4, 2), torch.full((4, 2), torch.inf)])
def test_outputs_that_do_not_vary_tell_nothing(output):
    assert target_share(output, torch.arange(4) % 2) == (0.0, 0.0)


def test_more_columns_than_rows_tell_as_much():
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(4, 9, generator=g)
    y = rows @ torch.randn(9, 9, generator=g)
    assert target_share(rows, y)[0] == pytest.approx(1, abs=1e-4)


def test_right_answers_are_counted_above_the_most_frequent_class():
    """Of 3 classes with shares 1/2, 1/4, 1/4: three of four right is half of the way up."""
    classes = torch.tensor([0, 0, 1, 2])
    scores = torch.eye(3)[[0, 0, 1, 0]]
    assert right_share(scores, classes) == pytest.approx(0.5)
    assert right_share(torch.eye(3)[[0, 0, 0, 0]], classes) == 0
    assert right_share(torch.eye(3)[[1, 1, 2, 1]], classes) == 0
    assert right_share(torch.eye(3)[[0, 0, 1, 2]], classes) == 1
    # classes that have no score, as those to be ignored, are left out
    assert right_share(scores, torch.tensor([0, 0, 1, -100])) == 1


def test_there_are_no_right_answers_without_classes():
    assert right_share(torch.randn(4, 2), torch.randn(4, 2)) is None
    assert right_share(torch.randn(4, 2), torch.zeros(4, dtype=torch.long)) is None
    assert right_share(torch.randn(4, 1), torch.arange(4) % 2) is None
    assert right_share(torch.randn(4, 2), None) is None
    assert right_share(torch.randn(3, 2), torch.arange(4) % 2) is None


def test_rows_are_thinned_evenly():
    scores, classes = thinned(torch.randn(4, 50, 3), torch.arange(200).reshape(4, 50) % 3, most=64)
    assert len(scores) == len(classes) == 50
    assert classes.tolist() == [(4 * i) % 3 for i in range(50)]
