import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.theory.symmetry import symmetries
from tests.models_zoo import Net


def test_padding_tokens_do_not_lend_their_gradient():
    net = Net(
        lambda n, t: n.out(n.words(t).mean(1)),
        words=nn.Embedding(9, 4, padding_idx=0),
        out=nn.Linear(4, 2),
    )
    tokens = torch.tensor([[1, 2, 0], [3, 0, 0]])
    assert len(symmetries(net, tokens).scalings) == 1  # the row of zeros stays zero
    with torch.no_grad():
        net.words.weight[0] = 1.0
    assert symmetries(net, tokens).scalings == ()
    assert len(symmetries(net, tokens.clamp(min=1)).scalings) == 1


def test_weights_that_are_multiplied_first_are_not_followed():
    net = Net(
        lambda n, x: F.linear(x, n.a.weight.T @ n.b.weight), a=nn.Linear(3, 4), b=nn.Linear(5, 4)
    )
    found = symmetries(net, torch.randn(2, 5))
    assert found.scalings == ()
    assert any("multiplied by another weight" in f.why for f in found.fixed)
