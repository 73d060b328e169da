import pytest
import torch
from affine_zoo import PIECEWISE, D, through

from sigmascope.gate import Refusal
from sigmascope.probes.piecewise_affine import (
    partition,
    regions_along,
)


def test_what_mixes_samples_is_cut_along_lines_only():
    mixing = (
        lambda h: h.relu() - h.mean(0),
        lambda h: h.relu() - h.max(),
        lambda h: h * (h > 0).sum(),
        PIECEWISE["branch"],
    )
    e = torch.eye(4, dtype=D)
    for f in mixing:
        model, x, y = through(f)
        regions_along(model, x, y)
        with pytest.raises(Refusal, match=r"one by one, .*got .*regions_along"):
            partition(model, x, e[:1], e[1:2])
