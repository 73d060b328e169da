"""What dropout takes away is counted in training mode, and nothing is left behind."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.probes.execution import dropped


class ByHand(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.6, training=self.training)


@pytest.mark.parametrize(
    ("part", "share"),
    [(nn.Dropout(0.99), 0.99), (nn.Dropout(0.0), 0.0), (ByHand(), 0.6),
     (nn.Dropout(0.3, inplace=True), 0.3), (nn.Dropout1d(0.5), 0.5)],
)  # fmt: skip
def test_the_share_is_that_of_the_zeros(part, share):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 200), part, nn.Linear(200, 2)).eval()
    (place,) = dropped(model, torch.randn(50, 8))
    assert place.site == "1"
    assert place.share == pytest.approx(share, abs=0.1 if isinstance(part, nn.Dropout1d) else 0.02)


def test_zeros_that_were_there_do_not_count():
    model = nn.Sequential(nn.Linear(4, 300), nn.ReLU(), nn.Dropout(0.5))
    (place,) = dropped(model, torch.randn(20, 4))
    assert place.before < 20 * 300 * 0.8
    assert place.share == pytest.approx(0.5, abs=0.05)


def test_one_place_for_all_calls_of_a_module():
    drop = nn.Dropout(0.5)
    model = nn.Sequential(nn.Linear(4, 50), drop, nn.Linear(50, 50), drop)
    (place,) = dropped(model, torch.randn(10, 4))
    assert 10 * 50 < place.before <= 2 * 10 * 50


def test_the_model_and_the_random_state_are_as_they_were():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.get_rng_state()
    dropped(model, torch.randn(10, 4, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert not any(m.training for m in model.modules())
    assert not model[1]._forward_hooks
