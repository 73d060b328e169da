import pytest
import torch
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.models import Subject
from sigmascope.models.curvature import losses_at
from sigmascope.models.networks import mlp

D = torch.float64


def test_each_row_of_coordinates_is_a_sum_of_directions():
    g = torch.Generator().manual_seed(0)
    net = mlp(inputs=3, outputs=2, depth=2, width=4, generator=g).double()
    x, y = torch.randn(5, 3, generator=g, dtype=D), torch.tensor([0, 1, 0, 1, 1])
    first = {n: torch.randn(p.shape, generator=g, dtype=D) for n, p in net.named_parameters()}
    second = {"readout.weight": torch.ones(2, 4, dtype=D)}
    at = torch.tensor([[0.0, 0.0], [0.3, 0.0], [0.3, -0.7]], dtype=D)
    found = losses_at(Subject(net, x, y, F.cross_entropy), [first, second], at)
    twin = mlp(inputs=3, outputs=2, depth=2, width=4).double()
    for row, loss in zip(at.tolist(), found.tolist(), strict=True):
        state = {n: p + row[0] * first[n] for n, p in net.state_dict().items()}
        state["readout.weight"] = state["readout.weight"] + row[1] * second["readout.weight"]
        twin.load_state_dict(state)
        assert loss == pytest.approx(F.cross_entropy(twin(x), y).item(), rel=1e-12)


@pytest.mark.parametrize("known", [{"targets": torch.zeros(5).long()}, {}])
def test_losses_need_both_targets_and_a_loss(known):
    net = mlp(inputs=3, outputs=2, depth=1, width=4)
    with pytest.raises(Refusal, match="Losses depend on targets and a loss"):
        losses_at(Subject(net, torch.ones(5, 3), **known), [], torch.zeros(1, 0, dtype=D))
