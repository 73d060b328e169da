import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.theory.symmetry import symmetries
from sigmascope.theory.symmetry.scales import ZEROS, Shadows
from sigmascope.theory.symmetry.symbolic_run import ZERO_SUMS, SymbolicStep, SymbolicTrace
from tests.models_zoo import Net

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
    assert shadows.why(out) == ZEROS
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
    turn = lambda _, h: torch.view_as_real(torch.view_as_complex(h.reshape(-1, 2, 2)) * 1j).flatten(
        1
    )
    net = nn.Sequential(nn.Linear(3, 4), Net(turn), nn.Linear(4, 2))
    assert symmetries(net, torch.ones(2, 3)).scalings == ()


def drawn(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def attention(n, x):
    q, k = n.q(x), n.k(x)
    return (q @ k.mT).softmax(-1) @ x


NETS = {
    # what is read by a softmax over the outputs: the bias, and each column of the weight
    "softmax": (
        lambda: Net(lambda n, x: n.a(x).softmax(1) * drawn(5), a=nn.Linear(3, 5)),
        {("a.weight", (0,)), ("a.bias", (0,))},
    ),
    "turned": (
        lambda: Net(lambda n, x: (n.a(x).T.softmax(0) * drawn(5, 1)).T, a=nn.Linear(3, 5)),
        {("a.weight", (0,)), ("a.bias", (0,))},
    ),
    "shifted and copied": (
        lambda: Net(lambda n, x: (n.a(x).clone() - 2).log_softmax(1), a=nn.Linear(3, 5)),
        {("a.weight", (0,)), ("a.bias", (0,))},
    ),
    "scaled by one number": (
        lambda: Net(lambda n, x: (n.a(x) * torch.tensor(2.0)).softmax(1),
                    a=nn.Linear(3, 5)),
        {("a.weight", (0,)), ("a.bias", (0,))},
    ),
    "scaled by its own gain": (
        lambda: Net(lambda n, x: (n.a(x) * n.s).softmax(1), a=nn.Linear(3, 5),
                    s=nn.Parameter(drawn(5))),
        set(),
    ),
    "layer norm": (
        lambda: Net(lambda n, x: F.layer_norm(n.a(x), (5,)).tanh(), a=nn.Linear(3, 5)),
        {("a.weight", (0,)), ("a.bias", (0,))},
    ),
    "batch norm": (
        lambda: Net(lambda n, x: n.b(n.a(x)).tanh(), a=nn.Linear(3, 5), b=nn.BatchNorm1d(5)),
        {("a.bias", ())},
    ),
    "batch norm of images": (
        lambda: Net(lambda n, x: n.b(n.a(x[:, None])).tanh(), a=nn.Conv1d(1, 5, 2),
                    b=nn.BatchNorm1d(5)),
        {("a.bias", ())},
    ),
    "fixed statistics": (
        lambda: Net(lambda n, x: n.b(n.a(x)).tanh(), a=nn.Linear(3, 5), b=nn.BatchNorm1d(5)).eval(),
        set(),
    ),
    "keys": (
        lambda: Net(attention, q=nn.Linear(3, 4), k=nn.Linear(3, 4)),
        {("k.bias", ())},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_sums_that_are_said_to_be_zero_are(name):
    make, expected = NETS[name]
    net, x = make().double(), drawn(6, 3, seed=1)
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(drawn(*p.shape, seed=2 + i))
    found = symmetries(net, x).sums
    assert {(s.tensor, s.axes) for s in found} == expected
    out = net(x)
    (out * drawn(*out.shape, seed=9)).sum().backward()
    for s in found:
        g = net.get_parameter(s.tensor).grad
        total = g.sum(s.axes) if s.axes else g
        assert float(total.abs().max()) < 1e-12
        assert total.numel() == s.count
        assert g.numel() == s.count * s.terms


def test_what_is_read_twice_forgets_only_what_both_forget():
    """One reader forgets sums over columns, the other those over rows: the whole is left."""
    net = Net(
        lambda n, x: n.w.softmax(0).cos() + n.w.softmax(1).sin() + x.sum(),
        w=nn.Parameter(drawn(3, 4)),
    )
    (found,) = symmetries(net.double(), drawn(2, 3)).sums
    assert (found.tensor, found.axes, found.count, found.terms) == ("w", (0, 1), 1, 12)


def test_a_loss_is_followed_too():
    net, x, y = nn.Linear(3, 4).double(), drawn(6, 3), torch.arange(6) % 4
    assert symmetries(net, x).sums == ()
    found = symmetries(net, x, targets=y, loss=F.cross_entropy).sums
    assert {(s.tensor, s.axes) for s in found} == {("weight", (0,)), ("bias", (0,))}


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ([2, 3, 4], [6, 4], [({0, 1}, {0}), ({2}, {1})]),
        ([6, 4], [2, 3, 4], [({0}, {0, 1}), ({1}, {2})]),
        ([4, 6], [6, 4], [({0, 1}, {0, 1})]),
        ([5], [5], [({0}, {0})]),
    ],
)
def test_axes_that_make_up_axes_of_another_shape(old, new, parts):
    given, out = torch.empty(old), torch.empty(new)
    step = SymbolicStep("view", [given, new], (), (), out)
    for before, after in parts:
        for axis in after:
            sums = ZERO_SUMS["view"](step, [given], [frozenset({frozenset({axis})})])
            assert sums == [frozenset({frozenset(before)})]


def test_products_with_a_sparse_matrix_that_the_model_holds_are_followed():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)
            self.register_buffer("near", torch.eye(6).to_sparse())

        def forward(self, x):
            return self.last(torch.sparse.mm(self.near, self.first(x)).relu())

    net = Graph()
    found = symmetries(net, torch.randn(6, 4))  # nobody knows what a sparse product does to units
    assert not any(p.tensor.startswith("first") for s in found.scalings for p in s.parts)
