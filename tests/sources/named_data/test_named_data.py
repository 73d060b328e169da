import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.sources import open_data


def test_gaussian_has_the_shape_it_was_told():
    data = open_data("gaussian?shape=3x4x5", samples=7)
    assert data.inputs.shape == (7, 3, 4, 5)
    assert data.targets is None
    assert data.outputs is None
    assert torch.equal(data.inputs, open_data("gaussian", shape=(3, 4, 5), samples=7).inputs)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("digit", "no data set `digit`.*Did you mean `digits`"),
        ("fashionmnist", "Did you mean `fashion-mnist`"),
        ("", "no data set ``"),
        ("gaussian", "needs the shape"),
        ("gaussian?shape=3x0", "must read like 64 or 3x32x32"),
        ("gaussian?shape=a", "must read like"),
        ("gaussian?size=3", "no option `size`; it has `shape`"),
        ("digits?split=test", "no option `split`; it has none"),
        ("digits?split", "must read"),
        ("cifar10?split=valid", "must be train or test"),
        ("loader.py", "followed by the name of a loader"),
    ],
)
def test_a_spec_that_leads_nowhere_is_refused(spec, says):
    with pytest.raises(Refusal, match=says):
        open_data(spec)
