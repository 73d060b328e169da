"""The lines that are changed make a script without the mistake."""

import warnings

import pytest

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Reading
from sigmascope.diagnosis.rules.dependences import RANDOM_EVALUATION
from sigmascope.diagnosis.rules.training import (
    OTHER_OPTIMIZER,
    RATE_TOO_HIGH,
    RATE_TOO_LOW,
    STRONG_WEIGHT_DECAY,
)
from sigmascope.diagnosis.scripts.patches import changes_of, diff_of, first_change
from sigmascope.diagnosis.scripts.rules import SORTED_CLASSES, found_in
from sigmascope.diagnosis.scripts.running import Job, Script, run_here
from tests.diagnosis.scripts.loops import (
    AGAIN,
    BACK,
    FAULTY,
    LAST,
    LOSS,
    SCALED,
    SETUP,
    STEP,
    ZERO,
    code,
)

CHANGED = (
    "gradients-not-zeroed",
    "zeroed-before-step",
    "zeroed-between-batches",
    "step-before-backward",
    "dwindling-rate",
    "evaluation-mode",
    "no-step",
    "no-backward",
    "clipped-steps",
    "scaled-gradients",
    "cut-graph",
    "softmax-twice",
    "spread-shapes",
    "attached-target",
    "unshared-probabilities",
    "one-class-batches",
    "maximised-loss",
    "repeated-batch",
    "cut-through-time",
    "narrow-scores",
    "reversed-class-weights",
)


KEPT = (
    "    if epoch == 0: kept = model.state_dict()\n    if epoch == 2: model.load_state_dict(kept)\n"
)
SHARES = "nn.functional.kl_div(model(x).softmax(1), nn.functional.one_hot(y, 2).float())"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("nothing-loaded", (("    for x, y in loader:\n", KEPT + "    for x, y in loader:\n"),)),
        ("unshared-probabilities", ((LOSS, SHARES),)),
    ],
)
def test_lines_of_what_is_written_otherwise(name, changes, tmp_path):
    (tmp_path / "train.py").write_text(code(*changes))
    run = ran(tmp_path / "train.py")
    found = found_in(run)
    assert [f.name for f in found] == [name]
    (tmp_path / "cured.py").write_text(first_change(run, found))
    assert found_in(ran(tmp_path / "cured.py")) == ()


def ran(path):
    import torch

    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run_here(Job(Script(str(path)), 40, 30))


@pytest.mark.parametrize("name", CHANGED)
def test_the_changed_script_has_it_no_more(name, tmp_path):
    (tmp_path / "train.py").write_text(code(*FAULTY[name]))
    run = ran(tmp_path / "train.py")
    found = found_in(run)
    assert name in {f.name for f in found}
    assert set(changes_of(run, found)) == {name}
    (tmp_path / "cured.py").write_text(first_change(run, found))
    assert found_in(ran(tmp_path / "cured.py")) == ()
    assert (tmp_path / "train.py").read_text() == code(*FAULTY[name])


@pytest.mark.parametrize(
    "shares",
    ["model(x).softmax(1)", "torch.softmax(model(x), 1)", "nn.functional.softmax(model(x), dim=1)"],
)
def test_a_softmax_that_is_written_into_a_loss_is_left_out(shares, tmp_path):
    (tmp_path / "train.py").write_text(code((LOSS, f"nn.functional.cross_entropy({shares}, y)")))
    run = ran(tmp_path / "train.py")
    assert first_change(run, found_in(run)) == code()


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
    (tmp_path / "train.py").write_text(text)
    run = ran(tmp_path / "train.py")
    assert "            opt.zero_grad()\n".strip() in first_change(run, found_in(run))


def test_where_no_line_is_known_nothing_is_written(tmp_path):
    (tmp_path / "train.py").write_text(code(*FAULTY["rebuilt-loss"]))
    run = ran(tmp_path / "train.py")
    assert changes_of(run, found_in(run)) == {}
    assert first_change(run, found_in(run)) is None


@pytest.mark.parametrize(
    ("loss", "made"),
    [
        ("(q - target).square().mean()", "(q - target.detach()).square().mean()"),
        ("(target - q).square().mean()", "(target.detach() - q).square().mean()"),
    ],
)
def test_targets_that_are_subtracted_are_detached(loss, made, tmp_path):
    lines = f"q = model(x)[:, 0]; target = y + 0.9 * model(x).amax(1)\n        loss = {loss}"
    text = code(("loss = nn.functional.cross_entropy(model(x), y)", lines))
    (tmp_path / "train.py").write_text(text)
    run = ran(tmp_path / "train.py")
    assert made in first_change(run, found_in(run))


def test_a_softmax_over_another_dimension_is_taken_over_the_classes(tmp_path):
    shares = "nn.functional.log_softmax(model(x), dim=0)"
    text = code(("cross_entropy(model(x), y)", f"nll_loss({shares}, y)"))
    (tmp_path / "train.py").write_text(text)
    run = ran(tmp_path / "train.py")
    cured = first_change(run, found_in(run))
    assert "nll_loss(nn.functional.log_softmax(model(x), dim=-1), y)" in cured


def lines_of(text, tmp_path, findings=None):
    """The lines that are added to a script, for what is found in it or given."""
    (tmp_path / "train.py").write_text(text)
    run = ran(tmp_path / "train.py")
    changes = changes_of(run, found_in(run) if findings is None else findings)
    return [
        line[1:].strip()
        for change in changes.values()
        for line in diff_of(change).splitlines()
        if line.startswith("+") and not line.startswith("+++")
    ]


def told(kind, form):
    return kind.finding("x", "warning", (Reading("x", q.SHARE_OF_STEPS, ONE, "script", form),), "")


OPTIMIZER = "torch.optim.SGD(model.parameters(), lr=0.5)"
ONE = Estimate.exactly(1)


@pytest.mark.parametrize(
    ("kind", "form", "made", "line"),
    [
        (RATE_TOO_HIGH, "rate x 0.1", OPTIMIZER, "torch.optim.SGD(model.parameters(), lr=0.05)"),
        (
            RATE_TOO_LOW,
            "rate x 10",
            "torch.optim.SGD(model.parameters(), 0.02)",
            "torch.optim.SGD(model.parameters(), 0.2)",
        ),
        (
            RATE_TOO_HIGH,
            "rate x 0.01",
            "torch.optim.SGD(model.parameters(), lr=max(0.1, 0.5))",
            "torch.optim.SGD(model.parameters(), lr=max(0.1, 0.5) * 0.01)",
        ),
        (
            RATE_TOO_HIGH,
            "rate x 0.1",
            "torch.optim.Adam(model.parameters())",
            "torch.optim.Adam(model.parameters(), lr=0.0001)",
        ),
        (
            OTHER_OPTIMIZER,
            "adam",
            "torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)",
            "torch.optim.Adam(model.parameters(), lr=0.001)",
        ),
        (
            STRONG_WEIGHT_DECAY,
            "no-decay",
            "torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=0.1)",
            "torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=0.0)",
        ),
    ],
)
def test_the_optimizer_is_made_as_it_was_tried(kind, form, made, line, tmp_path):
    text = code((OPTIMIZER, made))
    assert lines_of(text, tmp_path, [told(kind, form)]) == [f"opt = {line}"]


def test_of_several_optimizers_it_is_not_known_which(tmp_path):
    text = code((STEP, f"{STEP}        other.step()\n"), (SETUP, f"other = {OPTIMIZER}"))
    assert lines_of(text, tmp_path, [told(RATE_TOO_HIGH, "rate x 0.1")]) == []


def test_a_minus_is_taken_away(tmp_path):
    added = lines_of(code(("loss = nn", "loss = -nn")), tmp_path)
    assert added == ["loss = nn.functional.cross_entropy(model(x), y)"]


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


def test_the_optimizer_that_is_given_gradients_steps_in_the_place_of_another(tmp_path):
    changes = (SETUP, LAST), ("opt.zero_grad", "new.zero_grad")
    assert lines_of(code(*changes), tmp_path) == ["new.step()"]


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
    text = code((LOSS, f"{LOSS} + 0 * {loss}"))
    (tmp_path / "train.py").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = run_here(Job(Script(str(tmp_path / "train.py")), 40, 30, traced=0))
    changed = first_change(run, found_in(run))
    assert (changed is None) == (line is None)
    assert line is None or line in changed


def test_losses_of_shares_on_several_lines_are_written_otherwise(tmp_path):
    lines = """\
nn.functional.cross_entropy(p := model(x).softmax(1), y)
        loss = loss + nn.functional.cross_entropy(p, torch.ones(len(x), 2) / 2)"""
    added = lines_of(code((LOSS, lines)), tmp_path)
    assert "nll_loss" in added[0]
    assert "(torch.ones(len(x), 2) / 2) * torch.log(" in added[1]
