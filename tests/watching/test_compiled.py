"""Compiled training is the same, compiled as often, and what is not heard of it is said."""

import shutil
from functools import cache

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

from sigmascope.watching import Watch
from watching.layouts import Kept, Small

COMPILER = pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler of C++")
SIZES = (6, 6, 6, 4)  # the last batch of every four is smaller, and is compiled anew


def whole(net, backend):
    return torch.compile(net, backend=backend)


def full(net, backend):
    return torch.compile(net, backend=backend, fullgraph=True)


def in_place(net, backend):
    net.compile(backend=backend)
    return net


def block(net, backend):
    net.attend.compile(backend=backend)
    return net


def inner(net, backend):
    """A function inside of the model, as those of attention by a program are."""
    attend = torch.compile(F.scaled_dot_product_attention, backend=backend, fullgraph=True)
    plain = net.attend.forward
    net.attend.forward = lambda x: plain(x) + attend(x[:, None], x[:, None], x[:, None])[:, 0]
    return net


def trained(compile, backend, watched, first=False, steps=8):
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    net, kept, named = Small(), Kept(), {"budget": 1.0, "clock": lambda: 0.0}
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    watch = Watch(net, optimizer, sinks=[kept], **named) if watched and first else None
    called = compile(net, backend)
    if watched and not first:
        watch = Watch(called, optimizer, sinks=[kept], **named)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(SIZES[step % 4], 5, 16, generator=generator)
        optimizer.zero_grad()
        loss = called(x).square().mean()
        loss.backward()
        optimizer.step()
        if watch:
            watch.step(loss)
    if watch:
        watch.close()
    weights = [p.detach().clone() for p in net.parameters()]
    return weights, counters["stats"]["unique_graphs"], dict(counters["graph_break"]), kept


QUICK = ((whole, True, "eager"), (whole, False, "eager"), (block, False, "aot_eager"))


def cases():
    """The quick ones have a model in each order, and a part of one."""
    for compile in (whole, full, in_place, block, inner):
        for first in (False, True):
            for backend in ("eager", "aot_eager", "inductor"):
                marks = [COMPILER] * (backend == "inductor")
                if (compile, first, backend) not in QUICK:
                    marks.append(pytest.mark.slow)
                yield pytest.param(compile, first, backend, marks=marks)


@cache
def alone(compile, backend):
    """The same training without a watch."""
    return trained(compile, backend, False)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # of compiling parts of a model
@pytest.mark.parametrize(("compile", "first", "backend"), [*cases()])
def test_compiled_training_is_the_same_and_compiled_at_most_once_more(compile, first, backend):
    weights, graphs, breaks, _ = alone(compile, backend)
    others, more, others_breaks, kept = trained(compile, backend, True, first)
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))
    assert more <= graphs + 1
    assert others_breaks == breaks
    read = {r.quantity for look in kept.looks for r in look.readings}
    assert read >= {"gradient norm", "update ratio", "spectral norm", "loss"}
    said = " ".join(f"{s.what}: {s.why}" for look in kept.looks for s in look.skipped)
    of_activations = {"mean square", "attention entropy", "participation ratio"}
    if first and compile in (whole, full):  # nothing tells what was made of the model
        assert "hand the watch what `torch.compile` has made" in said
        assert not of_activations & read
    else:
        assert not said
        assert of_activations <= read
        sites = {
            r.site for look in kept.looks for r in look.readings if r.quantity == "mean square"
        }
        assert {"attend.q", "up", "head"} <= sites


def test_layers_of_a_model_that_is_not_called_itself_are_said_not_to_be_heard():
    net, kept = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), Kept()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with Watch(net, optimizer, sinks=[kept], budget=1.0, clock=lambda: 0.0):
        for _ in range(6):
            optimizer.zero_grad()
            parameters = dict(net.named_parameters())
            x = F.linear(torch.ones(3, 4), parameters["0.weight"], parameters["0.bias"])
            F.linear(x, parameters["2.weight"], parameters["2.bias"]).square().mean().backward()
            optimizer.step()
    said = {s.what: s.why for look in kept.looks for s in look.skipped}
    assert "no hook has heard a layer" in said["activations"]
