"""Rules on steps speak of what cannot be made, and of what changes nothing."""

import pytest

from sigmascope.diagnosis.rules.steps import (
    failing_training,
    foreign_optimizer,
    untrained_weights,
)
from sigmascope.records import Profile, Skipped
from tests.diagnosis.readings import reading, said

PLANNED = "as planned"


def test_weights_that_the_optimizer_lacks():
    fact = reading("weights left out", 2, "(training)", "training", PLANNED)
    assert said(untrained_weights, fact) == {"untrained-weights": "warning"}
    assert said(untrained_weights) == {}


def test_steps_that_raise():
    raised = Profile(readings=(), skipped=(Skipped("(a training step)", "training", "it broke"),))
    (finding,) = failing_training(raised)
    assert (finding.name, finding.severity) == ("failing-training", "error")
    assert "it broke" in finding.says
    ours = Profile(readings=(), skipped=(Skipped("(training)", "training", "it broke"),))
    assert [*failing_training(ours)] == []
    without = Profile(readings=(), skipped=(Skipped("(training)", "training", "no targets"),))
    assert [*failing_training(without)] == []


def test_an_optimizer_of_another_model():
    lacks = reading("weights left out", 4, "(training)", "training", PLANNED)
    held = lambda count: reading("weights held", count, "(training)", "training", PLANNED)
    assert said(foreign_optimizer, lacks, held(0)) == {"foreign-optimizer": "error"}
    assert said(untrained_weights, lacks, held(1)) == {"untrained-weights": "warning"}


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
    raised = Profile(readings=(), skipped=(Skipped("(a training step)", "training", why),))
    (finding,) = failing_training(raised)
    assert bool(finding.remedies) == (do is not None)
    assert do is None or do in finding.remedies[0]
