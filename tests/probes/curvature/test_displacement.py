import pytest
import torch

from sigmascope.networks import mlp
from sigmascope.probes.curvature.displacement import moved


def test_what_is_moved_comes_back_also_after_an_error():
    net = mlp(inputs=3, outputs=2, depth=1, width=4)
    before = [(p.data_ptr(), p._version, p.clone()) for p in net.parameters()]
    with moved(net, {"readout.bias": torch.ones(2)}):
        assert not torch.equal(net.readout.bias, before[-1][2])
    with pytest.raises(RuntimeError), moved(net, {"readout.bias": torch.ones(2)}):
        net(torch.ones(1, 7))
    for p, (at, version, value) in zip(net.parameters(), before, strict=True):
        assert (p.data_ptr(), p._version) == (at, version)
        assert torch.equal(p, value)
