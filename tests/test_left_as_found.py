"""Every door leaves every model, its inputs and the process bit for bit as they were found.

After success, after an exception in some call of some module, and after Ctrl-C there. The full
product of models, doors and ends is slow; a part of it that is drawn anew from a fixed seed is not.
"""

import random
import warnings
from contextlib import suppress

import numpy as np
import pytest
import torch
from fingerprints import differences, fingerprint, process
from models_zoo import MODELS, require_unused
from odd_zoo import EVERY, ODD
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook

import sigmascope
from sigmascope import diagnosis, scanning, survey, theory, watching
from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import EVERY as EVERY_VIEW
from sigmascope.diagnosis.remedies import Inapplicable, UnitScale
from sigmascope.models import Subject
from sigmascope.models.samples import as_tensor, mapped, prepared, run
from tests.sampling import some

EXPECTED = (Refusal, Inapplicable)
ENDS = ("success", "exception", "interrupt")
SLICE = 20  # cases of the product in the default tests


class Injected(Exception):
    """What a model may raise that nobody has thought of."""


def loss(output, targets):
    """Cross-entropy for class scores, squared error for all else."""
    if isinstance(targets, Tensor) and not targets.is_floating_point():
        return F.cross_entropy(output, targets)
    return F.mse_loss(output, targets)


def targets_for(net, x):
    """Of the form of the output, from one run."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        out = as_tensor(run(net, prepared(net, x)))[0]
    if out.ndim == 2 and out.shape[1] > 1 and out.dtype == torch.float32:
        return torch.arange(len(out)) % out.shape[1]
    return torch.zeros_like(out)


def _look(net, x, y):
    """A step without gradients is looked at."""
    if trained := [p for p in net.parameters() if p.requires_grad]:
        optimizer = torch.optim.SGD(trained, lr=0.0)
        of = {"probe_batch": x, "targets": y, "loss": loss, "every": 1}
        views = ["representations", "weights", "balances"]
        with watching.watch(net, optimizer, views=views, **of) as watch:
            optimizer.step()
            watch.drifts()


DOORS = {
    "profile": lambda net, x, y: survey.profile(net, x),
    "profile with targets": lambda net, x, y: survey.profile(net, x, targets=y, loss=loss),
    "every view": lambda net, x, y: survey.profile(
        net, x, targets=y, loss=loss, views=EVERY_VIEW, outputs=2
    ),
    "landscape": lambda net, x, y: theory.landscape.landscape(net, x, targets=y, loss=loss),
    "curvature": lambda net, x, y: theory.landscape.curvature(
        net, x, targets=y, loss=loss, steps=3, samples=2
    ),
    "loss surface": lambda net, x, y: theory.landscape.loss_surface(
        net, x, targets=y, loss=loss, points=3, extent=0.1
    ),
    "input regions": lambda net, x, y: theory.landscape.input_regions(net, x),
    "bottleneck": lambda net, x, y: theory.bottleneck.bottleneck(net, x, targets=y),
    "compression": lambda net, x, y: diagnosis.compression.compression(net, x, targets=y),
    "assess": lambda net, x, y: diagnosis.assess(net, x, targets=y, loss=loss, views=["setup"]),
    "trial": lambda net, x, y: diagnosis.trial(
        net, x, targets=y, loss=loss, remedies=[UnitScale()]
    ),
    "rank": lambda net, x, y: diagnosis.ranking.rank([net], x, targets=y, loss=loss),
    "theorems": lambda net, x, y: [*theory.check(Subject(net, x, y, loss))],
    "conserved": lambda net, x, y: theory.le2022.conservation.conserved(
        net, x, targets=y, loss=loss
    ),
    "compare": lambda net, x, y: theory.compare(net, net, batch=x, targets=y, loss=loss),
    "look": _look,
    "treat": lambda net, x, y: diagnosis.treat(net, x, UnitScale(), targets=y, loss=loss),
    "loss line": lambda net, x, y: theory.landscape.loss_line(
        net, {k: 0.9 * p.detach() for k, p in net.named_parameters()}, x,
        targets=y, loss=loss, points=3,
    ),
    "what if": lambda net, x, y: theory.landscape.what_if(net, x, targets=y, loss=loss),
    "layer rates": lambda net, x, y: diagnosis.layer_rates(net, x, targets=y, loss=loss),
    "scan": lambda net, x, y: scanning.scan(net),
}  # fmt: skip


class Fault:
    """Raises in one call of any module, counted over all modules; counts only if there is none."""

    def __init__(self, at=None, kind=None):
        self.at, self.kind, self.calls, self.raised = at, kind, 0, False

    def __call__(self, module, args, output):
        self.calls += 1
        if self.calls == self.at:
            self.raised = True
            raise self.kind("injected")


def opened(door, built, fault):
    """Go through a door with a fault in wait; what came out, and what had changed."""
    net, x, y = built
    before, around = fingerprint(model=net, batch=x, targets=y), process()
    with register_module_forward_hook(fault), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            error, found = None, DOORS[door](net, x, y)
        except (Exception, KeyboardInterrupt) as caught:  # noqa: BLE001 (told from one another below)
            error, found = caught, None
    changed = differences(before, fingerprint(model=net, batch=x, targets=y))
    now = process()
    return error, found, changed + [k for k in around if around[k] != now[k]]


def build(name):
    """A model, its batch and targets; odd models warn, and leave settings behind."""
    net, x = EVERY[name]()
    twin, again = EVERY[name]()
    state = process_settings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            y = targets_for(twin, again)
        finally:
            put_back(state)
    return net, x, y


def process_settings():
    """What odd models leave behind where nothing holds them still."""
    return {
        torch.set_grad_enabled: torch.is_grad_enabled(),
        torch.set_default_dtype: torch.get_default_dtype(),
        torch.use_deterministic_algorithms: torch.are_deterministic_algorithms_enabled(),
        torch.set_float32_matmul_precision: torch.get_float32_matmul_precision(),
        torch.backends.mha.set_fastpath_enabled: torch.backends.mha.get_fastpath_enabled(),
    }


def put_back(state):
    """The settings as they were."""
    for setter, value in state.items():
        setter(value)
    torch.backends.cudnn.benchmark = False
    np.seterr(divide="warn")


def require_as_found(name, door, end):
    """One model, one door, one end."""
    counter = Fault()
    error, found, changed = opened(door, build(name), counter)
    assert not changed, (name, door, changed[:5])
    assert error is None or isinstance(error, EXPECTED), (name, door, repr(error))
    if end == "success":
        return found
    if counter.calls == 0:
        return None
    rng = random.Random(f"{name} {door} {end}")
    kind = KeyboardInterrupt if end == "interrupt" else Injected
    fault = Fault(rng.randint(1, counter.calls), kind)
    error, found, changed = opened(door, build(name), fault)
    assert fault.raised
    assert not changed, (name, door, end, fault.at, counter.calls, changed[:5])
    if end == "interrupt":
        assert isinstance(error, KeyboardInterrupt), repr(error)
    elif error is not None:
        assert isinstance(error, EXPECTED), repr(error)
    return found


def _slice():
    every = [(n, d, e) for n in EVERY for d in DOORS for e in ENDS]
    quick = [c for c in every if not c[0].startswith(("transformers", "wide-head"))]
    return random.Random(20).sample(quick, SLICE)


def test_there_are_many_models():
    assert len(MODELS.keys() & ODD.keys()) == 0
    assert len(EVERY) >= 110


@pytest.mark.usefixtures("as_users_see_it")  # beartype draws from `random` itself
@pytest.mark.parametrize(("name", "door", "end"), _slice())
def test_a_drawn_case_is_left_as_found(name, door, end):
    require_as_found(name, door, end)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("name", some(ODD))
def test_every_odd_model_is_profiled_with_targets(name):
    found = require_as_found(name, "profile with targets", "success")
    assert found.readings
    assert all(s.why for s in found.skipped)
    require_unused(found, *EVERY[name]())


class Remembering(nn.Module):
    """A loss with a mean that it goes on updating, a count, and weights of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.scale, self.calls = nn.Parameter(torch.ones(3)), 0

    def forward(self, output, targets):
        self.calls += 1
        self.mean.lerp_(output.detach().mean(0), 0.1)
        return F.cross_entropy(output * self.scale, targets)


@pytest.mark.parametrize(
    "door",
    {
        "profile": lambda net, x, y, loss: survey.profile(net, x, targets=y, loss=loss),
        "diagnose": lambda net, x, y, loss: sigmascope.diagnose(
            net, (x, y), loss=loss, optimizer="adam", lr=0.01, batch_size=4, epochs=1
        ),
        "cured": lambda net, x, y, loss: diagnosis.cures.cured(
            diagnosis.Program(net, (x, y), loss, "sgd", 1e-5, 4, 2)
        ),
        "trainability": lambda net, x, y, loss: diagnosis.trainability.trainability(
            net, x, targets=y, loss=loss
        ),
    }.values(),
)
def test_a_loss_that_remembers_is_left_as_found(door):
    torch.manual_seed(0)
    net, loss = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), Remembering()
    before = fingerprint(loss=loss)
    door(net, torch.randn(12, 6), torch.arange(12) % 3, loss)
    assert not differences(before, fingerprint(loss=loss))


@pytest.mark.parametrize("door", DOORS)
def test_a_loss_that_draws_leaves_random_states_alone(door, monkeypatch, as_users_see_it):
    """Without the checker of shapes, which draws, too: the entries of lists that it looks at."""

    def drawing(output, targets):
        weight = 0.5 + random.random() + np.random.rand()
        return weight * F.cross_entropy(F.dropout(output, 0.1), targets)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(12, 6), torch.arange(12) % 3
    monkeypatch.setitem(globals(), "loss", drawing)
    before = process()
    with suppress(*EXPECTED):
        DOORS[door](net, x, y)
    assert process() == before


def _otherwise(t):
    """The same kind of numbers, others."""
    if t.is_floating_point():
        return t.detach() * 0.5 + 0.3 * torch.randn(t.shape).to(t)
    return t.flip(-1) if t.ndim > 1 else t


@pytest.mark.parametrize("name", EVERY)
def test_layers_that_read_nothing_of_the_batch_read_the_same_of_another(name):
    (net, x), (twin, again) = EVERY[name](), EVERY[name]()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = Subject(net, x), Subject(twin, mapped(again, _otherwise))
        try:
            pairs = [*zip(one.calls, other.calls, strict=True)]
        except (Refusal, ValueError):  # other numbers, another way through the model
            return
    same = {c.site for c, d in pairs if torch.equal(c.input, d.input)}
    assert one.unfed <= same
    assert not one.unfed or one.unfed < {c.site for c in one.calls}


def test_layers_that_read_nothing_of_the_batch_are_known():
    for name, unfed in (("learned-queries", {"q", "q2"}), ("a-first-state-of-zeros", {"w"})):
        net, x = EVERY[name]()
        assert Subject(net, x).unfed == unfed
        found = survey.profile(net, x, targets=torch.arange(len(x)) % 3, loss=loss)
        assert {r.site for r in found.series("inputs read")} == unfed
        names = {f.name for f in diagnosis.judge(found)}
        assert not names & {"lost-inputs", "unscaled-inputs", "exploding-signal"}


@pytest.mark.slow
@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("name", EVERY)
def test_every_case_is_left_as_found(name):
    for door in DOORS:  # no item for each of ten thousand: each commit would collect them
        for end in ENDS:
            require_as_found(name, door, end)
