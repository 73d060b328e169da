import pytest
import torch

from sigmascope.networks import mlp
from sigmascope.probes.curvature.hessian import moved


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


def test_steps_are_added_in_the_precision_of_what_is_moved():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    weight, mean = net[0].weight.clone(), net[1].running_mean.clone()
    step = {"0.weight": torch.full((3, 2), 0.5, dtype=torch.float64), "1.running_mean": mean + 2}
    with moved(net, step):
        assert net[0].weight.dtype == torch.float32
        assert torch.equal(net[0].weight, weight + 0.5)
        assert net[1].running_mean.tolist() == [2, 2, 2]
    assert net[1].running_mean.tolist() == [0, 0, 0]


def test_what_there_is_not_cannot_be_moved():
    net = torch.nn.Linear(2, 3)
    with pytest.raises(KeyError, match="wieght"), moved(net, {"wieght": torch.ones(3, 2)}):
        raise AssertionError
