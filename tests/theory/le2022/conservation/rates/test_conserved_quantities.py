"""What a network conserves, what it does not, and why; the network is left as found."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.theory import le2022
from tests.models_zoo import MODELS, Net
from tests.theory.le2022.conservation.wrong_backward import Wrong
from tests.theory.le2022.networks import mlp


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_the_softmax_head_conserves_its_column_sums():
    net = mlp(nn.ReLU, 4, 6, 3).double()
    x, y = drawn(5, 4).double(), torch.tensor([0, 1, 2, 1, 0])
    without = le2022.conservation.invariants(net, x)
    with_loss = le2022.conservation.invariants(net, x, targets=y, loss=F.cross_entropy)
    sums = {i.tensors[0]: i for i in with_loss if i.kind == "column sum"}
    assert set(sums) == {"2.weight", "2.bias"}
    assert not [i for i in without if i.kind == "column sum"]
    weight = dict(net.named_parameters())
    assert torch.allclose(sums["2.weight"].value(weight), net[2].weight.sum(0))


def test_fixed_sides_say_why():
    net = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 2))
    fixed = {
        (f.tensor, f.side): f.why for f in le2022.conservation.conserved(net, drawn(3, 4)).fixed
    }
    assert "gelu" in fixed["0.weight", "rows"]
    assert "gelu" in fixed["2.weight", "columns"]
    assert "output" in fixed["2.weight", "rows"]
    assert "input" in fixed["0.weight", "columns"]


def test_a_frozen_layer_takes_part_in_no_balance():
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    net[2].requires_grad_(False)
    assert le2022.conservation.invariants(net, drawn(3, 4)) == ()


def test_a_wrong_backward_is_found():
    torch.default_generator.manual_seed(0)  # how wrong it is depends on the draw
    net = Net(lambda n, x: n.b(Wrong.apply(n.a(x))), a=nn.Linear(4, 6), b=nn.Linear(6, 2))
    found = le2022.conservation.conserved(net, drawn(7, 4))
    assert [i.tensors for i in found.broken] == [("b.weight", "a.weight", "a.bias")]
    assert found.broken[0].rate > 1e-2
    assert not found.invariants


def test_a_detached_part_is_found():
    net = Net(lambda n, x: n.b(F.relu(n.a(x)).detach()), a=nn.Linear(4, 6), b=nn.Linear(6, 2))
    assert le2022.conservation.conserved(net, drawn(7, 4)).broken


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_zoo_is_left_as_found_and_its_claims_hold(name):
    model, batch = MODELS[name]()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state, modes = torch.get_rng_state(), [m.training for m in model.modules()]
    if name in ("all-frozen", "inplace-residual"):  # the second has no gradient: torch refuses it
        with pytest.raises(Refusal, match="trained"):
            le2022.conservation.conserved(model, batch)
        return
    found = le2022.conservation.conserved(model, batch)
    assert not found.broken
    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
