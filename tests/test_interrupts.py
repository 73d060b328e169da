"""Ctrl-C at any line of Python leaves everything as it was found, also within our own putting back.

Every line that a door runs is counted once; then the door is opened again and again, each time with
Ctrl-C at another line, a few of them within our own way in and out.
"""

import random
import signal
import sys
import warnings

import pytest
import torch
from fingerprints import differences, fingerprint, process
from test_left_as_found import DOORS
from torch import nn

from sigmascope.core.guard import Refusal

SLOW = {"curvature", "trial", "rank", "treat", "every view", "assess", "layer rates", "what if"}
DEAF = "numpy/_core/_internal.py"  # called by NumPy's C code, which drops what is raised there
HERE = ("contextlib.py", "state.py", "guard.py", "trace.py", "gradients.py", "layers.py")


def built():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3)
    )
    net.train()[4].eval()
    net.seen = [0]
    return net, torch.randn(8, 4), torch.arange(8) % 3


class Lines:
    """Counts lines of Python that are run, and presses Ctrl-C at one of them."""

    def __init__(self, at=None):
        self.at, self.count, self.near = at, 0, []

    def __call__(self, frame, event, arg):
        name = frame.f_code.co_filename
        if event == "line" and not name.endswith(DEAF):
            self.count += 1
            if self.at is None and name.endswith(HERE):
                self.near.append(self.count)
            if self.count == self.at:
                sys.settrace(None)
                frame.f_trace = None
                signal.raise_signal(signal.SIGINT)
        return self if self.at is None or self.count < self.at else None


def opened(door, lines):
    """What came of it, and what had changed; the process is as before."""
    net, x, y = built()
    before, around = fingerprint(model=net, batch=x, targets=y), process()
    handler = signal.getsignal(signal.SIGINT)
    ended, dropped, hook = None, [], sys.unraisablehook

    def unraisable(what):
        """Of collections of garbage and the like, which Python drops whoever raises there."""
        (dropped.append if what.exc_type is KeyboardInterrupt else hook)(what)

    sys.unraisablehook = unraisable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.settrace(lines)
        try:
            DOORS[door](net, x, y)
        except BaseException as error:  # noqa: BLE001 (told from one another by who calls)
            ended = error
        finally:
            sys.settrace(None)
            sys.unraisablehook = hook
    if dropped:
        lines.at = None
    changed = differences(before, fingerprint(model=net, batch=x, targets=y))
    now = process()
    changed += [k for k in around if around[k] != now[k]]
    if signal.getsignal(signal.SIGINT) is not handler:
        changed.append("the handler of Ctrl-C")
        signal.signal(signal.SIGINT, handler)
    return ended, changed


def require_as_found(door, times, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            DOORS[door](*built())  # what is imported and made once is there
        except Refusal:
            return
    counter = Lines()
    ended, changed = opened(door, counter)
    assert not changed
    rng = random.Random(f"{door} {seed}")
    places = rng.sample(range(1, counter.count), min(times // 2, counter.count - 1))
    places += rng.sample(counter.near, min(times - len(places), len(counter.near)))
    pressed = 0
    for at in places:
        lines = Lines(at)
        ended, changed = opened(door, lines)
        assert not changed, (door, at, changed[:6])
        if lines.count == lines.at:  # what is kept from run to run spares some lines
            assert isinstance(ended, KeyboardInterrupt), (door, at, ended)
            pressed += 1
    assert pressed > 0.8 * len(places)


@pytest.fixture(autouse=True)
def interruptible():
    """Jobs in the background of a shell are deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("door", ["profile", "bottleneck", "look"])
def test_ctrl_c_at_a_few_lines(door, as_users_see_it):
    require_as_found(door, 8, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("door", DOORS)
def test_ctrl_c_at_many_lines(door, seed, as_users_see_it):
    require_as_found(door, 4 if door in SLOW else 40, seed)
