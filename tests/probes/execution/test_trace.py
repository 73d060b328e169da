import pytest
import torch
from torch import nn

from sigmascope.probes import Subject


class Refuses(nn.Module):
    """Reads numbers in a way that no tape and no mode allows."""

    def __init__(self, fails):
        super().__init__()
        self.layer, self.head, self.fails = nn.Linear(4, 5), nn.Linear(5, 2), fails

    def forward(self, x):
        if self.fails():
            raise RuntimeError("not here")
        return self.head(self.layer(x).sigmoid())


def test_a_model_that_bears_no_watcher_is_measured_without():
    watched = lambda: torch._C._len_torch_dispatch_stack() > 0
    subject = Subject(Refuses(watched), torch.randn(6, 4))
    assert [c.site for c in subject.calls] == ["layer", "head"]
    assert [s.kind for s in subject.squashes] == ["sigmoid"]
    assert subject.mixing == ""
    with pytest.raises(ValueError, match="not here"):
        _ = subject.uses_outside
