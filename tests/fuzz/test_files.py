"""Whatever is in a file: exit 0, 1 or 2, no traceback, nothing that acts, lost or floods."""

import random
import warnings
from pathlib import Path

import pytest

from tests.fuzz.files import Files
from tests.fuzz.promises import require_as_promised

FLOOD = 1200 << 20  # bytes beyond those before, where SIGMASCOPE_MEMORY is half a gigabyte


def peak(reset=False):
    """Largest resident size of this process since it was last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    words = Path("/proc/self/status").read_text()
    return int(words.partition("VmHWM:")[2].split()[0]) << 10


@pytest.fixture(scope="module")
def files(home):
    return Files(home[0])


def require_unhurt(files, folder, numbers):
    for number in numbers:
        rng = random.Random(number)
        words: tuple[str, ...] = ()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                words, _ = files.broken(rng)  # torch warns of kinds of tensors that it has of late
                before = peak(reset=True)
                require_as_promised(words, folder)
            assert peak() - before < FLOOD
        except BaseException as error:
            error.add_note(f"number {number}: {words}")
            raise
    files.clear()


def test_a_few_hostile_files(files, quiet_home):
    require_unhurt(files, quiet_home, range(8))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(12, 2012, 100))
def test_two_thousand_hostile_files(files, quiet_home, start):
    require_unhurt(files, quiet_home, range(start, start + 100))
