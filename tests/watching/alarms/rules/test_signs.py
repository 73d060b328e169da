"""What a rule says of a look."""

from sigmascope.watching.alarms.rules import CALM, UNSURE


def test_between_sure_and_calm_nothing_is_said():
    assert (CALM.sure, CALM.calm) == (False, True)
    assert (UNSURE.sure, UNSURE.calm) == (False, False)
