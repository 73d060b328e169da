import pytest
import torch
from torch import nn

from sigmascope.theory.symmetry import symmetries
from sigmascope.theory.symmetry.scales import Shadows
from sigmascope.theory.symmetry.symbolic_run import SymbolicTrace

W = (6, 4)


def run(f):
    """Labels of what a function of a weight's rows makes, and of the rows themselves."""
    weight = torch.ones(W, requires_grad=True)
    shadows = Shadows()
    shadows.own({"w": weight})
    with torch.enable_grad(), SymbolicTrace(shadows) as trace:
        h = torch.ones(2, 4) @ weight.mT
        own = shadows.of(h)
        out = f(h)
        found = shadows.of(out)
    rows = [] if own is None else own[0].tolist()
    return rows, None if found is None else found.expand(out.shape).tolist(), trace, shadows, out


def test_what_shares_memory_shares_labels():
    rows, found, *_ = run(lambda h: h.T[1:3])
    assert rows == list(range(rows[0], rows[0] + 6))
    assert found == [[rows[1]] * 2, [rows[2]] * 2]


@pytest.mark.parametrize(
    ("move", "order"),
    [
        (lambda h: h.flip(1), [5, 4, 3, 2, 1, 0]),
        (lambda h: h[:, [2, 2, 0]], [2, 2, 0]),
        (lambda h: h.roll(1, 1), [5, 0, 1, 2, 3, 4]),
        (lambda h: torch.cat([h[:, 4:], h[:, :1]], 1), [4, 5, 0]),
        (lambda h: h.repeat(1, 2), [*range(6), *range(6)]),
        (lambda h: torch.zeros(2, 6).copy_(h), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_moves_are_made_by_the_labels_too(move, order):
    rows, found, *_ = run(move)
    assert found[0] == found[1] == [rows[i] for i in order]


def test_an_operation_without_a_rule_lets_nothing_be_rescaled():
    rows, found, _, shadows, out = run(lambda h: h.erf())
    assert found is None
    assert shadows.why(out) == "`erf`"
    assert shadows.unknowns.pinned(shadows.unknowns.root(rows[0])[0]) == "`erf`"
    *_, shadows, out = run(lambda h: h.softmax(1))
    assert shadows.why(out) == "a softmax"


def test_zeros_go_with_every_scale_and_constants_with_none():
    *_, shadows, out = run(lambda h: torch.zeros_like(h))
    assert shadows.empty(out)
    *_, shadows, out = run(lambda h: torch.ones_like(h))
    assert shadows.why(out) == "a constant"


def test_a_tensor_has_another_name_after_it_was_written():
    *_, trace, _, out = run(lambda h: 2 * h)
    before = trace.key(out)
    assert trace.key(out) == before != trace.key(out.T)
    with trace:
        out.add_(1)
    assert trace.key(out) != before
    assert trace.steps[-1].name == "add"  # in place or not


def test_numbers_of_another_kind_are_not_followed():
    *_, shadows, out = run(lambda h: torch.view_as_complex(h.reshape(2, 3, 2)))
    assert shadows.of(out) is None
    net = nn.Sequential(nn.Linear(3, 4), Complex(), nn.Linear(4, 2))
    assert symmetries(net, torch.ones(2, 3)).scalings == ()


class Complex(nn.Module):
    def forward(self, h):
        return torch.view_as_real(torch.view_as_complex(h.reshape(-1, 2, 2)) * 1j).flatten(1)
