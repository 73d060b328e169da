import subprocess
import sys

import pytest
import torch
from fingerprints import differences, fingerprint
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.models import Subject
from sigmascope.models.samples import RUNS
from sigmascope.models.structure import tail
from sigmascope.models.trace import FIXED, DispatchMode, Operations, run_once, traced
from tests.models.refusing import Refuses
from tests.models_zoo import MODELS, Net


def test_a_model_that_bears_no_watcher_is_measured_without():
    watched = lambda: torch._C._len_torch_dispatch_stack() > 0
    subject = Subject(Refuses(watched), torch.randn(6, 4))
    assert [c.site for c in subject.calls] == ["layer", "head"]
    assert [s.kind for s in subject.squashes] == ["sigmoid"]
    assert subject.mixing == ""
    with pytest.raises(ValueError, match="not here"):
        _ = subject.uses_outside


class Overwrites(nn.Module):
    """Changes what its layer has read."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        y = self.layer(x)
        x.zero_()
        return (y + x).sigmoid_()


def test_what_is_overwritten_is_copied_in_a_second_run():
    net, x = Overwrites(), torch.ones(4, 3)
    before = RUNS.count
    found = traced(net, x, {"layer": net.layer})
    assert RUNS.count == before + 2
    assert torch.equal(found.calls[0].input, x)
    assert found.seen[0].spoiled
    assert torch.equal(x, torch.ones(4, 3))
    plain = nn.Sequential(net.layer)
    before = RUNS.count
    traced(plain, x, {"0": net.layer})
    assert RUNS.count == before + 1


def test_sums_are_seen_with_their_sizes_and_activations_with_their_kind():
    a, b = torch.full((4,), 2.0, requires_grad=True), torch.full((4,), -3.0)
    with Operations() as seen:
        x = a * 1
        torch.add(x, b, alpha=-2)
        x + 1.0  # a number is no branch
        x + b[:1]  # nor is what is repeated
        y = F.hardtanh_(x.tanh())
        y.relu()
    assert [s.sizes for s in seen.sums] == [(2.0, 6.0)]
    assert seen.sums[0].nodes == (x.grad_fn, None)
    assert [kind for kind, _ in seen.squashed] == ["tanh", "hardtanh"]
    with Operations(sizes=False) as quick:
        x + b
    assert quick.sums[0].sizes == (0.0, 0.0)


class Applies(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.bare = nn.Linear(3, 3), nn.Parameter(torch.ones(3, 3))
        self.register_buffer("fixed", torch.ones(3, 3))
        self.gain = nn.Parameter(torch.ones(1, 3))

    def forward(self, x):
        x = self.layer(x) * self.gain  # a row is a vector
        x = x + self.fixed[:1]  # of buffers only products count
        return (x @ self.bare.T) @ (2 * self.fixed) @ torch.eye(3)


def test_weights_that_are_applied_outside_of_layers_are_named():
    net, x = Applies(), torch.ones(4, 3)
    found = run_once(net, x, {"layer": net.layer}, outside=True)
    assert found.outside == ("bare", "fixed", FIXED)
    assert found.operations is None
    assert run_once(net, x, {"layer": net.layer}).outside is None
    everything = run_once(net, x, {}, outside=True)
    assert everything.outside == ("layer.weight", "bare", "fixed", FIXED)


# ------------------------------------------------------------------------------
# A mode sees every operation, and the compiler stays unloaded.


LOADED = """
import sys
import torch
from sigmascope.survey import profile
from sigmascope.models.networks import build
model = build("mlp?depth=2&width=4", inputs=(3,), outputs=2)
found = profile(model, torch.randn(8, 3), targets=torch.arange(8) % 2)
assert found.readings
print(*(m for m in ("torch._dynamo", "scipy.stats", "sklearn", "pandas") if m in sys.modules))
"""


class Counting(DispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_every_operation_is_seen_with_its_arguments():
    x = torch.ones(2, 2)
    with Counting() as mode:
        y = torch.add(x, x, alpha=2)
    assert mode.seen == ["aten.add.Tensor"]
    assert torch.equal(y, torch.full((2, 2), 3.0))


def test_a_function_compiled_before_is_still_passed_by():
    import torch._dynamo

    with Counting() as mode:
        torch.ones(2).add(1)
    assert "aten.add.Tensor" in mode.seen


def test_a_profile_loads_neither_the_compiler_nor_what_only_others_need():
    run = [sys.executable, "-c", LOADED]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []


# ------------------------------------------------------------------------------
# What follows the last weight can be run by itself, on anything.


def by_hand(z):
    e = (z - z.amax(-1, keepdim=True)).exp()
    e *= 2  # in place
    return e / e.sum(-1, keepdim=True)


def ending_in(last, after):
    return Net(lambda m, x: after(m.last(x)), last=last)


ENDS = {
    "none": (lambda z: z, ""),
    "softmax": (lambda z: z.softmax(-1), "softmax"),
    "by hand": (by_hand, "div"),
    "in place": (lambda z: F.relu(z, inplace=True), "relu"),
    "scaled": (lambda z: 3 * z.tanh() + 1, "add"),
    "moved": (lambda z: z.reshape(-1, 3)[:, :2].sigmoid().unsqueeze(1), "sigmoid"),
    "log": (lambda z: z.log_softmax(-1), "log_softmax"),
}


@pytest.mark.parametrize("end", ENDS)
def test_it_gives_what_the_operations_give(end):
    after, closing = ENDS[end]
    g = torch.Generator().manual_seed(0)
    x, z = torch.randn(5, 4, generator=g), torch.randn(5, 3, generator=g)
    ending = tail(ending_in(nn.Linear(4, 3), after), x)
    assert ending.closing == closing
    assert torch.equal(ending(ending.start), ending.output)
    assert torch.allclose(ending(z), after(z.clone()))
    assert not torch.allclose(ending(z), ending.output)


def test_it_can_be_differentiated():
    ending = tail(nn.Sequential(nn.Linear(4, 3), nn.Sigmoid()), torch.ones(2, 4))
    z = torch.zeros(2, 3, requires_grad=True)
    ending(z).sum().backward()
    assert torch.allclose(z.grad, torch.full((2, 3), 0.25))


def test_recurrent_layers_have_a_bound():
    assert tail(ending_in(nn.LSTM(4, 3), lambda out: out[0]), torch.ones(2, 2, 4)).bound == 1.0
    assert tail(nn.Linear(4, 3), torch.ones(2, 4)).bound == float("inf")


def test_a_weight_in_another_form_is_the_last_one():
    assert tail(
        Net(
            lambda m, x: F.linear(x.relu(), m.table.clone()).softmax(-1),
            table=nn.Parameter(torch.randn(7, 4)),
        ),
        torch.ones(2, 4),
    ).names == ("softmax",)


def test_what_cannot_be_run_again_is_refused():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)
            self.register_buffer("calls", torch.ones(()))

        def forward(self, x):
            z = self.head(x)
            self.calls.add_(1)  # which is taken back behind the run
            return z * self.calls

    with pytest.raises(Refusal, match="run again"):
        tail(Counting(), torch.ones(2, 4))
    with pytest.raises(Refusal, match="seen to meet data"):
        tail(ending_in(nn.Linear(4, 3), lambda z: torch.ones(2, 1)), torch.ones(2, 4))


def test_what_remembers_other_numbers_is_refused():
    class Observing(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 3)
            self.register_buffer("most", torch.full((), 1e-3))

        def forward(self, x):
            z = self.head(x)
            self.most.copy_(torch.maximum(self.most, z.abs().max()))
            return z / self.most

    model = Observing()
    before = fingerprint(model=model)
    with pytest.raises(Refusal, match="keeps a state"):
        tail(model, torch.ones(2, 4))
    assert not differences(before, fingerprint(model=model))


@pytest.mark.parametrize("name", list(MODELS)[::4])
def test_models_are_left_as_found(name):
    model, batch = MODELS[name]()
    before = fingerprint(model=model)
    try:
        ending = tail(model, batch)
    except Refusal:
        pass
    else:
        assert ending(ending.start).shape == ending.output.shape
    assert not differences(before, fingerprint(model=model))


@pytest.mark.parametrize(("end", "copies"), [("softmax", 0), ("in place", 1)])
def test_what_the_last_weight_wrote_is_copied_only_where_it_was_written_into(end, copies):
    wrote = []
    model = ending_in(nn.Linear(4, 3), lambda z: ENDS[end][0](wrote.append(z) or z))
    nn.init.constant_(model.last.weight, -1.0)  # what is rectified is not all positive
    ending = tail(model, torch.ones(2, 4))
    held = {ending.start.data_ptr(), ending.output.data_ptr()}
    of_model = {wrote[0].data_ptr(), ending.output.data_ptr()}
    assert len(held - of_model) == copies
