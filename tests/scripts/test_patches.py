"""The lines that are changed make a script without the mistake."""

import warnings

import pytest

from sigmascope.scripts.patches import diffs_of, first_change
from sigmascope.scripts.rules import found_in
from sigmascope.scripts.running import Job, Script, run_here
from tests.scripts.loops import FAULTY, code

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
)


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
    assert set(diffs_of(run, found)) == {name}
    (tmp_path / "cured.py").write_text(first_change(run, found))
    assert found_in(ran(tmp_path / "cured.py")) == ()
    assert (tmp_path / "train.py").read_text() == code(*FAULTY[name])


def test_where_no_line_is_known_nothing_is_written(tmp_path):
    (tmp_path / "train.py").write_text(code(*FAULTY["rebuilt-loss"]))
    run = ran(tmp_path / "train.py")
    assert diffs_of(run, found_in(run)) == {}
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
