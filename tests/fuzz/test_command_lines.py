"""Whatever is typed: exit 0, 1 or 2, no traceback, nothing that acts, nothing lost."""

import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings

from tests.fuzz.lines import commands
from tests.fuzz.promises import require_as_promised


@pytest.fixture
def attack(home, quiet_home):
    folder, files = home

    def go(count, start):
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            derandomize=False,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(words=commands(files))
        def holds(words):
            note(repr(words))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                require_as_promised(words, folder)

        seed(start)(holds)()

    return go


def test_a_few_hostile_command_lines(attack):
    attack(5, 0)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1, 22))
def test_two_thousand_hostile_command_lines(attack, start):
    attack(100, start)
