"""The operation that makes what is no number is named with its line, wherever it stands."""

import math
import warnings

import pytest
import torch

from sigmascope.diagnosis.scripts.non_finite import Origins, _is_finite, _is_nan
from tests.diagnosis.scripts.loops import HEALTHY, LOSS, code
from tests.diagnosis.scripts.test_rules import run
from tests.sampling import some

ZERO = "(model(x) - model(x).detach())"
DERIVATIVES = {  # of what is a number, and has none at zero
    "sqrt": f"{ZERO}.square().sum().sqrt()",
    "pow": f"{ZERO}.pow(2).sum().pow(0.5)",
    "acos": f"torch.where(x[:, 0] > 9, 0, (1 + {ZERO}.sum(1)).acos()).sum()",
    "reciprocal": f"torch.where(x[:, 0] < 9, 0, 1 / {ZERO}.sum(1)).sum()",
    "log": f"torch.where(x[:, 0] < 9, 0, {ZERO}.sum(1).log()).sum()",
}
VALUES = {
    "log": "(0 * x[0]).sum().log() * 0",
    "div": "(x[0] * 0 / 0).sum()",
    "exp": "(1000 + x[0]).exp().mean()",
    "softmax": "torch.full((3,), -torch.inf).softmax(0).sum()",
    "acos": "(2 + 0 * x[0]).acos().sum()",
}


@pytest.mark.parametrize(
    ("what", "name", "term"),
    [
        *(("gradients", name, term) for name, term in DERIVATIVES.items()),
        *(("loss", name, term) for name, term in VALUES.items()),
    ],
)
def test_the_operation_is_named_with_its_line_and_step(what, name, term):
    text = code(
        ("for x, y in loader:\n", "for k, (x, y) in enumerate(loader, 16 * epoch):\n"),
        (LOSS, f"{LOSS}\n        extra = {term} if k == 6 else 0"),
        ("loss.backward()", "(loss + extra).backward()"),
    )
    seen = run(text, traced=5).broken
    assert seen is not None
    assert seen.place is not None
    at = next(k for k, line in enumerate(text.splitlines(), 1) if "extra = " in line)
    assert (seen.what, seen.step, seen.place.line) == (what, 6, at)
    assert name in seen.how


def test_a_step_that_makes_weights_no_numbers_is_told_as_such():
    text = code(("opt.step()", "opt.step(); model[0].weight.data.log_()"), ("range(4)", "range(2)"))
    seen = run(text, traced=0).broken
    assert seen is not None
    assert (seen.what, seen.how) == ("loss", "log")
    text = code(
        ("        opt.step()", "        opt.param_groups[0]['lr'] = float('nan'); opt.step()")
    )
    seen = run(text, traced=0).broken
    assert seen is not None
    assert seen.what == "step"


UNPASSED = {"gradients of many by `vmap`"}  # back, so that no loss is read


@pytest.mark.parametrize("name", some([n for n in HEALTHY if n not in UNPASSED], of=6))
def test_where_all_are_numbers_nothing_is_said_and_nothing_changed(name):
    text = code(*HEALTHY[name])
    seen, own = run(text, steps=8, traced=5), run(text, steps=8)
    assert seen.broken is None
    assert seen.loss is not None
    assert own.loss is not None
    assert seen.loss.values == own.loss.values


@pytest.mark.parametrize("layout", ["strided", "coo", "csr"])
@pytest.mark.parametrize(("odd", "finite", "nan"), [(1.0, True, False), (math.inf, False, False),
                                                    (-math.inf, False, False),
                                                    (math.nan, False, True)])  # fmt: skip
def test_one_entry_that_is_no_number_is_enough(layout, odd, finite, nan):
    t = torch.tensor([[0.0, odd], [2.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse layouts are said to be in beta
        t = {"strided": t, "coo": t.to_sparse(), "csr": t.to_sparse_csr()}[layout]
    assert (_is_finite(t), _is_nan(t)) == (finite, nan)


def test_whole_numbers_are_finite():
    assert _is_finite(torch.arange(3))
    assert not _is_nan(torch.arange(3))


def test_one_tensor_that_is_no_number_is_enough_among_others():
    sound, broken = torch.ones(2), torch.tensor([1.0, math.nan])
    origins = Origins(lambda: None, bool)
    origins.begin()
    try:
        found = origins.seen("gradients", [sound, broken], 3)
        assert origins.seen("gradients", [sound, sound], 3) is None
    finally:
        origins.end()
    assert found is not None
    assert (found.what, found.step) == ("gradients", 3)
