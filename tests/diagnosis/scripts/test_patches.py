"""The lines that are changed make a script without the mistake."""

import warnings

import pytest
import torch

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Reading
from sigmascope.diagnosis.rules.dependences import RANDOM_EVALUATION
from sigmascope.diagnosis.rules.training import (
    MAXIMISED_LOSS,
    OTHER_OPTIMIZER,
    RATE_TOO_HIGH,
    RATE_TOO_LOW,
    STRONG_MOMENTUM,
    STRONG_WEIGHT_DECAY,
    UNUSUAL_SETTINGS,
)
from sigmascope.diagnosis.scripts.patches import changes_of, diff_of, first_change
from sigmascope.diagnosis.scripts.rules import SORTED_CLASSES, found_in
from sigmascope.diagnosis.scripts.running import Job, Script, run_here
from tests.diagnosis.scripts.loops import (
    AGAIN,
    BACK,
    BASELINE,
    COUNTS,
    DRAWN,
    FAULTY,
    LAST,
    LOADER,
    LOSS,
    RARE,
    SCALED,
    SETUP,
    SLOPE,
    STEP,
    VALUED,
    ZERO,
    code,
)

KEPT = (
    "    if epoch == 0: kept = model.state_dict()\n    if epoch == 2: model.load_state_dict(kept)\n"
)
KEEPS, SQUARED = ", retain_graph=True", " + slope.square().mean()"
SHARES = "nn.functional.kl_div(model(x).softmax(1), nn.functional.one_hot(y, 2).float())"
CHANGED = (
    "gradients-not-zeroed", "zeroed-before-step", "zeroed-between-batches", "step-before-backward",
    "dwindling-rate", "evaluation-mode", "no-step", "no-backward", "clipped-steps",
    "scaled-gradients", "cut-graph", "softmax-twice", "spread-shapes", "attached-target",
    "unshared-probabilities", "one-class-batches", "maximised-loss", "repeated-batch",
    "cut-through-time", "narrow-scores", "reversed-class-weights",
)  # fmt: skip


def ran(text, tmp_path, *, name="train.py", **how):
    (tmp_path / name).write_text(text)
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run_here(Job(Script(str(tmp_path / name)), 34, 30, **how))


def changed(text, tmp_path, **how):
    """The script with the lines of the first finding changed that has any."""
    run = ran(text, tmp_path, **how)
    return first_change(run, found_in(run))


def lines_of(text, tmp_path, findings=None):
    """The lines that are added to a script, for what is found in it or given."""
    run = ran(text, tmp_path)
    changes = changes_of(run, found_in(run) if findings is None else findings)
    lines = [line for change in changes.values() for line in diff_of(change).splitlines()]
    return [line[1:].strip() for line in lines if line[:1] == "+" != line[1:2]]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, FAULTY[name]) for name in CHANGED),
        ("nothing-loaded", ((LOADER, KEPT + LOADER),)),
        ("unshared-probabilities", ((LOSS, SHARES),)),
        ("cut-graph", (("loss = " + LOSS, SLOPE.format(KEEPS, SQUARED)),)),
        ("attached-target", ((SETUP, VALUED), ("loss = " + LOSS, BASELINE.format("a", "")))),
        ("reversed-class-weights", (RARE, (DRAWN[0], DRAWN[1].format(COUNTS.format("[Y]"))))),
    ],
)
def test_the_changed_script_has_it_no_more(name, changes, tmp_path):
    run = ran(code(*changes), tmp_path)
    found = found_in(run)
    assert name in {f.name for f in found}
    assert set(changes_of(run, found)) == {name}
    assert found_in(ran(first_change(run, found), tmp_path, name="cured.py")) == ()
    assert (tmp_path / "train.py").read_text() == code(*changes)


@pytest.mark.parametrize(
    ("given", "made"),
    [(f", None{KEEPS}", "x, None, create_graph=True)"), (", None, True", "")],
)
def test_a_derivative_keeps_its_graph_unless_more_is_said_by_place(given, made, tmp_path):
    lines = lines_of(code(("loss = " + LOSS, SLOPE.format(given, SQUARED))), tmp_path)
    assert [made in line for line in lines] == ([True] if made else [])


@pytest.mark.parametrize(
    "shares",
    ["model(x).softmax(1)", "torch.softmax(model(x), 1)", "nn.functional.softmax(model(x), dim=1)"],
)
def test_a_softmax_that_is_written_into_a_loss_is_left_out(shares, tmp_path):
    assert changed(code((LOSS, f"nn.functional.cross_entropy({shares}, y)")), tmp_path) == code()


HELPER = "def made(): return torch.optim.SGD(model.parameters(), lr=0.5)\nopt = made()"


@pytest.mark.parametrize(
    ("name", "made"), [("scaler", AGAIN), ("amp", AGAIN), ("grad_scaler", HELPER)]
)
def test_gradients_of_an_optimizer_that_a_scaler_steps_are_emptied_by_their_own(
    name, made, tmp_path
):
    steps = SCALED.replace("scaler", name)
    scaler = (SETUP, f"{name} = torch.amp.GradScaler('cpu')")
    text = code((AGAIN, made), scaler, (STEP, steps), (BACK, ""), (ZERO, ""))
    assert "opt.zero_grad()" in changed(text, tmp_path)


def test_where_no_line_is_known_nothing_is_written(tmp_path):
    run = ran(code(*FAULTY["rebuilt-loss"]), tmp_path)
    assert changes_of(run, found_in(run)) == {}
    assert first_change(run, found_in(run)) is None


LOST = "loss = " + LOSS
AHEAD = (
    "q = model(x)[:, 0]; target = y + 0.9 * model(x).amax(1)\n        loss = ({}).square().mean()"
)
LOGS = "loss = nn.functional.nll_loss(nn.functional.log_softmax(model(x), dim={}), y)"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (LOST, AHEAD.format("q - target"), "loss = (q - target.detach()).square().mean()"),
        (LOST, AHEAD.format("target - q"), "loss = (target.detach() - q).square().mean()"),
        (LOST, LOGS.format(0), LOGS.format(-1)),
        ("loss = nn", "loss = -nn", LOST),
        (SETUP, LAST, "new.step()"),  # it is given gradients, and another one steps
    ],
)  # fmt: skip
def test_targets_are_detached_classes_are_shared_out_and_a_minus_is_taken_away(
    old, new, line, tmp_path
):
    text = code((old, new), *([("opt.zero_grad", "new.zero_grad")] if new == LAST else []))
    assert lines_of(text, tmp_path) == [line]


def told(kind, form):
    return kind.finding("x", "warning", (Reading("x", q.SHARE_OF_STEPS, ONE, "script", form),), "")


ONE = Estimate.exactly(1)
OPTIMIZER = "torch.optim.SGD(model.parameters(), lr=0.5)"


@pytest.mark.parametrize(
    ("kind", "form", "made", "line"),
    [
        (RATE_TOO_HIGH, "rate x 0.1", "SGD({}, lr=0.5)", "SGD({}, lr=0.05)"),
        (RATE_TOO_LOW, "rate x 10", "SGD({}, 0.02)", "SGD({}, 0.2)"),
        (RATE_TOO_HIGH, "rate x 0.01", "SGD({}, lr=max(0.1, 0.5))",
         "SGD({}, lr=max(0.1, 0.5) * 0.01)"),
        (RATE_TOO_HIGH, "rate x 0.1", "Adam({})", "Adam({}, lr=0.0001)"),
        (OTHER_OPTIMIZER, "adam", "SGD({}, lr=0.5, momentum=0.9)", "Adam({}, lr=0.001)"),
        (STRONG_WEIGHT_DECAY, "no-decay", "SGD({}, lr=0.5, weight_decay=0.1)",
         "SGD({}, lr=0.5, weight_decay=0.0)"),
        (UNUSUAL_SETTINGS, "usual-settings", "Adam({}, eps=1.0, betas=(0.5, 0.9), amsgrad=True)",
         "Adam({}, eps=1e-08, betas=(0.9, 0.999), amsgrad=True)"),
        (STRONG_MOMENTUM, "usual-settings", "SGD({}, 0.5, momentum=0.999, **{})",
         "SGD({}, 0.5, momentum=0.9, **{})"),
        (MAXIMISED_LOSS, "", "SGD({}, lr=0.5, maximize=True)", "SGD({}, lr=0.5, maximize=False)"),
    ],
)  # fmt: skip
def test_the_optimizer_is_made_as_it_was_tried(kind, form, made, line, tmp_path):
    made, line = (f"torch.optim.{m.replace('({}', '(model.parameters()')}" for m in (made, line))
    added = lines_of(code((OPTIMIZER, made)), tmp_path, [told(kind, form)])
    assert added == [f"opt = {line}"]


def test_of_several_optimizers_it_is_not_known_which(tmp_path):
    text = code((STEP, f"{STEP}        other.step()\n"), (SETUP, f"other = {OPTIMIZER}"))
    assert lines_of(text, tmp_path, [told(RATE_TOO_HIGH, "rate x 0.1")]) == []


def test_a_loader_is_made_to_shuffle(tmp_path):
    for loader in ("shuffle=False)", "num_workers=0)"):
        text = code((SETUP, ""), ("shuffle=True)", loader))
        added = lines_of(text, tmp_path, [told(SORTED_CLASSES, "")])
        assert len(added) == 1
        assert added[0].endswith("shuffle=True)")


@pytest.mark.parametrize(
    ("call", "cured"),
    [
        ("nn.functional.dropout(x, 0.3)", "nn.functional.dropout(x, 0.3, training=me.training)"),
        ("nn.functional.dropout(x, 0.3, True)", None),
    ],
)
def test_dropout_is_told_the_mode(call, cured, tmp_path):
    lines = f"""
class Net(nn.Sequential):
    def forward(me, x):
        x = super().forward(x)
        return {call}
model = Net("""
    text = code(("\nmodel = nn.Sequential(", lines))
    at = next(k for k, line in enumerate(text.splitlines(), 1) if call in line)
    found = [told(RANDOM_EVALUATION, f"dropout at train.py:{at}")]
    assert lines_of(text, tmp_path, found) == ([f"return {cured}"] if cured else [])


@pytest.mark.parametrize(
    ("loss", "line"),
    [
        ("(0 * x).log().mean()", "((0 * x).clamp_min(1e-8)).log().mean()"),
        ("torch.log(0 * x).mean()", "torch.log((0 * x).clamp_min(1e-8)).mean()"),
        (
            "(torch.log(0 * x) + torch.log(1 - x * 0)).mean()",
            "(torch.log((0 * x).clamp_min(1e-8)) + torch.log((1 - x * 0).clamp_min(1e-8))).mean()",
        ),
        ("(0 * x).log().log().mean()", None),  # it is not known which
        ("(x / 0).mean()", None),
    ],
)
def test_a_logarithm_of_nothing_is_one_of_a_little(loss, line, tmp_path):
    made = changed(code((LOSS, f"{LOSS} + 0 * {loss}")), tmp_path, traced=0)
    assert (made is None) == (line is None)
    assert line is None or line in made


def test_losses_of_shares_on_several_lines_are_written_otherwise(tmp_path):
    lines = """\
nn.functional.cross_entropy(p := model(x).softmax(1), y)
        loss = loss + nn.functional.cross_entropy(p, torch.ones(len(x), 2) / 2)"""
    added = lines_of(code((LOSS, lines)), tmp_path)
    assert "nll_loss" in added[0]
    assert "(torch.ones(len(x), 2) / 2) * torch.log(" in added[1]
