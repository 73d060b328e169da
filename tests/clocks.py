"""Clocks for budgets of time, that go only when they are told to."""


class Clock:
    """Stands still but for what is added to `now`."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Ticking(Clock):
    """Moves on by one second whenever a function that it wraps is called."""

    def each(self, function):
        def counted(*words, **named):
            self.now += 1.0
            return function(*words, **named)

        return counted
