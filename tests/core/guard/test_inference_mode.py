import torch
from torch import nn
from torch.nn import functional as F

import sigmascope as ss


def test_what_is_asked_for_in_inference_mode_is_what_is_outside():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(16, 6), torch.randint(3, (16,))
    ask = lambda: ss.profile(net, x, targets=y, loss=F.cross_entropy)
    outside = ask()
    with torch.inference_mode():
        inside = ask()
        rates = ss.layer_rates(net, x, targets=y, loss=F.cross_entropy)
        assert torch.is_inference_mode_enabled()
    assert inside.readings == outside.readings
    assert [g["name"] for g in rates] == ["0", "2"]
    assert not any(p.is_inference() for p in net.parameters())
