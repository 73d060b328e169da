"""Losses of several tensors are losses of one that holds those that they read."""

from collections import namedtuple
from copy import deepcopy

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch.nn import functional as F

import sigmascope as ss
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.programs.outputs import (
    NotAtHand,
    holding,
    joined,
    joint_in,
    read_by,
)
from sigmascope.models.samples import as_tensor
from tests.models_zoo import Net

G = torch.Generator().manual_seed(0)
Z, Y = torch.randn(6, 3, generator=G), torch.arange(6).remainder(3)
Pair = namedtuple("Pair", "scores state")
CE = F.cross_entropy


def hf(**parts):
    transformers = pytest.importorskip("transformers")
    return transformers.modeling_outputs.SequenceClassifierOutput(**parts)


GIVEN = {
    "mapping by key": (lambda z: {"logits": z, "mask": z > 0}, lambda o, y: CE(o["logits"], y)),
    "mapping by get": (lambda z: {"logits": z}, lambda o, y: CE(o.get("logits"), y)),
    "hugging face": (lambda z: hf(logits=z), lambda o, y: CE(o.logits, y)),
    "hugging face by number": (lambda z: hf(logits=z), lambda o, y: CE(o[0], y)),
    "tuple by number": (lambda z: (z, None), lambda o, y: CE(o[0], y)),
    "tuple taken apart": (lambda z: (z, None), lambda o, y: CE(next(iter(o)), y)),
    "named tuple": (lambda z: Pair(z, None), lambda o, y: CE(o.scores, y)),
    "named tuple by number": (lambda z: Pair(z, None), lambda o, y: CE(o[0], y)),
    "list": (lambda z: [z], lambda o, y: CE(o[0], y)),
    "second of two": (lambda z: ((z > 0), z), lambda o, y: CE(o[1], y)),
}


@pytest.mark.parametrize("how", GIVEN)
def test_a_loss_of_one_tensor_of_several(how):
    make, loss = GIVEN[how]
    joint = read_by(loss, make(Z), Y, count=6)
    assert joint.single
    assert joint.studied == (how != "second of two" or as_tensor(make(Z))[0] is Z)
    mine = joint.of(loss)
    other = torch.randn(9, 3, generator=G).requires_grad_()  # as many samples as a step takes
    classes = torch.arange(9).remainder(3)
    assert mine(other, classes) == CE(other, classes)
    mine(other, classes).backward()
    assert other.grad.abs().sum() > 0


def test_one_tensor_is_no_joint_nor_is_what_the_loss_does_not_take():
    assert read_by(CE, Z, Y, count=6) is None
    assert read_by(CE, {"logits": Z}, Y, count=6) is None
    assert read_by(lambda o, y: 1 / 0, (Z, Z), Y, count=6) is None


SHAPES = st.lists(st.integers(1, 4), max_size=2)
PARTS = st.lists(SHAPES, min_size=2, max_size=4)


@given(PARTS, st.integers(2, 5), st.sampled_from(["tuple", "list", "mapping"]), st.data())
def test_what_is_joined_and_taken_apart_is_what_was_given(shapes, count, kind, data):
    """Values and gradients of every part that a loss reads, whatever their shapes and holder."""
    made = torch.Generator().manual_seed(len(shapes))
    parts = [torch.randn(count, *shape, generator=made, dtype=torch.float64) for shape in shapes]
    some = st.sets(st.sampled_from(range(len(parts))), min_size=1)
    read = sorted(data.draw(some))
    hold = {"tuple": tuple, "list": list, "mapping": lambda p: {str(i): t for i, t in enumerate(p)}}
    at = (lambda o, i: o[str(i)]) if kind == "mapping" else (lambda o, i: o[i])
    loss = lambda o, y: sum((at(o, i) * (i + 1) + at(o, i).square()).sum() for i in read) + 0 * y
    given_leaves = [p.clone().requires_grad_() for p in parts]
    joint = read_by(loss, hold[kind](parts), torch.zeros(()), count=count)
    assert joint.read == tuple(read)
    joined_parts = joint.join(hold[kind](given_leaves))
    mine = joint.of(loss)(joined_parts, torch.zeros(()))
    truth_leaves = [p.clone().requires_grad_() for p in parts]
    truth = loss(hold[kind](truth_leaves), torch.zeros(()))
    torch.testing.assert_close(mine, truth)
    mine.backward()
    truth.backward()
    for i in read:
        torch.testing.assert_close(given_leaves[i].grad, truth_leaves[i].grad)


def test_the_columns_that_look_like_the_targets_are_told_where_others_do_not():
    both = lambda o, y: CE(o[0], Y) + o[1].square().sum() + 0 * y.sum()
    like = lambda *sizes: read_by(both, tuple(torch.ones(6, n) for n in sizes), Y, count=6)
    assert like(3, 2).columns_like(torch.ones(6, 3)).tolist() == [True] * 3 + [False] * 2
    assert like(3, 2).columns_like(torch.ones(6, 2)).tolist() == [False] * 3 + [True] * 2
    assert like(3, 2).columns_like(torch.ones(6, 4)) is None
    assert like(3, 3).columns_like(torch.ones(6, 3)) is None


def test_parts_that_are_no_rows_are_refused():
    with pytest.raises(Refusal, match="one row for each sample"):
        read_by(lambda o, y: o[0].sum() + o[1].sum(), (torch.ones(2), torch.ones(3)), Y, count=6)


def mapped():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    return Net(lambda self, x: {"logits": self.net(x), "hidden": self.net[0](x)}, net=inner)


def test_the_hook_goes_and_sleeps_in_copies():
    net = mapped()
    loss = lambda o, y: CE(o["logits"], y) + o["hidden"].square().mean()
    joint = read_by(loss, net(torch.ones(4, 8)), torch.zeros(4, dtype=torch.long), count=4)
    with joined(net, joint):
        copy = deepcopy(net)
        assert net(torch.ones(4, 8)).shape == copy(torch.ones(4, 8)).shape == (4, 19)
        assert joint_in(copy) is joint
    assert not net._forward_hooks
    assert set(copy(torch.ones(4, 8))) == {"logits", "hidden"}


def test_it_is_diagnosed_as_a_loss_of_the_tensor_is():
    x = torch.randn(64, 8, generator=G)
    y = x[:, :3].argmax(1)
    options = {"optimizer": "adam", "lr": 0.01, "batch_size": 16, "epochs": 25}
    one = ss.diagnose(mapped(), (x, y), loss=lambda o, y: CE(o["logits"], y), **options)
    other = ss.diagnose(mapped(), (x, y), loss=CE, **options)
    assert one.findings == other.findings == ()
    assert one.profile.readings == other.profile.readings
    both = lambda o, y: CE(o["logits"], y) + o["hidden"].square().mean()
    found = ss.diagnose(mapped(), (x, y), loss=both, **options)
    assert found.findings == ()
    assert found.profile.series("loss left")[0].estimate.value < 0.5


class Drawing(nn.Module):
    """Makes what its loss reads beside its scores, other every time."""

    def __init__(self, *, several):
        super().__init__()
        self.net, self.scale, self.several = nn.Linear(8, 3), nn.Parameter(torch.ones(2)), several

    def forward(self, x):
        z = self.net(x)
        drawn = torch.randint(0, 3, (len(x),))
        given = {"scores": z, "labels": drawn, "mask": torch.rand(len(x)) < 0.5, "of": len(x)}
        more = {"noise": torch.randn_like(z), "state": 2 * z, "scale": self.scale}
        return given | (more if self.several else {})


def told(o, y):
    value = (CE(o["scores"], o["labels"], reduction="none") * o["mask"]).sum() / o["of"] + 0 * y
    if "noise" in o:
        value = value + ((o["state"] - o["noise"]).square() * o["scale"].sum()).mean()
    return value


@pytest.mark.parametrize("several", [False, True])
def test_what_is_beside_is_of_the_same_forward_pass(several):
    torch.manual_seed(0)
    net, zero = Drawing(several=several), torch.zeros(())
    x = torch.randn(6, 8, generator=G)
    with torch.no_grad():
        joint = read_by(told, net(x), zero, count=6)
    mine = joint.of(told)
    kept = []
    net.register_forward_hook(lambda _, args, output: kept.append(output))
    with joined(net, joint):
        for size in (6, 4, 4):
            output = net(x[:size])
            torch.testing.assert_close(mine(output, zero), told(kept[-1], zero))
            ours, theirs = (
                torch.autograd.grad(v, [*net.parameters()], retain_graph=True, allow_unused=True)
                for v in (mine(output, zero), told(kept[-1], zero))
            )
            torch.testing.assert_close(ours, theirs)
        assert joint.fixed == ({3} if several else set())
        for rows in (slice(0, 2), slice(1, 3)):  # earlier ones too, as long as they are there
            torch.testing.assert_close(
                joint.apart(output[rows])["labels"], kept[-1]["labels"][rows]
            )
        twice = joint.apart(torch.cat([output, output]))
        torch.testing.assert_close(twice["mask"], kept[-1]["mask"].repeat(2))
        made = torch.zeros_like(output)[:3]
        with pytest.raises(NotAtHand, match="as many samples"):
            joint.apart(made)
        with holding(joint, output[1:]):
            torch.testing.assert_close(joint.apart(made)["labels"], kept[-1]["labels"][1:])
            if several:  # what is data is not made up
                torch.testing.assert_close(joint.apart(made)["noise"], kept[-1]["noise"][1:])
        first = joint.apart(torch.zeros(6, *output.shape[1:]))
        assert torch.equal(first["labels"], joint.whole["labels"])


def test_nothing_is_kept_of_a_forward_pass_that_is_over():
    net = Drawing(several=True)
    x = torch.randn(6, 8, generator=G)
    joint = read_by(told, net(x), torch.zeros(()), count=6)
    with joined(net, joint):
        for _ in range(3):
            net(x)
        assert len(joint._passes) <= 1
    assert joint._last is None
