"""A backward pass that is written by hand is held against the derivative, and left as it is."""

from functools import partial

import pytest
import torch
from torch.autograd import Function

from sigmascope.diagnosis.scripts.functions import derivative_gap, forward_of


def function(forward, backward, *, apart=False):
    """A function of two tensors with a backward pass of its own, in one of torch's two styles."""

    def of_context(ctx, x, w):
        ctx.save_for_backward(x, w)
        return forward(x, w)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    passed = lambda ctx, g: backward(g, *ctx.saved_tensors)
    if apart:
        body = {"forward": staticmethod(forward), "setup_context": staticmethod(setup)}
    else:
        body = {"forward": staticmethod(of_context)}
    return type("Own", (Function,), {**body, "backward": staticmethod(passed)})


def given(dtype=torch.float32):
    g = torch.Generator().manual_seed(0)
    return [torch.randn(5, 3, generator=g, dtype=dtype).requires_grad_() for _ in range(2)]


SMOOTH = {  # forward, and both derivatives
    "product": (lambda x, w: x * w, lambda g, x, w: (g * w, g * x)),
    "matrix": (lambda x, w: x @ w.T, lambda g, x, w: (g @ w, g.T @ x)),
    "sine": (
        lambda x, w: (x * w).sin(),
        lambda g, x, w: (g * (x * w).cos() * w, g * (x * w).cos() * x),
    ),
    "mean": (
        lambda x, w: (x - w).square().mean(),
        lambda g, x, w: (g * (x - w) * 2 / 15, g * (w - x) * 2 / 15),
    ),
}
SLIPS = {  # of the first of two derivatives
    "sign": lambda a: -a,
    "factor": lambda a: 1.01 * a,
    "left out": lambda a: None,
    "scaled by units": lambda a: a * torch.linspace(0.9, 1.1, a.shape[-1], dtype=a.dtype),
    "flipped": lambda a: a.flip(0),
}


def slipped(slip, backward, g, x, w):
    first, second = backward(g, x, w)
    return slip(first), second


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_derivative_itself_has_no_gap_and_a_slip_in_it_has(name, dtype, apart):
    forward, backward = SMOOTH[name]
    own = function(forward, backward, apart=apart)
    x, w = given(dtype)
    assert derivative_gap(own.apply, own, (x, w)) == pytest.approx(0, abs=1e-12)
    assert torch.equal(forward_of(own, (x, w)), own.apply(x, w))
    for slip in SLIPS.values():
        wrong = function(forward, partial(slipped, slip, backward))
        assert (derivative_gap(wrong.apply, wrong, (x, w)) or 0) > 5e-3
    assert x.grad is None
    assert w.grad is None


BY_DESIGN = {
    "identity": (lambda x, w: x.view_as(x), lambda g, x, w: (-3 * g, None)),
    "rounded": (lambda x, w: x.round(), lambda g, x, w: (g, None)),
    "sign": (lambda x, w: x.sign(), lambda g, x, w: (g * (x.abs() < 1), None)),
    "spike": (lambda x, w: (x > 0).to(x.dtype), lambda g, x, w: (g / (1 + x.abs()) ** 2, None)),
    "clamped": (lambda x, w: x.clamp(-0.5, 0.5), lambda g, x, w: (g, None)),
}


@pytest.mark.parametrize("name", BY_DESIGN)
def test_what_is_another_gradient_on_purpose_has_no_gap(name):
    own = function(*BY_DESIGN[name])
    assert not derivative_gap(own.apply, own, given())


def test_chance_in_a_forward_pass_is_the_same_for_both_and_goes_on_as_it_was():
    drop = function(lambda x, w: x * torch.bernoulli(w.sigmoid()), lambda g, x, w: (g, None))
    state = torch.random.get_rng_state()
    x, w = given()
    gap = derivative_gap(drop.apply, drop, (x, w.detach()))
    assert gap == pytest.approx(0, abs=1e-12)  # where it is not zero, it passes as it is
    assert torch.equal(torch.random.get_rng_state(), state)


def test_what_cannot_be_derived_has_no_answer():
    outside = function(
        lambda x, w: torch.from_numpy(x.detach().numpy() ** 2), lambda g, x, w: (2 * g * x, None)
    )
    assert derivative_gap(outside.apply, outside, given()) is None
    assert derivative_gap(outside.apply, outside, [t.detach() for t in given()]) is None
