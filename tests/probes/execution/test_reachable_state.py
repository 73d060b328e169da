import signal

import pytest
from torch import nn

from sigmascope.probes.execution import still
from sigmascope.probes.execution.reachable_state import Reach


def test_ctrl_c_waits_until_everything_is_back(monkeypatch):
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).train()
    net.count = 0
    give_back = Reach.give_back

    def interrupted(self):
        signal.raise_signal(signal.SIGINT)
        give_back(self)

    monkeypatch.setattr(Reach, "give_back", interrupted)
    before = signal.getsignal(signal.SIGINT)
    interrupt = pytest.raises(KeyboardInterrupt)
    with interrupt, still(net):
        net.count = 1
        net[0].weight.data.zero_()
    assert net.training
    assert net[1].training
    assert net.count == 0
    assert net[0].weight.any()
    assert signal.getsignal(signal.SIGINT) is before
