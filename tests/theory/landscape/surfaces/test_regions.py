import pytest
import torch

from sigmascope import networks
from sigmascope.gate import Refusal
from sigmascope.theory.landscape import input_regions


def net_and_data():
    g = torch.Generator().manual_seed(0)
    net = networks.mlp(inputs=5, outputs=3, depth=2, width=8, generator=g)
    return net, torch.randn(6, 5, generator=g)


def test_the_plane_goes_through_the_samples():
    net, x = net_and_data()
    found = input_regions(net, x, samples=(4, 1, 2))
    three = x[[4, 1, 2]].double()
    for i in range(3):
        for j in range(i):
            apart = float((found.at[i] - found.at[j]).norm()) * found.half
            assert apart == pytest.approx(float((three[i] - three[j]).norm()), rel=1e-9)
    assert float(found.at.abs().max()) == pytest.approx(0.6)


def test_the_model_stays_in_float32():
    net, x = net_and_data()
    before = [p.clone() for p in net.parameters()]
    input_regions(net, x)
    assert all(
        torch.equal(p, q) and p.dtype == torch.float32
        for p, q in zip(net.parameters(), before, strict=True)
    )


def test_refusals(as_users_see_it):
    net, x = net_and_data()
    with pytest.raises(Refusal, match="must be a tensor"):
        input_regions(net, (x,))
    with pytest.raises(Refusal, match="must be three of 6, all different"):
        input_regions(net, x, samples=(0, 0, 1))
    with pytest.raises(Refusal, match="must be three of 6"):
        input_regions(net, x, samples=(0, 1, 6))
    x[2] = 2 * x[1] - x[0]
    with pytest.raises(Refusal, match="must not lie on a line"):
        input_regions(net, x)
    with pytest.raises(Refusal, match="running statistics"):
        input_regions(networks.mlp(inputs=5, outputs=3, norm="batch"), net_and_data()[1])
