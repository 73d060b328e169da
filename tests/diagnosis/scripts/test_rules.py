"""Each mistake of a loop is told by its name, and loops without one are left in peace."""

import contextlib
import warnings
from collections import Counter
from dataclasses import replace

import pytest
import torch

from sigmascope.diagnosis.rules.training import MAXIMISED_LOSS
from sigmascope.diagnosis.scripts.observer import Observer, Stopped
from sigmascope.diagnosis.scripts.rules import KINDS, discriminator_won, found_in
from sigmascope.diagnosis.scripts.running import Job, Script, run_here
from sigmascope.diagnosis.scripts.seen import Called, Line, LossSeen, OptimizerSeen, ScriptRun
from tests.diagnosis.scripts.loops import (
    BACK,
    BASELINE,
    BROKEN,
    BY_CHANCE,
    CONTINUED,
    COUNTS,
    DECODED,
    DICE,
    DOT,
    DRAWN,
    DROPPED,
    FAULTY,
    FLOW,
    FROZEN,
    HEAD,
    HEALTHY,
    HIDES,
    LAST,
    LATER,
    LOSS,
    MADE,
    NEXT_OF,
    NODES,
    OF_NODES,
    PARTS,
    RARE,
    READ,
    READS,
    SENT,
    SETUP,
    SLOPE,
    STEP,
    TEXT,
    TOWARDS,
    UP_TO,
    VALUED,
    WINDOWS,
    WORDS,
    ZERO,
    code,
)
from tests.diagnosis.scripts.test_processes import CASES

FEW = 8


def run(text, **how):
    """What is seen of a loop in this process."""
    watching = Observer(**{"steps": 40, **how}, own=lambda name: name == "<loop>")
    with warnings.catch_warnings(), torch.random.fork_rng(), contextlib.suppress(Stopped), watching:
        warnings.simplefilter("ignore")
        exec(compile(text, "<loop>", "exec"), {"__name__": "__main__"})
    return watching.run


@pytest.mark.parametrize("name", FAULTY)
def test_a_mistake_is_told_by_its_name(name):
    found = [f.name for f in found_in(run(code(*FAULTY[name])))]
    assert found[:1] == [name] or name in found[:2]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_loop_without_one_is_left_in_peace(name):
    assert [(f.name, f.says) for f in found_in(run(code(*HEALTHY[name])))] == []


@pytest.mark.parametrize(
    ("given", "order"),
    [("x.reshape(8, 16)", "1, 0"), ("x.view(4, 4, 8).view(4, 8, 4)", "0, 2, 1"),
     ("x.view(2, 8, 8).view(8, 2, 8)", "1, 0, 2"), ("x[None].reshape(16, 8, 1)", "")],
)  # fmt: skip
def test_how_dimensions_would_be_exchanged_is_told(given, order):
    """Of equal lengths the first stays first, and a length of one may stand anywhere."""
    found = found_in(run(code((LOSS, LOSS.replace("model(x)", f"model({given}.reshape(16, 8))")))))
    told = [f.remedies for f in found if f.name == "exchanged-dimensions"]
    again = order == "1, 0"  # laid out as before by the next one
    assert len(told) == (bool(order) + again)
    assert not order or f"permute({order})" in told[0][0]


def test_an_answer_that_ends_after_a_few_batches_is_none():
    kept = "1 - 3 * x[:, 4] + (made.append(0) or len(made) > 2) * torch.randn(16)"
    loss = f"nn.functional.mse_loss(model(x)[:, 0], {kept})"
    found = found_in(run(code((SETUP, "made = []"), (LOSS, loss), ("lr=0.5)", "lr=0.05)"))))
    assert "answer-among-inputs" not in [f.name for f in found]


def test_a_few_numbers_in_another_shape_are_no_samples():
    few = "nn.functional.cross_entropy(model(x) + 0 * x[:6].reshape(8, 6).sum(), y)"
    many = few.replace("[:6].reshape(8, 6)", "[:9].reshape(8, 9)")
    told = [[f.name for f in found_in(run(code((LOSS, text))))] for text in (few, many)]
    assert told == [[], ["exchanged-dimensions"]]


@pytest.mark.parametrize(
    ("changes", "told"),
    [((), ["maximised-loss"]), *((FAULTY[n], []) for n in ("maximised-loss", "reversed-policy"))],
)
def test_an_optimizer_that_maximises_turns_what_is_right(changes, told):
    found = found_in(run(code(*changes, ("lr=0.5)", "lr=0.05, maximize=True)"))))
    assert [f.name for f in found if f.name in ("maximised-loss", "reversed-policy")] == told


def test_every_kind_that_is_declared_has_a_loop_that_has_it():
    by_change = {
        "slow-average",
        "last-batch-score",
        "unsuited-weights",
        "summed-loss",
        "harmful-decay",
        "drawn-twice",
        "forgotten-state",
        "reversed-edges",
    }  # which a change alone can tell
    several = {first for first, _ in CASES.values() if first}  # of processes
    declared = {kind.name for kind in (*KINDS, MAXIMISED_LOSS)}  # which programs have, too
    assert declared == {*FAULTY, *BROKEN, *REFUSED, *by_change, *several}


@pytest.mark.parametrize("name", BROKEN)
def test_where_numbers_cease_to_be_numbers_is_told_with_its_line(name):
    text = code(*BROKEN[name])
    at = next(k for k, line in enumerate(text.splitlines(), 1) if "loss = " in line)
    (found,) = found_in(run(text, traced=0))
    assert (found.name, found.site) == (name, f"<loop>:{at}")
    assert [f.name for f in found_in(run(text))] == []  # which is asked only where a loss is none


@pytest.fixture
def nothing_in_memory():
    """Memory that nobody has written to holds what is not a number, as it may at any time."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", BROKEN)
def test_memory_that_is_written_over_is_no_data(nothing_in_memory, name):
    assert torch.empty(3).isnan().all()
    seeded = "torch.manual_seed(0)"
    text = code(*BROKEN[name], (seeded, f"{seeded}; torch.empty(4, 2).t().fill_(1)"))
    at = next(k for k, line in enumerate(text.splitlines(), 1) if "loss = " in line)
    assert [(f.name, f.site) for f in found_in(run(text, traced=0))] == [(name, f"<loop>:{at}")]


LOADER = "    for x, y in loader:\n"


BY_PLACE = DOT.replace("attn_mask=", "")


@pytest.mark.parametrize(("text", "sign"), [(HIDES, "!="), (DOT, "=="), (BY_PLACE, "==")])
def test_a_mask_is_told_to_be_inverted_in_whichever_way_it_is_given(text, sign):
    found = found_in(run(code((SETUP, READS.format(text.format(sign))), (LOSS, READ))))
    assert [f.name for f in found] == ["inverted-mask"]


@pytest.mark.parametrize(("drawn", "severity"), [(25, "error"), (26, "warning"), (256, None)])
def test_a_sampler_that_draws_a_tenth_of_the_samples_is_an_error(drawn, severity):
    found = found_in(run(code(RARE, (DRAWN[0], DRAWN[1].format(f"torch.ones({drawn})")))))
    assert [(f.name, f.severity) for f in found] == [("undrawn-samples", severity)][
        : bool(severity)
    ]


@pytest.mark.parametrize(("times", "severity"), [(20, "warning"), (0.04, "warning"), (5, "note")])
def test_inputs_of_another_scale_are_the_worse_the_farther_they_are_off(times, severity):
    asked = f"    with torch.no_grad(): model({times} * X)\n"
    (found,) = found_in(run(code((LOADER, asked + LOADER))))
    assert (found.name, found.severity) == ("other-scale", severity)


@pytest.mark.parametrize(
    ("columns", "batch", "told"), [(2, 16, True), (1, 16, False), (8, 32, True), (8, 8, False)]
)
def test_an_answer_is_told_among_several_columns_and_of_sixteen_rows(columns, batch, told):
    some = f"nn.functional.mse_loss(model(x[:, :{columns}])[:, 0], 1 - 3 * x[:, 0])"
    shapes = ("nn.Linear(8, 16)", f"nn.Linear({columns}, 16)")
    found = found_in(run(code(shapes, (LOSS, some), ("batch_size=16", f"batch_size={batch}"))))
    assert ("answer-among-inputs" in [f.name for f in found]) is told


def test_of_what_is_called_behind_another_another_scale_is_a_note():
    """As of a decoder that is given draws in training and means behind it."""
    first = (SETUP, "first = nn.Linear(8, 8)")
    asked = "    with torch.no_grad(): model(20 * first(X))\n"
    drawn = (LOSS, LOSS.replace("model(x)", "model(first(x).detach())"))
    found = found_in(run(code(first, (LOADER, asked + LOADER), drawn)))
    assert [f.severity for f in found if f.name == "other-scale"] == ["note"]


LATE = {  # what a second phase does, by the finding that tells it
    "other-parameters": ((LOADER, HEAD + LOADER),),
    "left-out-parameters": (
        ("# setup", FROZEN), (LOADER, f"{LATER}model.requires_grad_(True)\n{LOADER}"),
    ),
    "nothing-loaded": (
        (LOADER, f"{LATER}model.load_state_dict({{'a': torch.zeros(1)}}, strict=False)\n{LOADER}"),
    ),
    "idle-parameters": (
        (LOADER, f"{LATER}model[2].requires_grad_(False).weight.zero_(); "
         f"opt = torch.optim.SGD(model[0].parameters(), lr=0.1)\n{LOADER}"),
    ),
}  # fmt: skip


LONG = ("range(4)", "range(10)")  # epochs, of which most are dozed through


@pytest.mark.parametrize("name", LATE)
def test_a_mistake_of_a_second_phase_is_told_where_a_run_goes_on_that_long(name):
    """Also where it begins while one dozes."""
    seen = run(code(*LATE[name]), least=60.0)
    long = run(
        code(*LATE[name], ("epoch == 2", "epoch == 11")).replace("range(4)", "range(20)"),
        least=60.0,
    )
    assert all(name in [f.name for f in found_in(each)] for each in (seen, long))
    assert seen.steps == 64
    if "parameters" in name and "idle" not in name:  # the others' optimizers step less often
        assert seen.early is not None


FIRST = "    for _ in range(16):\n        x, y = next(iter(loader))\n"
STREAM = """
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        g = torch.Generator().manual_seed(0)
        for k in torch.randperm(256, generator=g):
            yield X[k], Y[k]
loader = torch.utils.data.DataLoader(Stream(), batch_size=16)
"""
DEALT = """\
        torch.manual_seed(0)
        k = torch.randperm(256)[:16]
        x, y = X[k], Y[k]
"""
ENCODED = "[tokens(ids[:, k].flip(0)) for k in range(3)]; "
BINARY = (
    "nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y.float(), "
    "pos_weight=torch.tensor({}))"
)
OF_BOTH = "torch.optim.SGD([*model.parameters(), *teacher.parameters()], lr=0.1)"
BOTH = f"teacher = nn.Linear(8, 2)\nopt = {OF_BOTH}"
NETS = "net = nn.Linear(8, 2)\ntwo = torch.optim.SGD(net.parameters(), lr=0.1)"
CROSSED = """\
        two.zero_grad(); loss.backward(); two.step()
        opt.zero_grad(); nn.functional.cross_entropy(net(x), y).backward(); opt.step()
"""
MORE = (  # what another rule tells by the same name
    ("other-parameters", (SETUP, NETS), (ZERO + BACK + STEP, CROSSED)),
    # with a closure that does nothing, as Lightning steps where a script optimizes by hand
    (
        "other-parameters",
        (SETUP, NETS),
        (ZERO + BACK + STEP, CROSSED.replace("step()", "step(lambda: None)")),
    ),
    ("attached-target", (SETUP, BOTH), (LOSS, "nn.functional.mse_loss(model(x), teacher(x))")),
    ("attached-target", (SETUP, VALUED), ("loss = " + LOSS, BASELINE.format("a", ""))),
    ("attached-target", (SETUP, VALUED), ("loss = " + LOSS, BASELINE.format("value=a", ""))),
    ("answer-among-inputs", (SETUP, WINDOWS), (LOSS, NEXT_OF.format("x", "x[:, 7]"))),
    (
        "cut-graph",
        ("loss = " + LOSS, SLOPE.format(", retain_graph=True", " + slope.square().mean()")),
    ),
    ("unshared-probabilities", (LOSS, MADE.format("softmax"))),
    # the optimizer of a model that is not trained any more steps
    ("no-step", (SETUP, LAST), ("opt.zero_grad", "new.zero_grad")),
    # samples that are drawn begin anew with the loader
    ("repeated-batch", (LOADER, FIRST), (SETUP, STREAM)),
    ("repeated-batch", (LOADER, FIRST.replace("x, y", "torch.manual_seed(0); x, y"))),
    ("repeated-draws", (LOADER, "    for k in range(16):\n" + DEALT)),
    ("rewritten-data", (LOADER, PARTS.format(".sub_(0.5).div_(2)"))),
    ("rewritten-data", (LOADER, f"    data.tensors[0].sub_(0.5).div_(2)\n{LOADER}")),
    ("copied-targets", (SETUP, WORDS), ("loss = " + LOSS, DECODED.format("ids"))),
    # behind an encoder that is called place by place, too
    ("copied-targets", (SETUP, WORDS), ("loss = " + LOSS, ENCODED + DECODED.format("ids"))),
    ("reversed-class-weights", RARE, (LOSS, BINARY.format(0.3))),
    ("reversed-class-weights", RARE, (DRAWN[0], DRAWN[1].format(COUNTS.format("[Y]")))),
    (
        "reversed-class-weights",
        RARE,
        (DRAWN[0], DRAWN[1].format(COUNTS.format("[Y]"))),
        ("DataLoader(data", "DataLoader(torch.utils.data.Subset(data, [*range(256)])"),
    ),
    ("evaluation-mode", (SETUP, DROPPED.format("model.eval()"))),
    # of the places of a sequence, which are put together
    (
        "softmax-twice",
        (
            LOSS,
            LOSS.replace(
                "model(x), y",
                "torch.stack([model(x).softmax(1)] * 3, 1).flatten(0, 1), y.repeat_interleave(3)",
            ),
        ),
    ),
    # of layers that are called one by one none turns to the other half
    (
        "unchanged-inputs",
        (SETUP, FLOW.format("True")),
        (LOSS, "nn.functional.mse_loss(flow(x), x.flip(1))"),
    ),
)


TRAINED = f"nn.functional.cross_entropy(model(X), Y).backward(); opt.step()\n{FROZEN}"
KEPT = "    if epoch == 0: kept = {}\n    if epoch == 3: model.load_state_dict(kept)\n"
SUM = " + (slope + model(x) @ torch.ones(2, 8) - x.sin()).square().mean()"
H = "(h := model[:2](x))"
VALUE = f"0 * model[2]({H}.detach()) + model[2](h + (h.round() - h).detach())"
NOISED = (  # which cuts nothing
    "model[2](torch.distributions.Normal(model[:2](x), 1.0).rsample())",
    "model[2](model[:2](x) + torch.randn(16))",
    "model(x) + 0 * torch.randn(2)",
)
WHOLE = {  # all that is told, with changes, of how many steps
    "of two that agree one is moved": (["left-out-parameters"], 40, (
        (SETUP, "other = nn.Linear(8, 2)"), (LOSS, "nn.functional.mse_loss(model(x), other(x))"),
    )),
    "trained before, and frozen no more": (["left-out-parameters"], 65, (
        (SETUP, TRAINED), (LOADER, f"{LATER}model.requires_grad_(True)\n{LOADER}"),
    )),
    "trained before": ([], 65, ((SETUP, TRAINED),)),
    **{way: ([], 40, (("model(x)", way),)) for way in NOISED},
    "kept by name alone": (["nothing-loaded"], 64, (
        (LOADER, KEPT.format("model.state_dict()") + LOADER),
    )),
    "kept": ([], 64, (
        (LOADER, KEPT.format("copy.deepcopy(model.state_dict())") + LOADER),
        (SETUP, "import copy"),
    )),
    "a sum of data and a derivative is no target": (["cut-graph"], 40, (
        ("loss = " + LOSS, SLOPE.format(", retain_graph=True", SUM)),
    )),
    "of two cuts on a line one is a value with the gradient of another": (["cut-graph"], 40, (
        ("model(x)", VALUE),
    )),
    "a few steps show no habit": ([], 40, (
        *FAULTY["gradients-not-zeroed"], ("range(4)", "range(1)"),
        ("batch_size=16", "batch_size=64"),
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_no_more_is_told_than_what_there_is(name):
    told, steps, changes = WHOLE[name]
    found = found_in(run(code(*changes), steps=steps))
    assert [f.name for f in found] == told


SCHEDULERS = (
    ("ReduceLROnPlateau(opt, patience=0, factor=0.3)", "loss.item() + epoch"),
    ("ChainedScheduler([torch.optim.lr_scheduler.ExponentialLR(opt, 0.7)])", ""),
    ("CosineAnnealingLR(opt, 4000, eta_min=1e-9, last_epoch=-1)", ""),
)


@pytest.mark.parametrize(("made", "given"), SCHEDULERS)
def test_schedulers_are_seen_that_have_a_step_of_their_own(made, given):
    stepped = f"        sched.step({given})\n"
    text = code((SETUP, f"sched = torch.optim.lr_scheduler.{made}"), (STEP, STEP + stepped))
    seen = run(text)
    at = next(k for k, line in enumerate(text.splitlines(), 1) if "sched.step" in line)
    kind = made.partition("(")[0]
    assert seen.scheduled[kind, Line("<loop>", at)] >= 39
    assert ("dwindling-rate" in [f.name for f in found_in(seen)]) == ("4000" not in made)


@pytest.mark.parametrize(("name", "changes"), [(name, changes) for name, *changes in MORE])
def test_the_same_mistake_by_other_means_is_told_by_its_name(name, changes):
    assert name in [f.name for f in found_in(run(code(*changes)))][:1]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("scaled-gradients", (*FAULTY["scaled-gradients"], ("range(4)", "range(40)"))),
        ("repeated-batch", ((LOADER, FIRST.replace("16", "80")), (SETUP, STREAM))),
    ],
)
def test_what_is_counted_is_told_of_the_steps_that_were_looked_at(name, changes):
    seen = run(code(*changes), steps=600)
    assert seen.main.looked < 0.5 * seen.steps
    assert found_in(seen)[0].name == name


OF_HABIT = (
    "gradients-not-zeroed",
    "zeroed-before-step",
    "step-before-backward",
    "overwritten-weights",
    "evaluation-mode",
    "no-gradients-arrive",
    "left-out-parameters",
)
OFTEN = (
    "accumulation",
    "closure",
    "two optimizers",
    "weights put back",
    "carried from step to step",
    "targets of a copy that follows",
    "gradients of an earlier phase",
    "frozen at first",
    "teacher in evaluation mode",
    "zero by hand",
)


@pytest.mark.parametrize("name", OF_HABIT)
def test_a_habit_of_a_long_run_is_told_of_the_steps_that_were_looked_at(name):
    seen = run(code(*FAULTY[name], LONG), least=60.0)
    assert name in [f.name for f in found_in(seen)][:2]
    main = seen.main
    assert main is not None
    assert FEW <= main.looked < 0.6 * main.steps
    assert len(main.rates) == main.steps


@pytest.mark.parametrize("name", OFTEN)
def test_a_long_run_without_a_mistake_is_left_in_peace(name):
    text = code(*HEALTHY[name]).replace(*LONG).replace("count % 4", "count % 2")
    seen = run(text, least=60.0)
    assert [(f.name, f.says) for f in found_in(seen)] == []
    assert seen.steps > 72
    # what was dozed through is no writing of others, and no gradient that is old
    assert [(o.overwritten, o.old, o.emptied, o.empty) for o in seen.optimizers if o.steps > 8] == [
        (0, 0, 0, 0) for o in seen.optimizers if o.steps > 8
    ]


def test_a_new_optimizer_wakes_it_at_once():
    text = code(*FAULTY["frozen-parameters"], ("epoch == 2", "epoch == 9"))
    seen = run(text.replace(LONG[0], "range(11)"), least=60.0)  # before it would wake by itself
    assert "frozen-parameters" in [f.name for f in found_in(seen)]


def test_a_loss_of_a_second_phase_is_looked_at_as_the_first_is():
    later = MADE.format("softmax") + " if epoch > 2 else " + LOSS
    seen = run(code(("loss = " + LOSS, "loss = " + later)), least=60.0)
    assert "unshared-probabilities" in [f.name for f in found_in(seen)]


REFUSED = {  # what autograd refuses is told in its place
    "graph-used-twice": (
        ("# setup", "w, state = torch.ones(2, requires_grad=True), torch.ones(2)"),
        ("nn.functional.cross_entropy(model(x), y)",
         "nn.functional.cross_entropy(model(x) * state, y); state = state * w"),
    ),
    "cut-loss": (("loss.backward()", "loss.detach().backward()"),),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_autograd_refuses_is_told_as_a_mistake_with_its_line(name, tmp_path):
    (tmp_path / "train.py").write_text(code(*REFUSED[name]))
    with torch.random.fork_rng():
        found = found_in(run_here(Job(Script(str(tmp_path / "train.py")), 40, 30)))
    assert [f.name for f in found] == [name]
    assert found[0].site.startswith("train.py:")


def test_a_finding_leads_to_the_line_where_it_is():
    text = code(*FAULTY["zeroed-before-step"])
    (found,) = found_in(run(text))
    at = int(found.site.rpartition(":")[2])
    assert "zero_grad" in text.splitlines()[at - 1]


AGAINST = """
other = nn.Linear(8, 8)
second = torch.optim.SGD(other.parameters(), lr=0.1)
"""
JUDGED = """\
        made = other(torch.randn(16, 8))
        loss = nn.functional.cross_entropy(model(made.detach()), y)
"""
TURNED = """\
        second.zero_grad()
        nn.functional.cross_entropy(model(made.detach()), y).backward()
        second.step()
"""


def test_of_two_cuts_that_is_told_which_is_of_the_loss_to_learn_by():
    """A generator is detached for the loss of its judge, and is to learn by its own."""
    lost = ("        loss = " + LOSS + "\n", JUDGED)
    text = code((SETUP, AGAINST), lost, (STEP, STEP + TURNED))
    found = [f for f in found_in(run(text)) if f.name == "cut-graph"]
    assert [text.splitlines()[int(f.site.rpartition(":")[2]) - 1].strip() for f in found] == [
        TURNED.splitlines()[1].strip()
    ]


STOOD_IN = """\
fast = {{n: p{} for n, p in model.named_parameters()}}
        loss = nn.functional.cross_entropy(torch.func.functional_call(model, fast, (x,)), y)"""


@pytest.mark.parametrize(
    ("how", "told"), [(".clone().detach().requires_grad_()", True), (".clone()", False)]
)
def test_weights_that_stand_in_for_others_and_were_detached_are_told(how, told):
    """As of a model that is adapted to a task, whose own weights never learn."""
    found = found_in(run(code(("loss = " + LOSS, STOOD_IN.format(how)))))
    cuts = [f.says for f in found if f.name == "cut-graph"]
    assert [("178 of 178 numbers" in words, "`detach`" in words) for words in cuts] == (
        [(True, True)] if told else []
    )


BETWEEN = {  # how what a module gives is taken out of the graph on its way to another one
    "model[2](model[:2](x).detach() + 0 * model[:2](x))": "note",
    "model[2](torch.distributions.Normal(model[:2](x), 1.0).sample()) + 0 * model(x)": "warning",
    "model[2](torch.normal(model[:2](x), 1.0)) + 0 * model(x)": "warning",
    VALUE: "note",
}


@pytest.mark.parametrize("way", BETWEEN)
def test_a_cut_between_modules_is_told_though_all_receive_a_gradient(way):
    found = [f for f in found_in(run(code(("model(x)", way)))) if f.name == "cut-graph"]
    assert [f.severity for f in found] == [BETWEEN[way]]


UNGRADED = """\
with torch.no_grad(): h = model[1](model[0](x))
        loss = nn.functional.cross_entropy(model[2]({}), y)"""


@pytest.mark.parametrize(
    ("given", "made", "told"),
    [
        ("h", "", ["warning"]),
        ("h + 0 * model[0](x)", "", []),  # which give gradients, too
        ("h", "opt = torch.optim.SGD(model[2].parameters(), lr=0.5)", []),  # and are to be kept
        ("h", "model[0].requires_grad_(False)", []),
    ],
)
def test_what_an_optimizer_holds_and_runs_without_gradients_alone_is_told(given, made, told):
    found = found_in(run(code((SETUP, made), ("loss = " + LOSS, UNGRADED.format(given)))))
    assert [f.severity for f in found if f.name == "cut-graph" and "`no_grad`" in f.says] == told


@pytest.mark.parametrize(
    ("count", "told"),
    [(3, "`p0`, `p1`, `p2` of"), (4, "`p0`, `p1`, `p2` and 1 more of"), (6, "`p2` and 3 more of")],
)
def test_of_many_names_three_are_told_and_the_others_counted(count, told):
    names = tuple(f"p{i}" for i in range(count))
    model = Called("Net", None, parameters=9, in_training=9, outside=names, outside_given=count)
    seen = OptimizerSeen("SGD", None, 1, steps=9, rates=[0.1])
    (found,) = found_in(ScriptRun(steps=9, backwards=9, optimizers=[seen], modules=[model]))
    assert told in found.says


@pytest.mark.parametrize(
    ("made", "severity"),
    [("copy.deepcopy(model)", "note"), ("model", None),
     ("nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))", "warning")],
)  # fmt: skip
def test_a_model_that_no_optimizer_has_may_follow_the_one_that_it_began_like(made, severity):
    """As a target network, of which gradients are computed and left aside; not so the others."""
    text = code((SETUP, f"import copy; other = {made}"), ("loss = " + LOSS, TOWARDS))
    found = [f.severity for f in found_in(run(text)) if f.name == "left-out-parameters"]
    assert found == ([severity] if severity else [])


def beside(*courses, stopped=False):
    """What is said of two that train, one through the other, by their losses from first to last."""
    places = [Line("<loop>", k) for k in range(len(courses))]
    both = [
        OptimizerSeen("SGD", None, 2, place, backward=place, steps=40, ended=39) for place in places
    ]
    ends = [[first, *[last] * 39] for first, last in courses]
    losses = {place: LossSeen(place, values) for place, values in zip(places, ends, strict=True)}
    modules = [Called("Net", None, fed=True)]
    how = {"optimizers": both, "losses": losses, "modules": modules, "stopped": stopped}
    run = ScriptRun(steps=80, **how)
    judge = replace(run, ahead=True)  # of what an actor does, whose targets look ahead
    assert [*discriminator_won(judge)] == []
    return next((f.severity for f in discriminator_won(run)), None)


@pytest.mark.parametrize(
    ("winner", "loser", "told"),
    [
        ((1.0, 0.01), (1.0, 0.21), True),  # twenty times as large
        ((1.0, 0.01), (1.0, 0.19), False),
        ((10.0, 0.001), (1.0, 0.51), True),  # and a twentieth of what the other began with
        ((10.0, 0.001), (1.0, 0.49), False),
        ((1.0, -1e-4), (1.0, 0.5), True),  # a logarithm of a little more than one
        ((1.0, -1e-2), (1.0, 0.5), False),
        ((1.0, -1e-4), (-1.0, -1.0), False),  # what wins has not lost, too
        ((1.0, 0.06), (1.0, 5.0), False),
    ],
)
def test_one_has_won_where_the_other_is_large_or_has_faded(winner, loser, told):
    assert beside(winner, loser) == beside(loser, winner) == ("warning" if told else None)


def test_one_that_is_behind_when_a_run_is_stopped_may_catch_up_and_one_that_faded_may_not():
    won = 1.0, 0.01
    assert beside(won, (1.0, 4.0), stopped=True) == "note"
    assert beside(won, (-1.0, -0.01), stopped=True) == "warning"


def test_zeros_that_no_loss_has_led_to_are_no_slope_of_nothing():
    made = "other = nn.Linear(2, 2); second = torch.optim.SGD(other.parameters(), lr=0.1)"
    stepped = (
        "        for p in other.parameters(): p.grad = torch.zeros_like(p)\n        second.step()\n"
    )
    found = [f.name for f in found_in(run(code((SETUP, made), (STEP, STEP + stepped))))]
    assert "idle-parameters" not in found


@pytest.mark.parametrize(("most", "drawn"), [(256, True), (255, False)])
def test_of_two_draws_alike_one_is_an_index_and_one_goes_in(most, drawn):
    twice = "k = torch.randint(0, 256, (16,)); t = torch.randint(0, {}, (16,)); loss = ".format(
        most
    )
    loss = "nn.functional.cross_entropy(model(X[k] + 0 * t[:, None]), Y[k])"
    seen = run(code(("loss = " + LOSS, twice + loss)))
    assert (seen.draws.total() > 0) == drawn


@pytest.mark.parametrize(
    ("given", "told", "drawn"),
    [
        ("x + a", "b", True),
        ("x + a", "a", False),
        ("x + a + 0 * b", "b", False),  # noise that is put on noise
        ("x + a", "x + b", False),  # a sample that is seen twice, as to learn what is no noise
        ("a", "b", False),  # data that are made up
    ],
)
def test_of_two_draws_alike_one_is_noise_that_outputs_are_compared_with(given, told, drawn):
    twice = "a, b = torch.randn(16, 8), torch.randn_like(x); loss = "
    loss = f"(nn.functional.pad(model({given}), (0, 6)) - ({told})).square().mean()"
    seen = run(code(("loss = " + LOSS, twice + loss)))
    assert (seen.draws.total() > 0) == drawn


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("x.index_add(0, b, x[b])", True),
        ("x.scatter_add(0, b[:, None].expand(-1, 8), x.index_select(0, b))", True),
        ("x.index_add(0, b, self.net[1](x[b] * w[:, None]))", True),  # a number for each edge
        ("x.index_add(0, b, x[b] * x[a])", False),
        ("x.index_add(0, b, x[b] + x[a])", False),
        ("x.index_add(0, b, x[a] * w[:, None])", False),
        ("x.index_add(0, b, x[b.clone()])", False),  # which is no edge that one knows of
    ],
)
def test_what_is_gathered_where_it_is_added_up_is_of_no_neighbour(made, told):
    ends = f"(a := edges[0], b := edges[1], w := torch.ones(512), {made})[-1]"
    nodes = NODES.format(BY_CHANCE).replace(SENT, ends)
    loss = OF_NODES.format("out[train], Y[train]")
    seen = run(code((SETUP, nodes), ("loss = " + LOSS, loss)))
    assert (seen.returned.total() > 0) == told


def test_a_plan_of_batches_that_steps_with_each_epoch_is_told_apart_from_one_that_is_long():
    often = code(*FAULTY["long-warm-up"])
    seldom = code((SETUP, UP_TO), (STEP, f"{STEP}    sched.step()\n"), ("range(4)", "range(2)"))
    (long,), (slow,) = (found_in(run(text)) for text in (often, seldom))
    assert long.name == slow.name == "long-warm-up"
    assert ["interval" in f.remedies[0] for f in (long, slow)] == [False, True]


@pytest.mark.parametrize(
    ("along", "across", "told"),
    [
        (0.0, 0.11, True),
        (0.0, 0.09, False),
        (-0.01, 0.11, True),
        (0.1, 0.41, True),  # four times as much, and no less
        (0.1, 0.39, False),
    ],
)
def test_ids_that_tell_the_next_sample_much_more_than_the_next_step_run_across(along, across, told):
    seen = {Line("a.py", 3): (along, across, None)}
    for steps, known in ((8, told), (7, False)):
        found = {f.name for f in found_in(ScriptRun(steps=steps, across=seen))}
        assert ("exchanged-dimensions" in found) == known


@pytest.mark.parametrize(
    ("over", "above", "told"),
    [
        ("p.sum(1) + t.sum(1) + 1", "common", True),
        ("p.sum(1) + t.sum(1) - common + 1", "common", True),  # of both, once
        ("t.sum(1)", "common", False),  # the mean of what is asked for
        ("p.sum(1) + t.sum(1) + 1", "p.sum(1)", False),  # no overlap
    ],
)
def test_an_overlap_is_what_both_have_in_common_over_the_sum_of_both(over, above, told):
    dice = DICE.format("model(x)").partition("loss = ")[0]
    seen = run(code(("loss = " + LOSS, f"{dice}loss = 1 - ({above} / ({over})).mean()")))
    assert bool(seen.overlaps) == told


def test_a_text_that_runs_across_is_told_where_it_was_laid_out():
    text = code((SETUP, TEXT.format("text.view(128, 16)")), ("loss = " + LOSS, CONTINUED))
    (found,) = found_in(run(text))
    at = 1 + next(k for k, line in enumerate(text.splitlines()) if "text.view" in line)
    assert found.site == f"<loop>:{at}"


ODD = """\
z = nn.functional.normalize(model(torch.cat([x, x])[:31]))
        z = (z @ z.T / 0.2).masked_fill(torch.eye(31, dtype=torch.bool), -torch.inf)
        loss = nn.functional.cross_entropy(z, (torch.arange(31) + 1) % 31)"""


def test_rows_of_an_odd_number_are_no_two_views():
    seen = run(code(("loss = " + LOSS, ODD)))
    assert seen.narrow
    assert seen.pairs == {}


MEAN = "import copy\nmean = copy.deepcopy(model).eval()"
FOLLOWS = """\
        with torch.no_grad():
            for e, m in zip(mean.parameters(), model.parameters()): e.lerp_(m, {})
"""
ASKED = "        if count == {}:\n            with torch.no_grad(): mean(X)\n        count += 1\n"


@pytest.mark.parametrize(
    ("share", "at", "told"),
    [
        (1e-3, 50, ["slow-average"]),
        (1e-3, 300, ["slow-average"]),  # long behind the steps that are looked at
        (0.05, 50, []),
        (0.05, 300, []),
        (0.0, 50, []),  # a copy that is kept as it was
    ],
)
def test_averages_over_more_steps_than_there_are_are_told(share, at, told):
    text = code(
        (SETUP, f"{MEAN}\ncount = 0"),
        (STEP, STEP + FOLLOWS.format(share) + ASKED.format(at)),
        ("range(4)", f"range({at // 16 + 1})"),
    )
    seen = run(text, recorded=True, steps=None)
    assert [f.name for f in found_in(seen) if f.name == "slow-average"] == told


def test_several_of_a_kind_that_train_are_averages_of_none():
    both = "other = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))\n"
    both += "opt = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=1e-3)\ncount = 0"
    asked = "        if count == 50:\n            model.eval(); other.eval()\n"
    asked += "            with torch.no_grad(): other(X); model(X)\n        count += 1\n"
    changes = (
        (SETUP, both),
        (LOSS, f"{LOSS} + {LOSS.replace('model', 'other')}"),
        (STEP, STEP + asked),
    )
    seen = run(code(*changes), recorded=True, steps=None)
    assert seen.averages == {}


@pytest.mark.parametrize("times", [1, 2, 9])
def test_of_the_passes_through_an_iterator_all_but_the_first_are_empty(times):
    (found,) = found_in(ScriptRun(spent=Counter({Line("a.py", 3): times})))
    assert found.name == "spent-loader"
    assert [r.estimate.value for r in found.evidence] == [times / (times + 1)]
