import pytest
import torch
from affine_zoo import REFUSED, D, through
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.theory.piecewise_affine import (
    jacobian,
    local_affine,
)
from sigmascope.theory.piecewise_affine.segments import tracing


@pytest.mark.parametrize("f", [lambda h: h * h.detach(), REFUSED["numpy"][0], lambda h: h * h.data])
def test_a_derivative_of_a_part_is_refused(f):
    model, x, _ = through(f)
    with pytest.raises(Refusal, match=r"must follow everything.*got other .*measure a"):
        jacobian(model, x)


def test_branches_that_do_not_reach_the_output_count_for_nothing():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)
            self.kept = None

        def forward(self, x):
            h = self.layer(x)
            self.kept = h.detach().tanh()
            return h.relu(), h.exp()

    x = torch.randn(1, 4, dtype=D)
    model = Aside().double()
    found = local_affine(model, x)
    on = (model.layer(x) > 0).double()
    assert torch.equal(found.matrix.dense(), on.mT * model.layer.weight)


def followed(f, z=None):
    """The steps behind what a function computes, by name."""
    z = torch.tensor([-1.0, 2.0, 3.0], dtype=torch.float64) if z is None else z
    z = z.requires_grad_()
    with tracing() as trace:
        trace.source(z)
        out = f(z.clone())
    return trace, out, trace.behind(out)


def test_steps_are_known_by_their_dispatched_names_however_they_are_spelled():
    for f in (lambda x: x.clip(min=0), lambda x: torch.clamp(x, 0), lambda x: x.clamp_(0)):
        steps = followed(f)[2]
        assert [s.name for s in steps if s.kink is not None] == ["clamp"]
        assert not any(s.why for s in steps)


def test_what_does_not_reach_a_tensor_is_not_behind_it():
    def f(x):
        x.exp()
        return 2 * x

    trace, out, steps = followed(f)
    assert "exp" in {s.name for s in trace.steps}
    assert {s.name for s in steps} == {"input", "clone", "mul"}
    assert trace.behind(torch.ones(3)) is None
    assert not trace.constant(out)


def test_comparisons_are_the_same_throughout_a_region():
    trace, out, steps = followed(lambda x: (x > 0).double())
    assert trace.constant(out)
    assert next(s.name for s in steps if s.constant) == "gt"
    assert not any(s.why for s in steps)


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (lambda x: x * x, "a product (`Mul`) of two things that both depend on the input"),
        (lambda x: x * torch.rand(3), "random numbers (`Rand`)"),
        (lambda x: x + torch.rand_like(x), "random numbers (`RandLike`)"),
        (lambda x: x.round(), "`Round`"),
        (lambda x: x + x.detach().exp(), "cut off from the derivative (`detach`, `.data`"),
        (lambda x: torch.view_as_complex(x[:2].clone()).real * 1, "complex numbers or bits"),
        (lambda x: x.long().double(), "numbers that are rounded to integers (`ToCopy`)"),
        (lambda x: x * float(x[0].detach()), "numbers that leave PyTorch (`item`)"),
        (lambda x: x + torch.tensor(x.detach().numpy() * 2), "leave PyTorch (`numpy`)"),
    ],
)
def test_what_keeps_a_network_from_pieces_is_named(f, says):
    with torch.random.fork_rng(devices=[]):
        steps = followed(f)[2]
    told = [s.why for s in steps if s.why]
    assert any(says in why for why in told)


def test_the_least_precise_and_the_largest_numbers_are_noted():
    trace, _, _ = followed(lambda x: x * 100)
    assert (trace.eps, trace.size) == (2.0**-52, 300.0)
    trace, _, _ = followed(lambda x: x.float() / 0 * 0 + x)
    assert trace.eps == 2.0**-23


def test_a_number_that_python_reads_is_behind_everything():
    def f(x):
        return 2 * torch.ones(3) if bool((x > 0).any()) else torch.ones(3)

    trace, _, steps = followed(f)
    assert trace.read
    assert any(s.name == "_local_scalar_dense" for s in steps)


def test_nothing_is_followed_while_deaf():
    z = torch.ones(3, requires_grad=True)
    with tracing() as trace:
        trace.source(z)
        with trace.deaf():
            z.exp()
        z.isnan()
    assert [s.name for s in trace.steps] == ["input"]
