"""What is seen of a loop, and that it is the same loop."""

import contextlib
import gc
import random
import time
import warnings
import weakref
from textwrap import indent

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope.diagnosis.scripts.interventions import KeptGraph
from sigmascope.diagnosis.scripts.observer import Observer, Stopped
from sigmascope.diagnosis.scripts.rules import found_in
from tests.diagnosis.scripts.loops import (
    AGAIN,
    DROPS,
    FAULTY,
    HEALTHY,
    LOADER,
    LOSS,
    SETUP,
    STEP,
    ZERO,
    code,
)  # fmt: skip
from tests.diagnosis.scripts.test_rules import run
from tests.sampling import some


def watched(text, watching, **names):
    """What is seen of a loop, and the names that it leaves behind."""
    names |= {"__name__": "__main__"}
    with warnings.catch_warnings(), torch.random.fork_rng(), watching:
        warnings.simplefilter("ignore")
        exec(compile(text, "<loop>", "exec"), names)
    return getattr(watching, "run", None), names


@pytest.mark.parametrize(
    "name", some([*HEALTHY, *(n for n in FAULTY if n != "other-parameters")], of=5)
)
def test_a_loop_is_the_same_to_the_last_bit(name):
    text = code(*{**HEALTHY, **FAULTY}[name]).replace("range(4)", "range(2)")
    seen, own = (
        watched(text, how)[1]["model"].parameters()
        for how in (Observer(), contextlib.nullcontext())
    )
    assert all(map(torch.equal, seen, own))


def test_nothing_of_torch_is_left_changed():
    owners = (
        torch, torch.Tensor, torch.autograd, F, nn.Module, nn.utils, nn.utils.clip_grad,
        torch.optim.Optimizer, torch.utils.data.DataLoader, torch.amp.GradScaler,
        torch.optim.lr_scheduler.LRScheduler, torch.distributions.Categorical,
    )  # fmt: skip
    before = [{**vars(owner)} for owner in owners]
    with pytest.raises(ZeroDivisionError), Observer(intervention=KeptGraph(), recorded=True):
        raise ZeroDivisionError
    for owner, was in zip(owners, before, strict=True):
        now = vars(owner)
        assert was.keys() == now.keys()
        assert [k for k in was if was[k] is not now[k]] == []
    assert not nn.modules.module._has_any_global_hook()


def test_a_loop_is_stopped_at_the_boundary_of_a_step_and_its_blocks_are_left():
    left, watching = [], Observer(steps=5)
    head, loop, body = code().partition("for epoch in range(4):")
    text = f"{head}try:\n{indent(loop + body, '  ')}\nfinally:\n  left.append(True)"
    with pytest.raises(Stopped):
        watched(text, watching, left=left)
    assert (watching.run.steps, watching.run.stopped, left) == (5, True, [True])


def test_a_loop_is_stopped_at_the_first_step_behind_its_time():
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with contextlib.suppress(Stopped), Observer(seconds=0.2) as watching:
        for pause in (0.0, 0.0, 0.3, 0.0):
            net(torch.randn(2, 3)).sum().backward()
            time.sleep(pause)
            optimizer.step()
    assert (watching.run.steps, watching.run.stopped) == (3, True)


def test_what_happens_in_a_step_is_seen():
    found = run(code())
    (model,), (optimizer,) = found.modules, found.optimizers
    assert (model.kind, model.parameters, model.in_training) == ("Sequential", 178, 40)
    assert model.shapes == (((16, 8),), ((16, 2),))
    assert (optimizer.kind, optimizer.steps, set(optimizer.rates)) == ("SGD", 40, {0.5})
    text = code().splitlines()
    for place, word in (
        (optimizer.place, "opt.step"), (optimizer.zeroed, "opt.zero_grad"),
        (optimizer.backward, "loss.backward"), (optimizer.made, "torch.optim.SGD"),
    ):  # fmt: skip
        assert word in text[place.line - 1]
    assert len(found.loss.values) == 40
    assert found.loss.values[-1] < found.loss.values[0]


@pytest.mark.parametrize("changes", [(), HEALTHY["autocast and scaler"]])
def test_losses_are_those_that_the_script_has(changes):
    """Whatever a scaler makes of them."""
    text = code(*changes).replace("opt.zero_grad()", "opt.zero_grad(); losses.append(loss.item())")
    losses = []
    assert watched(text, Observer(), losses=losses)[0].loss.values == losses


def test_models_and_tensors_of_the_script_are_not_held():
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Observer(recorded=True):
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
    alive = weakref.ref(net), weakref.ref(optimizer)
    del net, optimizer
    gc.collect()
    assert [each() for each in alive] == [None, None]


class Table(nn.Module):
    """Rows of a table that are named by their numbers, normalised."""

    def __init__(self):
        super().__init__()
        self.rows, self.norm = nn.Embedding(4, 3), nn.BatchNorm1d(3)

    def forward(self, ids):
        return self.norm(self.rows(ids).reshape(-1, 3).expand(2, 3))


@pytest.mark.parametrize(("given", "alone"), [(torch.zeros(1), 0), (torch.zeros(1, 1), 3)])
def test_a_call_with_one_sample_is_told_from_one_with_a_number(given, alone):
    net = Table()
    with Observer() as watching:
        for _ in range(3):
            net(given.long())
    assert watching.run.modules[0].alone == alone


ACTIONS = {
    "forward": "        loss = nn.functional.cross_entropy(model(x), y)\n",
    "zero": "        opt.zero_grad()\n",
    "backward": "        loss.backward()\n",
    "step": "        opt.step()\n",
}


@given(order=st.permutations(["zero", "backward", "step"]), seed=st.integers(0, 3))
def test_of_all_orders_those_that_train_are_told_from_those_that_do_not(order, seed):
    """An oracle that knows nothing of hooks: whether weights move, and by which gradients."""
    body = "".join(ACTIONS[a] for a in ("forward", *order))
    text = code().replace("manual_seed(0)", f"manual_seed({seed})")
    head, _, _ = text.partition("        loss = ")
    if order == ["step", "zero", "backward"]:  # of weights that have moved, which autograd refuses
        with pytest.raises(RuntimeError, match="inplace"):
            run(head + body)
        return
    names = {f.name for f in found_in(run(head + body, steps=16))}
    between = order == ["backward", "zero", "step"]
    ahead = order in (["zero", "step", "backward"], ["step", "backward", "zero"])
    assert ("zeroed-before-step" in names) == between
    assert ("step-before-backward" in names) == ahead
    assert "gradients-not-zeroed" not in names


@given(every=st.integers(1, 5), skipped=st.booleans(), none=st.booleans())
def test_accumulation_over_any_number_of_batches_is_no_mistake(every, skipped, none):
    body = "        nn.functional.cross_entropy(model(x), y).div(2).backward()\n        n += 1\n"
    body += f"        if n % {every} == 0:\n            opt.step()\n"
    body += "" if skipped else f"            opt.zero_grad(set_to_none={none})\n"
    head, _, _ = code(("# setup", "n = 0")).partition("        loss = ")
    found = run(head.replace("range(4)", "range(12)") + body, steps=9)
    names = {f.name for f in found_in(found)}
    assert ("gradients-not-zeroed" in names) == (skipped and found.steps >= 8)


def test_random_numbers_are_drawn_as_without():
    torch.manual_seed(3), random.seed(3)
    net = nn.Linear(3, 1)
    with Observer():
        net(torch.randn(2, 3)).sum().backward()
    found = torch.rand(1), random.random()
    torch.manual_seed(3), random.seed(3)
    nn.Linear(3, 1), torch.randn(2, 3)
    assert found == (torch.rand(1), random.random())


EVALUATED = """
    {}model.eval()
    with torch.no_grad():
        hits = [model(X[k : k + 64]).argmax(1) for k in range(0, 256, 64)]
    model.train()
"""


@pytest.mark.parametrize(("when", "asked"), [("", 80), ("if epoch == 9: ", 4)])
def test_between_steps_that_are_looked_at_evaluations_alone_are_heard(when, asked):
    scored = EVALUATED.format(when)
    changes = (SETUP, DROPS), ("range(4)", "range(20)"), (STEP, STEP + scored)
    seen = run(code(*changes), steps=400)
    (model,) = seen.modules
    assert seen.steps == 320
    assert model.asked == asked
    # calls from `eval` on until the next step, of which two are not counted as training
    assert seen.main.looked <= model.in_training <= seen.main.looked + 1


LISTED = """
rows = torch.nested.nested_tensor([torch.randn(k, 8) for k in (2, 3)], layout=torch.jagged)
class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 2)
    def forward(self, x, more):
        return self.lin(x) + 0 * self.lin(more).values().sum()
model = Nested()
opt = torch.optim.SGD(model.parameters(), lr=0.5)
"""


def test_what_a_model_is_called_with_may_be_of_any_kind():
    """Nothing that is looked at stops what is watched."""
    turned = LISTED.replace("x, more", "more, x")
    dense = "x.to_sparse().to_dense(), rows"
    for lines, args in ((LISTED, "x, rows"), (LISTED, dense), (turned, "rows, x")):
        assert run(code((SETUP, lines), ("model(x)", f"model({args})"))).steps == 40


MADE = f"import copy; model = copy.deepcopy(model); {AGAIN}\n"


def test_optimizers_that_are_made_for_each_task_are_one():
    seen = run(code((LOADER, f"{LOADER}        {MADE}")))
    assert [o.steps for o in seen.optimizers] == [1, 1, 1, 40]


FIT = """
import torch
from torch import nn

torch.manual_seed(0)
X = torch.randn(256, 8)
Y = (X[:, 0] > 0).long()

def fit(model, epochs=2):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for k in range(0, 256, 16):
            opt.zero_grad()
            nn.functional.cross_entropy(model(X[k : k + 16]), Y[k : k + 16]).backward()
            opt.step()

def made(width=16):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2))
"""


@pytest.mark.parametrize(
    ("lines", "seconds", "steps", "repeated"),
    [
        ("for width in (16, 32, 64): fit(made(width))", 60.0, 32, True),
        ("models = [made() for _ in range(3)]\nfor model in models: fit(model)", 60.0, 32, True),
        ("model = made()\nfor _ in range(3): fit(model)", 60.0, 96, False),  # the same one goes on
        ("fit(nn.Linear(8, 2)); fit(made())", 60.0, 64, False),  # another kind of model
        ("fit(nn.Linear(8, 2), 0); fit(made())", 60.0, 32, False),
        ("for k in (16, 32): fit(made(k))", None, 64, False),  # who asks for no end has all of it
    ],
)
def test_of_models_that_are_trained_one_behind_another_the_first_is_looked_at(
    lines, seconds, steps, repeated
):
    watching = Observer(seconds=seconds)
    with contextlib.suppress(Stopped):
        watched(FIT + lines, watching)
    assert (watching.run.steps, watching.run.repeated) == (steps, repeated)


@pytest.mark.parametrize(("every", "heard"), [(33, 20), (1, 64 + 8 + 4 * (8 + 4))])
def test_models_that_are_asked_now_and_then_are_heard_and_those_of_each_step_by_habit(every, heard):
    """By gradients that are turned off, in 640 steps: of each round four are looked at anyway."""
    asked = f"""\
            if k // 16 % {every} == 0:
                with torch.no_grad(): model(X)
"""
    text = FIT.replace("            opt.step()\n", f"            opt.step()\n{asked}")
    text = text.replace("range(0, 256, 16)", "range(0, 10240, 16)").replace(
        "k : k + 16", "k % 256 : k % 256 + 16"
    )
    seen, _ = watched(f"{text}\nfit(made(), 1)", Observer(own=lambda file: file == "<loop>"))
    assert (seen.steps, len(seen.rounds)) == (640, heard)


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64, torch.complex64])
def test_weights_of_every_kind_of_numbers_are_seen_to_move(kind):
    """Without a warning of ours: where nobody steps, their sizes are read."""
    w = torch.ones(3, 2, dtype=kind, requires_grad=True)
    with Observer() as watching:
        for _ in range(4):
            (torch.ones(4, 3, dtype=kind) @ w).abs().mean().backward()
            with torch.no_grad():
                w.sub_(0.1 * w.grad)
            w.grad = None
    assert watching.run.moved_by_hand == 3


PARTS = """
class Parts(nn.Module):
    def __init__(self, widths, used):
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(8, w), nn.Linear(w, 2)) for w in widths)
        self.used = used
    def forward(self, x):
        return sum(self.parts[k](x) for k in self.used)
model = Parts({}, {})
opt = torch.optim.SGD(model.parameters(), lr=0.05)
"""


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.data(),
    st.sampled_from([(STEP, STEP), (ZERO, "")]),
)
def test_whichever_parts_of_a_model_are_used_its_loop_is_told_from_what_they_receive(
    widths, data, change
):
    places = st.sampled_from(range(len(widths)))
    used = data.draw(st.lists(places, min_size=1, unique=True))
    text = code((SETUP, PARTS.format(widths, used)), change)
    names = {f.name for f in found_in(run(text, steps=16))}
    assert names == ({"gradients-not-zeroed"} if change[1] == "" else set())


DRAWS = {  # and whether what is drawn goes out of the model, as what a policy does
    "torch.distributions.Categorical(logits=model(x)).sample()": True,
    "torch.distributions.Normal(model(x), 1.0).sample()": True,
    "model[2](model[1](torch.distributions.Normal(model[0](x), 1.0).sample()))": False,
    "torch.distributions.Normal(model(x), 1.0).rsample()": False,
    "torch.randint(0, 2, (16,))": False,
}


@pytest.mark.parametrize("draw", DRAWS)
def test_what_is_drawn_of_a_model_and_goes_into_none_is_an_action(draw):
    assert run(code((STEP, f"{STEP}        drawn = {draw}\n"))).acts == DRAWS[draw]


AHEAD = """\
target = y + 0.9 * {}
        loss = nn.functional.mse_loss(model(x)[:, 0], target)"""
LEAST = "torch.cat([model(x.flip(0)), model(x)], 1).min(1)[0]"


@pytest.mark.parametrize("gradients", [False, True])
def test_a_sum_of_data_and_of_what_is_learned_looks_ahead_without_gradients(gradients):
    whole = AHEAD.replace("target =", "target = (").replace("{}", LEAST + ")")
    text = whole if gradients else whole.replace(")\n", ").detach()\n", 1)
    assert run(code(("loss = " + LOSS, text))).ahead != gradients


def test_a_least_of_several_that_is_taken_without_gradients_looks_ahead():
    text = AHEAD.replace("target =", "with torch.no_grad(): target =").format(LEAST)
    assert run(code(("loss = " + LOSS, text))).ahead
