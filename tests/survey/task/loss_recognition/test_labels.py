"""What targets are is told by their values and the shape of the output."""

import pytest
import torch

from sigmascope.survey.task import labels_of

N = 64


def ids(kinds, *shape):
    return torch.arange(torch.Size(shape).numel()).remainder(kinds).reshape(shape)


KINDS = {
    "classes": (torch.zeros(N, 5), ids(5, N)),
    "pixels": (torch.zeros(N, 5, 4, 4), ids(5, N, 4, 4)),
    "tokens": (torch.zeros(N, 7, 5), ids(5, N, 7)),
    "one of many": (torch.zeros(N, 5), torch.eye(5)[ids(5, N)]),
    "several of many": (torch.zeros(N, 3), (ids(8, N)[:, None] >> torch.arange(3) & 1).float()),
    "yes or no": (torch.zeros(N, 1), ids(2, N, 1).float()),
    "ids as values": (torch.zeros(N, 1), ids(10, N, 1).float()),
    "from one": (torch.zeros(N, 1), 1 + ids(4, N, 1).float()),
    "values": (torch.zeros(N, 1), torch.linspace(0, 1, N)[:, None]),
    "counts": (torch.zeros(N, 1), ids(60, N, 1).float()),
    "even numbers": (torch.zeros(N, 1), 10 * ids(6, N, 1).float()),
}
NAMES = {"pixels": "classes", "tokens": "classes", "from one": "ids as values",
         "counts": "values", "even numbers": "values"}  # fmt: skip


@pytest.mark.parametrize("case", KINDS)
def test_kinds(case):
    output, targets = KINDS[case]
    found = labels_of(output, targets)
    assert found.kind == NAMES.get(case, case)
    assert found.exclusive is (found.kind in ("classes", "one of many"))


@pytest.mark.parametrize("case", ["classes", "pixels", "tokens", "one of many"])
def test_one_output_is_wanted_of_each_row(case):
    output, targets = KINDS[case]
    found = labels_of(output, targets)
    assert found.distinct == 5
    assert bool((found.wanted.sum(found.dim) == 1).all())
    if targets.dtype == torch.long:
        assert torch.equal(found.wanted.to(torch.int8).argmax(found.dim), targets)


def test_what_the_loss_leaves_out_is_not_wanted():
    targets = ids(5, N)
    targets[:10] = -100
    found = labels_of(torch.zeros(N, 5), targets)
    assert int(found.counted.sum()) == N - 10
    assert not bool(found.wanted[:10].any())
    assert labels_of(torch.zeros(N, 5), torch.full((N,), -100)) is None


def test_what_fits_no_shape_is_told_as_far_as_it_goes():
    assert labels_of(torch.zeros(N, 3), ids(5, N, 2)).wanted is None
    assert labels_of(torch.zeros(N, 3), torch.zeros(0)) is None
    assert labels_of(torch.zeros(N, 3), torch.zeros(N, 3, dtype=torch.complex64)) is None
