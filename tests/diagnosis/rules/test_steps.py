"""Rules on steps speak of what cannot be made, and of what changes nothing."""

import pytest

from sigmascope.core.records import Profile, Skipped
from sigmascope.diagnosis.rules.steps import (
    failing_training,
    foreign_optimizer,
    untrained_weights,
)
from tests.diagnosis.readings import reading, said


def test_weights_that_the_optimizer_lacks():
    of = lambda name, count: reading(name, count, "(training)", "training", "as planned")
    lacks, held = of("weights left out", 4), lambda count: of("weights held", count)
    assert said(untrained_weights, lacks) == {"untrained-weights": "warning"}
    assert said(untrained_weights, lacks, held(1)) == {"untrained-weights": "warning"}
    assert said(untrained_weights) == {}
    assert said(foreign_optimizer, lacks, held(0)) == {"foreign-optimizer": "error"}


def raised(site, why):
    return Profile(readings=(), skipped=(Skipped(site, "training", why),))


def test_steps_that_raise():
    (finding,) = failing_training(raised("(a training step)", "it broke"))
    assert (finding.name, finding.severity) == ("failing-training", "error")
    assert "it broke" in finding.says
    for why in ("it broke", "no targets"):  # ours, or there was nothing to train on
        assert [*failing_training(raised("(training)", why))] == []


@pytest.mark.parametrize(
    ("why", "do"),
    [
        ("ValueError: Expected more than 1 value per channel when training", "batch_size"),
        ("RuntimeError: Trying to backward through the graph a second time", "detach"),
        ("RuntimeError: a variable has been modified by an inplace operation", "inplace=False"),
        ("RuntimeError: element 0 of tensors does not require grad", "argmax"),
        ("RuntimeError: something else", None),
    ],
)
def test_what_to_do_about_it_is_said_where_it_is_known(why, do):
    (finding,) = failing_training(raised("(a training step)", why))
    assert bool(finding.remedies) == (do is not None)
    assert do is None or do in finding.remedies[0]
