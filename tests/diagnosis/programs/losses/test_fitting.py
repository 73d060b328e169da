"""The loss for the targets of a file: cross-entropy for classes, squared error for values."""

import pytest
import torch
from torch.nn import functional as F

from sigmascope.diagnosis.programs import fitting_loss
from sigmascope.gate import Refusal


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def classes(*shape, kinds=4):
    return torch.randint(kinds, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("output", "targets"),
    [
        ((6, 4), (6,)),
        ((6, 5, 4), (6, 5)),  # of a sequence the classes come last
        ((6, 4, 5), (6, 5)),  # of a segmentation they come second
        ((2, 4, 3, 5), (2, 3, 5)),
    ],
)
def test_whole_numbers_are_classes_wherever_the_scores_have_them(output, targets):
    scores, wanted = drawn(*output), classes(*targets)
    last = output[-1] == 4
    expected = F.cross_entropy(scores.movedim(-1, 1) if last else scores, wanted)
    assert float(fitting_loss(scores, wanted)) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_classes_of_any_whole_numbers_are_alike(kind):
    scores, wanted = drawn(6, 4), classes(6)
    assert fitting_loss(scores, wanted.to(kind)) == F.cross_entropy(scores, wanted)


def test_the_target_that_is_ignored_counts_for_nothing():
    scores, wanted = drawn(6, 4), classes(6)
    wanted[2:] = -100
    assert fitting_loss(scores, wanted) == F.cross_entropy(scores[:2], wanted[:2])


@pytest.mark.parametrize(
    ("output", "targets"),
    [((6, 1), (6,)), ((6,), (6, 1)), ((6, 2, 3), (6, 6)), ((6, 6), (6, 3, 2))],
)
def test_values_are_compared_in_their_order_whatever_their_shape(output, targets):
    wanted = drawn(*targets, seed=1).double()
    expected = (drawn(*output).flatten() - wanted.flatten().float()).square().mean()
    assert float(fitting_loss(drawn(*output), wanted)) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(
    ("output", "targets", "says"),
    [
        (drawn(6, 2), drawn(6, 3), r"shape of the output, \(6, 2\), got \(6, 3\)"),
        (drawn(6, 2, 3), drawn(6, 3, 2), r"got \(6, 3, 2\)"),  # other values in the same places
        (drawn(6, 4), drawn(4, 6), r"got \(4, 6\)"),
        (drawn(6, 2), drawn(6, 2).to(torch.complex64), "imaginary parts would be lost"),
        (drawn(6, 1).half(), 1e6 * drawn(6, 1), "must fit torch.float16"),
        (drawn(6, 4), classes(5), r"one class for each row of scores, got targets of shape \(5,\)"),
        (drawn(6), classes(6), r"for an output of shape \(6,\)"),
        (
            drawn(6, 3),
            classes(6) * 0 + 3,
            "from 0 to 2, for the model has 3 outputs, got 3",
        ),
        (drawn(6, 3), classes(6) * 0 - 1, "got -1. Renumber them, or widen the last layer"),
    ],
)
def test_targets_that_do_not_fit_are_refused(output, targets, says):
    with pytest.raises(Refusal, match=says):
        fitting_loss(output, targets)
