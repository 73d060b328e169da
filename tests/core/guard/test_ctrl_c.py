"""Ctrl-C inside of a door: at once where nothing is half done, else behind what is."""

import contextlib
import signal
import time

import pytest

from sigmascope.core.guard import CTRL_C, door, unbroken


@pytest.fixture(autouse=True)
def interruptible():
    """Jobs in the background of a shell are deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pressed(done):
    """Ctrl-C, and a line behind it, which is long enough for it to be tried again."""
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.01)
    done.append("behind")


class Entering:
    def __init__(self, done):
        self.done = done

    def __enter__(self):
        pressed(self.done)

    def __exit__(self, *_):
        self.done.append("left")


class Leaving(Entering):
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pressed(self.done)


@contextlib.contextmanager
def generated(done):
    try:
        yield
    finally:
        pressed(done)


@unbroken
def whole(done):
    pressed(done)


def within(context):
    def go(done):
        with context(done):
            pass

    return go


WAITS = {
    "entering": within(Entering),
    "leaving": within(Leaving),
    "leaving a generator": within(generated),
    "what must not be broken": whole,
    "leaving within another context": within(lambda done: contextlib.closing(Closes(done))),
}


class Closes:
    def __init__(self, done):
        self.done = done

    def close(self):
        pressed(self.done)


@pytest.mark.parametrize("what", WAITS)
def test_it_waits_until_the_context_is_whole(what):
    done = []

    @door
    def opened():
        WAITS[what](done)
        for _ in range(1000):
            time.sleep(0.001)
        done.append("never")

    with pytest.raises(KeyboardInterrupt):
        opened()
    assert "behind" in done
    assert "never" not in done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_anywhere_else_it_is_raised_at_once():
    done = []

    @contextlib.contextmanager
    def context():
        yield

    # also in a function that a context decorates, and within its block
    for way in (pressed, context()(pressed)):
        with pytest.raises(KeyboardInterrupt):
            door(way)(done)
        with pytest.raises(KeyboardInterrupt):
            door(lambda way=way: way(done))()
    assert not done


def test_what_waits_at_the_end_is_raised_there_and_once():
    done = []

    @door
    def opened():
        whole(done)

    with pytest.raises(KeyboardInterrupt):
        opened()
    time.sleep(0.02)
    assert done == ["behind"]


def test_a_handler_of_the_users_is_asked_and_stays():
    came = []
    mine = lambda number, frame: came.append(number)
    signal.signal(signal.SIGINT, mine)
    with CTRL_C, CTRL_C:
        signal.raise_signal(signal.SIGINT)
    assert came == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is mine
    with CTRL_C:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
