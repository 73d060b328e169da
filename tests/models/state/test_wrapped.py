"""A model inside of what `torch.compile` and data parallelism put around it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sigmascope as ss
from sigmascope.models.state import unwrapped, within
from sigmascope.theory.landscape import loss_line, loss_surface

WRAPPERS = (lambda net: torch.compile(net, backend="eager"), nn.DataParallel)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))


class Answering(nn.Module):
    """Has every name that it is asked for, as modules do that stand before another."""

    def __init__(self):
        super().__init__()
        self.inner = net()

    def forward(self, x):
        return self.inner(x)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return 0


def test_the_model_inside_of_what_is_called_is_found():
    inner = nn.Linear(2, 2)
    assert unwrapped(torch.compile(inner)) is inner
    whole = nn.DataParallel(torch.compile(inner))
    assert unwrapped(whole) is inner
    assert [*within(whole)] == [whole, whole.module, inner]


def test_a_module_that_answers_to_any_name_is_itself():
    model = Answering()
    assert unwrapped(model) is model
    assert ss.profile(model, torch.randn(8, 6)).readings


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_doors_name_the_weights_of_the_model_inside(wrap):
    x, y = torch.randn(16, 6), torch.randint(3, (16,))
    task = {"targets": y, "loss": F.cross_entropy}
    bare, wrapped = net(), wrap(net())
    names = [[g["name"] for g in ss.layer_rates(m, x, **task)] for m in (bare, wrapped)]
    assert names[0] == names[1]
    moved = net()
    with torch.no_grad():
        moved[0].weight += 0.1
    changes = [
        {(c.quantity, c.site) for c in ss.compare(a, b, batch=x, **task).changes}
        for a, b in ((bare, moved), (wrapped, wrap(moved)))
    ]
    assert changes[0] == changes[1]
    of_curvature = [loss_surface(m, x, plane="hessian", points=3, **task) for m in (bare, wrapped)]
    torch.testing.assert_close(of_curvature[0].losses, of_curvature[1].losses)
    others = (moved.state_dict(), wrap(moved).state_dict())
    lines = [loss_line(wrapped, other, x, points=3, **task) for other in others]
    assert torch.equal(lines[0].losses, lines[1].losses)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_remedy_changes_the_model_inside(wrap):
    wrapped = wrap(net())
    x = torch.randn(16, 6)
    wrapped(x)  # what was compiled would run as it was, without the hooks of a remedy
    treated = ss.treat(wrapped, x, "batch-norm", views=("weights",), budget=1)
    assert any(isinstance(m, nn.BatchNorm1d) for m in treated.model.modules())
    assert not any(isinstance(m, nn.BatchNorm1d) for m in wrapped.modules())
