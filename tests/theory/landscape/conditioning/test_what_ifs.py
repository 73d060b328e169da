import copy

import pytest
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope import theory
from sigmascope.gate import Refusal
from sigmascope.theory.landscape.conditioning import FLAT
from tests.theory.landscape.conditioning.test_layer_conditioning import data, net


class Skipped(nn.Module):
    """A block with the skip connection written into its code."""

    def __init__(self, block, rho):
        super().__init__()
        self.block, self.rho = block, rho

    def forward(self, x):
        return self.block(x) + self.rho * x


@given(seed=st.integers(0, 10**6), rho=st.floats(0.05, 2), at=st.integers(1, 3))
@settings(max_examples=5)
def test_a_skip_that_is_imagined_is_the_skip_that_is_built(seed, rho, at):
    model, (x, y) = net(seed=seed), data(seed)
    (found,) = theory.landscape.what_if(
        model, x, skip=f"hidden.{at}", rhos=[rho], targets=y, loss=F.cross_entropy
    )[1:]
    built = copy.deepcopy(model)
    built.hidden[at] = Skipped(built.hidden[at], rho)
    true = theory.landscape.landscape(built, x, targets=y, loss=F.cross_entropy)
    assert len(found.layers) == len(true.layers)
    for a, b in zip(found.layers, true.layers, strict=True):
        assert a.site == b.site.replace(f"hidden.{at}.block", f"hidden.{at}")
        for quantity in ("condition", "layer_factor", "data_factor", "top", "flat"):
            one, other = getattr(a, quantity), getattr(b, quantity)
            assert one.value == pytest.approx(other.value, rel=1e-6)


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0, 100.0])
def test_a_network_that_is_sure_of_its_answers_is_measured_or_flat(scale):
    model, (x, y) = net(), data()
    for block in model.hidden:
        block.linear.weight.data.mul_(scale)
    skips = [f"hidden.{i}" for i in range(1, len(model.hidden))]
    found = theory.landscape.what_if(
        model, x, skip=skips, rhos=[0.5, 1.0], targets=y, loss=F.cross_entropy
    )
    for variant in found:
        assert variant.layers or {s.why for s in variant.skipped} == {FLAT}


def test_a_skip_over_several_layers_and_the_model_as_it_is():
    model, (x, _) = net(), data()
    none, one = theory.landscape.what_if(model, x, skip="hidden.1:hidden.2", rhos=[0, 1.0])
    assert (none.says, one.says) == ("as it is", "skip 1 around hidden.1:hidden.2")
    plain = theory.landscape.landscape(model, x)
    assert [v.condition for v in none.layers] == [v.condition for v in plain.layers]
    built = copy.deepcopy(model)
    built.hidden = nn.Sequential(
        built.hidden[0], Skipped(nn.Sequential(*built.hidden[1:3]), 1.0), built.hidden[3]
    )
    true = theory.landscape.landscape(built, x)
    assert [v.condition.value for v in one.layers] == pytest.approx(
        [v.condition.value for v in true.layers], rel=1e-9
    )


def test_another_activation():
    model, (x, y) = net(), data()
    before, after = theory.landscape.what_if(
        model, x, activation="leaky", targets=y, loss=F.cross_entropy
    )
    true = theory.landscape.landscape(net(activation="leaky"), x, targets=y, loss=F.cross_entropy)
    assert (before.says, after.says) == ("as it is", "with leaky")
    assert [v.condition for v in after.layers] == [v.condition for v in true.layers]
    assert isinstance(model.hidden[0].activation, nn.ReLU)  # the model is as it was


def test_both_at_once():
    found = theory.landscape.what_if(
        net(), data()[0], activation="abs", skip="hidden.2", rhos=[0, 1]
    )
    assert [v.says for v in found] == ["as it is", "with abs", "skip 1 around hidden.2, abs"]


def test_several_skips_at_once_are_a_dense_network():
    model, (x, _) = net(), data()
    _, dense = theory.landscape.what_if(
        model, x, skip=["hidden.1:hidden.2", "hidden.2"], rhos=[0.5]
    )
    built = copy.deepcopy(model)
    inner = nn.Sequential(built.hidden[1], Skipped(built.hidden[2], 0.5))
    built.hidden = nn.Sequential(built.hidden[0], Skipped(inner, 0.5), built.hidden[3])
    true = theory.landscape.landscape(built, x)
    assert dense.says == "skip 0.5 around hidden.1:hidden.2, hidden.2"
    assert [v.condition.value for v in dense.layers] == pytest.approx(
        [v.condition.value for v in true.layers], rel=1e-9
    )


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "something to change"),
        ({"skip": "hidden.9"}, "`skip` must name one module, or two as first:last, got 'hidden.9'"),
        ({"skip": "hidden.0"}, r"the shape of its input, got \(12, 5\) in and \(12, 6\) out"),
        ({"skip": ""}, "`skip` must name one module"),
    ],
)
def test_what_cannot_be_imagined_is_refused_and_leaves_no_hook(asked, says):
    model = net()
    with pytest.raises(Refusal, match=says):
        theory.landscape.what_if(model, data()[0], **asked)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_activations_that_are_functions_cannot_be_exchanged():
    with pytest.raises(Refusal, match="activations that are modules"):
        theory.landscape.what_if(nn.Linear(5, 3).double(), data()[0], activation="leaky")


def test_a_module_that_is_never_called_has_no_skip():
    model = nn.Sequential(nn.Linear(5, 5)).double()
    model.spare = nn.Linear(5, 5).double()
    model.forward = lambda x: model[0](x)
    with pytest.raises(Refusal, match="must name modules that the model calls, got 'spare'"):
        theory.landscape.what_if(model, data()[0], skip="spare", rhos=[1.0])
