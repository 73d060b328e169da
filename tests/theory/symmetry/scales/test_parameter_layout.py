import numpy as np
import pytest
import torch

from sigmascope.theory.symmetry.scales import Frame, edges


def along(view, parameter, split=1):
    found = edges(
        view, int(parameter.storage_offset()), Frame("w", tuple(parameter.shape), split, 0)
    )
    return None if found is None else [(side, index.tolist()) for side, index in found]


W = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (W, [("rows", [0, 1, 2]), ("columns", [0, 1, 2, 3])]),
        (W.t(), [("columns", [0, 1, 2, 3]), ("rows", [0, 1, 2])]),
        (W[1:], [("rows", [1, 2]), ("columns", [0, 1, 2, 3])]),
        (W[::2, 1:3], [("rows", [0, 2]), ("columns", [1, 2])]),
        (W[1:2].t(), [("columns", [0, 1, 2, 3]), ("rows", [1])]),
        (W[:, 2:3], [("rows", [0, 1, 2]), ("columns", [2])]),
        (W.view(4, 3), None),
        (W.view(1, 12), None),
    ],
)
def test_views_know_what_their_axes_run_along(view, expected):
    assert along(view, W) == expected


def test_a_parameter_of_three_axes_is_split_where_it_is_used():
    P = torch.arange(24.0).reshape(2, 3, 4)
    assert along(P.view(2, 12), P, 1) == [("rows", [0, 1]), ("columns", list(range(12)))]
    assert along(P.view(6, 4), P, 2) == [("rows", list(range(6))), ("columns", [0, 1, 2, 3])]
    assert along(P.view(6, 4), P, 1) is None


def test_slabs_and_dots_of_grouped_kernels():
    K = torch.randn(6, 2, 3, 3, dtype=torch.float64)
    frame = Frame("k", (6, 2, 3, 3), 1, groups=3)
    assert frame.counts == (6, 6)
    columns = frame.slabs(K, "columns")
    assert torch.equal(columns[3], K[2:4, 1].flatten())  # second channel of the second group
    L = torch.randn_like(K)
    for side in ("rows", "columns"):
        slabs = frame.slabs(K, side)
        assert torch.allclose(frame.dots(K, K, side), slabs.square().sum(1))
        assert torch.allclose(frame.sums(K * K, side), slabs.square().sum(1))
        assert torch.allclose(frame.dots(K, L, side), (slabs * frame.slabs(L, side)).sum(1))
    assert frame.group_of("rows").tolist() == [0, 0, 1, 1, 2, 2]
    assert frame.group_of("columns").tolist() == [0, 0, 1, 1, 2, 2]


def test_a_vector_is_one_row():
    v = torch.arange(5.0)
    frame = Frame("v", (5,), 0, 0)
    assert frame.counts == (1, 5)
    found = edges(v[:, None], 0, frame)
    assert [(s, i.tolist()) for s, i in found] == [("columns", [0, 1, 2, 3, 4]), ("rows", [0])]
    assert np.array_equal(found[1][1], [0])
