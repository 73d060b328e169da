"""What follows from two intervals and the hypotheses, for every way they can lie."""

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given, strategies as st

from sigmascope.core.records import Assumption, Estimate, Verdict
from sigmascope.theory import Bound


@dataclass(frozen=True)
class Below(Bound):
    """A theorem of which both sides are told."""

    name: ClassVar[str] = "below"
    source: ClassVar[str] = "nobody 2026"
    statement: ClassVar[str] = "a ≤ b"

    a: Estimate
    b: Estimate
    met: tuple[bool | None, ...] = ()
    site: str = "here"

    def assumptions(self):
        return tuple(Assumption(f"hypothesis {i}", m) for i, m in enumerate(self.met))

    def measured(self):
        return self.a

    def limit(self):
        return self.b


@dataclass(frozen=True)
class Above(Below):
    """The same from the other side."""

    name: ClassVar[str] = "above"
    statement: ClassVar[str] = "a ≥ b"
    sense: ClassVar[str] = "at least"


def interval(low, high):
    return Estimate((low + high) / 2, low, high, "told")


CASES = [
    ((0, 1), (2, 3), Verdict.HOLDS),
    ((0, 1), (1, 3), Verdict.HOLDS),  # they touch: proved
    ((0, 1.000001), (1, 3), Verdict.CONSISTENT),  # they overlap by a part in a million
    ((1, 3), (0, 1), Verdict.CONSISTENT),  # they touch from the wrong side: equality is possible
    ((1.000001, 3), (0, 1), Verdict.VIOLATED),
    ((0, 5), (1, 2), Verdict.CONSISTENT),
    ((1, 2), (0, 5), Verdict.CONSISTENT),
    ((1, 1), (1, 1), Verdict.HOLDS),
]


@pytest.mark.parametrize(("a", "b", "verdict"), CASES)
def test_the_verdict_is_what_the_intervals_prove(a, b, verdict):
    assert Below(interval(*a), interval(*b)).check().verdict == verdict
    assert Above(interval(*b), interval(*a)).check().verdict == verdict


@dataclass(frozen=True)
class Share(Below):
    """Of a number that is between 0 and 1 whatever the network."""

    def always(self):
        return 0.0, 1.0


@dataclass(frozen=True)
class Least(Share):
    """The same from the other side."""

    sense: ClassVar[str] = "at least"


@pytest.mark.parametrize(
    ("theorem", "limit", "vacuous"),
    [
        (Share, (1, 1), True),
        (Share, (1, 9), True),
        (Share, (0.999999, 9), False),
        (Least, (0, 0), True),
        (Least, (-9, 0), True),
        (Least, (-9, 1e-6), False),
        (Below, (1, 1), False),
        (Above, (-1e9, 0), False),
        (Below, (math.inf, math.inf), True),
        (Above, (-math.inf, -math.inf), True),
    ],
)
@pytest.mark.parametrize("met", [True, None])
def test_a_limit_that_no_network_passes_says_nothing(theorem, limit, vacuous, met):
    found = theorem(interval(0.5, 0.75), Estimate(limit[0], *limit, "told"), (met,)).check()
    assert (found.verdict is Verdict.VACUOUS) == vacuous
    assert bool(found.note) == vacuous
    assert found.limit is not None


def test_what_cannot_be_is_violated_and_not_vacuous():
    assert Share(interval(3, 4), interval(1, 2)).check().verdict is Verdict.VIOLATED
    assert Share(interval(3, 4), interval(1, 2), (False,)).check().verdict is Verdict.INAPPLICABLE


ENDS = st.tuples(*[st.floats(-10, 10)] * 2).map(sorted)


@given(ENDS, ENDS, st.floats(0, 1), st.floats(0, 1))
def test_no_pair_of_true_numbers_contradicts_the_verdict(a, b, s, t):
    x, y = (low + share * (high - low) for (low, high), share in ((a, s), (b, t)))
    verdict = Below(interval(*a), interval(*b)).check().verdict
    assert verdict != Verdict.HOLDS or x <= y
    assert verdict != Verdict.VIOLATED or x > y
    assert verdict != Verdict.CONSISTENT or (a[0] <= b[1] and a[1] > b[0])


SIDES = {"holds": ((0, 1), (2, 3)), "violated": ((2, 3), (0, 1)), "overlap": ((0, 2), (1, 3))}


@pytest.mark.parametrize("met", list(itertools.product([True, None, False], repeat=2)))
@pytest.mark.parametrize("sides", SIDES)
def test_hypotheses_decide_what_a_contradiction_means(met, sides):
    a, b = SIDES[sides]
    found = Below(interval(*a), interval(*b), met).check()
    if False in met:
        assert found.verdict == Verdict.INAPPLICABLE
    elif sides == "holds":
        assert found.verdict == Verdict.HOLDS
    elif sides == "violated" and None not in met:
        assert found.verdict == Verdict.VIOLATED
    else:
        assert found.verdict == Verdict.CONSISTENT
    noted = sides == "violated" and None in met and False not in met
    unknown = [f"hypothesis {i}" for i, m in enumerate(met) if m is None]
    assert found.note == (
        f"contradicted, but it cannot be told whether {'; '.join(unknown)}" if noted else ""
    )


@dataclass(frozen=True)
class Unasked(Below):
    """A theorem whose sides cannot be computed where it does not apply."""

    def measured(self):
        return self.a * math.exp(1e4)


def test_an_inapplicable_theorem_is_asked_for_no_number():
    found = Unasked(interval(0, 1), interval(0, 1), (False,)).check()
    assert (found.measured, found.limit, found.verdict) == (None, None, Verdict.INAPPLICABLE)
    with pytest.raises(OverflowError):
        Unasked(interval(0, 1), interval(0, 1), (True,)).check()
