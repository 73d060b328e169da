"""What is said: numbers with intervals, readings, checks, findings, scans. Declared once."""

import importlib
import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import update_wrapper
from itertools import islice
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.core import products
from sigmascope.core.guard import WrongKind, came, printable
from sigmascope.core.quantities import View, quantity

__all__ = [
    "SPEAKS",
    "Assumption",
    "Brief",
    "ByValue",
    "Change",
    "Check",
    "Effort",
    "Estimate",
    "Fact",
    "Finding",
    "Item",
    "Kind",
    "Layer",
    "Matrix",
    "Profile",
    "Reading",
    "Rule",
    "Scan",
    "ScanPlan",
    "Sense",
    "Severity",
    "Shown",
    "SiteSpectrum",
    "Skipped",
    "Spectrum",
    "Verdict",
    "brief",
    "changes",
    "entrywise",
    "kinds_of",
    "largest",
    "rule",
]

# ------------------------------------------------------------------------------
# Records that hold tensors, models and mappings: told by shapes and names in place of values,
# compared by value, and sent to another process.


MOST, LONG = 6, 80  # entries that are told of a list or a mapping, and letters of a value


def brief(value: Any) -> str:
    """What a value is, in a line: a tensor by its kind and shape, a model by its name.

    Example:
        >>> import torch
        >>> brief({"x": torch.ones(3, 2), "name": "digits"})
        "{'x': float32 [3, 2], 'name': 'digits'}"
    """
    if isinstance(value, Tensor | np.ndarray):
        return f"{str(value.dtype).removeprefix('torch.')} {[*value.shape]}"
    if isinstance(value, Mapping):
        entries = [f"{brief(k)}: {brief(v)}" for k, v in islice(value.items(), MOST)]
        return f"{{{_with_rest(entries, len(value))}}}"
    if isinstance(value, list | tuple):
        entries = _with_rest([*map(brief, value[:MOST])], len(value))
        comma = "," * (len(value) == 1)
        return f"[{entries}]" if isinstance(value, list) else f"({entries}{comma})"
    if isinstance(value, type) or inspect.isroutine(value):
        return printable(value.__name__)
    if is_dataclass(value) and not isinstance(value, Shown):
        held = [f"{f.name}={brief(getattr(value, f.name))}" for f in fields(value) if f.repr]
        return f"{type(value).__name__}({', '.join(held)})"
    if value is None or isinstance(value, str | bytes | int | float | Path | torch.dtype):
        words = printable(repr(value[:LONG] if isinstance(value, str | bytes) else value))
        return words + "…" * (isinstance(value, str | bytes) and len(value) > LONG)
    return f"<{printable(type(value).__name__)}>"


def _with_rest(entries: list[str], count: int) -> str:
    more = [f"… {count - len(entries)} more"] if count > len(entries) else []
    return ", ".join(entries + more)


class Brief:
    """A data class that is told by the shapes and names of what it holds, not by its numbers."""

    __slots__ = ()

    def __repr__(self) -> str:
        return brief(self)


class ByValue(Brief):
    """A frozen data class that can be compared, hashed, pickled and copied, whatever it holds.

    What a data class writes of these fails at tensors, whose comparison is a tensor, and at
    mappings that are read only, which `pickle` does not take. One with fields of such kinds is
    declared with `eq=False`, so that the comparison here is not replaced. Tensors are the same if
    type, shape and numbers are. What has no value of its own, as a model, is the same as itself.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return _values(self) == _values(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), _values(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        record: Any = self  # every class that inherits is a dataclass
        held = {f.name: getattr(self, f.name) for f in fields(record)}
        sealed = {n: dict(v) for n, v in held.items() if isinstance(v, MappingProxyType)}
        return _rebuilt, (type(self), held | sealed, tuple(sealed))


def _rebuilt(kind: type, held: dict[str, Any], sealed: tuple[str, ...]) -> Any:
    made = object.__new__(kind)
    for name, value in held.items():
        object.__setattr__(made, name, MappingProxyType(value) if name in sealed else value)
    return made


def _values(record: Any) -> tuple[Hashable, ...]:
    return tuple(_value(getattr(record, f.name)) for f in fields(record) if f.compare)


def _value(held: Any) -> Hashable:
    """What stands for a field where records are compared."""
    if isinstance(held, Tensor | np.ndarray):
        return held.dtype, held.shape, tuple(held.reshape(-1).tolist())
    if isinstance(held, Mapping):
        return frozenset((key, _value(each)) for key, each in held.items())
    if is_dataclass(held) and type(held).__hash__ is None:  # one that grows while it is filled
        return type(held), _values(held)
    return tuple(map(_value, held)) if isinstance(held, tuple | list) else held


# ------------------------------------------------------------------------------
# A measured number together with the interval it is defended on.
#
# Estimates can be added, subtracted, multiplied, divided and raised to powers, so that whatever is
# computed from measured numbers carries their errors with it, cancellation included: interval
# arithmetic (Moore 1966). The invariant: if the true operands lie within their intervals, the true
# result lies within its own. Every end is rounded outwards, so that no number of roundings has to
# be guessed anywhere.


LARGEST = math.nextafter(math.inf, 0)
NORMAL = 2.0**-1022
LIBRARY = 4  # units in the last place that `log`, `exp` and `pow` of the C library may be off by


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, the interval we defend it on, and the route that produced it.

    Attributes:
        value: The best single number, in the unit of the quantity measured.
        low: The true value is at least this; `-inf` where nothing is known.
        high: The true value is at most this; `inf` where nothing is known.
        how: Route and its knobs, e.g. `"exact"` or `"golub-kahan(steps=64)"`.
        risk: Chance, over the route's own randomness, that the interval misses; 0 when the route
            is deterministic.
    """

    value: float
    low: float
    high: float
    how: str
    risk: float = 0.0

    def __post_init__(self) -> None:
        for number in (self.value, self.low, self.high):
            if not isinstance(number, float | int | Real) or isinstance(number, bool):
                raise WrongKind(
                    f"An estimate is made of numbers, got {came(number)}. Pass float(...) of it."
                )
        if not self.low <= self.value <= self.high:  # nan fails every comparison
            raise ValueError(
                f"An estimate needs low <= value <= high, got {self.low} <= {self.value} <= "
                f"{self.high} from {self.how}. A nan here means the input was not finite."
            )

    @classmethod
    def exactly(cls, value: float, *, how: str = "exact") -> "Estimate":
        """A number known without error."""
        return cls(value, value, value, how)

    @classmethod
    def rounded(cls, value: float, *, ulps: float, how: str = "exact") -> "Estimate":
        """A number known up to `ulps` float64 roundings of its own size, and so of its own sign."""
        gap = abs(value) * ulps * 2.0**-52
        if 0 < abs(value) < NORMAL:  # roundings are no smaller than the grid of subnormal numbers
            gap = math.ceil(ulps) * math.ulp(0.0)
            if gap >= abs(value):
                low, high = sorted((0.0, math.copysign(abs(value) + gap, value)))
                return cls(value, low, high, how)
        return cls.within(value, gap, how=how)

    @classmethod
    def within(cls, value: float, gap: float, *, how: str = "exact") -> "Estimate":
        """A number known up to an error of `gap` either way; an infinite one is taken as it is."""
        if math.isinf(value):
            return cls.exactly(value, how=how)
        return cls(value, value - gap, value + gap, how)

    @classmethod
    def sum_of_squares(cls, A: Tensor) -> "Estimate":
        """`Σ a²` over the entries of a float64 tensor, with what adding them up may have rounded.

        Source:
            Higham 2002, Accuracy and Stability of Numerical Algorithms, (3.5), for any order.
        """
        value, terms = float(A.square().sum()), A.numel() + 2
        if math.isinf(value):
            return cls(value, LARGEST, value, "exact")
        gap = value * terms * 2.0**-52 + terms * math.ulp(0.0)  # and squares that underflow
        return cls(value, max(value - gap, 0.0), value + gap, "exact")

    def __neg__(self) -> "Estimate":
        return replace(self, value=-self.value, low=-self.high, high=-self.low)

    def __abs__(self) -> "Estimate":
        ends = (abs(self.low), abs(self.high))
        low = 0.0 if self.low <= 0 <= self.high else min(ends)
        return replace(self, value=abs(self.value), low=low, high=max(ends))

    def __add__(self, other: "Estimate | float") -> "Estimate":
        o = _estimate(other)
        return self._with(o, self.value + o.value, self.low + o.low, self.high + o.high)

    def __sub__(self, other: "Estimate | float") -> "Estimate":
        return self + -_estimate(other)

    def __rsub__(self, other: float) -> "Estimate":
        return -self + other

    def __mul__(self, other: "Estimate | float") -> "Estimate":
        o = _estimate(other)
        ends = [_times(a, b) for a in (self.low, self.high) for b in (o.low, o.high)]
        return self._with(o, _times(self.value, o.value), min(ends), max(ends))

    def __truediv__(self, other: "Estimate | float") -> "Estimate":
        o = _estimate(other)
        if o.low < 0 < o.high or o.low == o.high == 0:
            return self._with(o, _over(self.value, o.value), -math.inf, math.inf)
        # a zero at an end of an interval is approached from inside it
        low, high = o.low or 0.0, o.high if o.high != 0 else -0.0
        ends = [_over(a, b) for a in (self.low, self.high) for b in (low, high)]
        return self._with(o, _over(self.value, o.value), min(ends), max(ends))

    def __rtruediv__(self, other: float) -> "Estimate":
        return _estimate(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, power: float | Fraction) -> "Estimate":
        """A power of a number that is not negative; what lies below zero is cut off as rounding.

        A fraction that no float is, as 2/3, belongs in `power` as one: rounded, it would leave the
        powers of very large and very small numbers off by more than their own rounding.
        """
        if power == 2 and self.low < 0:
            return abs(self) ** 2
        near = float(power)
        off = abs(float(Fraction(power) - Fraction(near)))  # by which x^p is off, times log x
        far = max(
            (abs(math.log(x)) for x in (self.low, self.high) if 0 < x < math.inf), default=0.0
        )
        found = self._through(
            lambda x: _power(max(x, 0.0), near),
            falling=power < 0,
            ulps=LIBRARY + math.ceil(off * far * 2.0**54),
        )
        return found.at_least(0.0)

    def sqrt(self) -> "Estimate":
        """The root; what lies below zero is cut off as rounding."""
        return self**0.5

    def log(self) -> "Estimate":
        """The natural logarithm; minus infinity at zero and below."""
        return self._through(lambda x: math.log(x) if x > 0 else -math.inf)

    def exp(self) -> "Estimate":
        """The exponential; infinite where it is beyond float64."""
        return self._through(_exp)

    def at_least(self, floor: float) -> "Estimate":
        """The larger of the number and `floor`."""
        return self._through(lambda x: max(x, floor), ulps=0)

    def at_most(self, ceiling: float) -> "Estimate":
        """The smaller of the number and `ceiling`."""
        return self._through(lambda x: min(x, ceiling), ulps=0)

    def exceeds(self, other: "Estimate") -> bool:
        """Whether the intervals prove that this number is the larger."""
        return self.low > other.high

    @property
    def positive(self) -> bool | None:
        """Whether the number is above zero; None where the interval cannot tell."""
        return True if self.low > 0 else False if self.high <= 0 else None

    def _with(self, other: "Estimate", value: float, low: float, high: float) -> "Estimate":
        risk = min(1.0, self.risk + other.risk)
        how, more = self.how, other.how
        if how != more != "exact":  # both routes; that of a plain number goes without saying
            both = how if more in how else f"{how}, {more}"
            how = more if how == "exact" or how in more else both
        return _outwards(value, low, high, how=how, risk=risk)

    def _through(
        self, f: Callable[[float], float], *, falling: bool = False, ulps: int = LIBRARY
    ) -> "Estimate":
        low, high = (self.high, self.low) if falling else (self.low, self.high)
        return _outwards(f(self.value), f(low), f(high), how=self.how, risk=self.risk, ulps=ulps)


def largest(*estimates: Estimate) -> Estimate:
    """The largest of some numbers, each of which lies within its own interval.

    Source:
        Moore 1966, Interval Analysis: the maximum rises with every operand.
    """
    how, risk = estimates[0].how, min(1.0, sum(e.risk for e in estimates))
    low, high = max(e.low for e in estimates), max(e.high for e in estimates)
    return Estimate(max(e.value for e in estimates), low, high, how, risk)


def entrywise(value: Tensor, low: Tensor, high: Tensor, *, how: str) -> tuple[Estimate, ...]:
    """One estimate for each entry of a vector with its ends, as those of a spectrum.

    Args:
        value: The best numbers.
        low: Their lower ends.
        high: Their upper ends.
        how: The route of all.

    Source:
        Of the ends, where they are those of `spectrum`: Weyl 1912.
    """
    rows = zip(value.tolist(), low.tolist(), high.tolist(), strict=True)
    return tuple(Estimate(v, least, most, how) for v, least, most in rows)


def _estimate(x: "Estimate | float") -> Estimate:
    return x if isinstance(x, Estimate) else Estimate.exactly(x)


def _outwards(
    value: float, low: float, high: float, *, how: str, risk: float, ulps: int = 1
) -> Estimate:
    """Ends moved out by the rounding of one operation; infinite differences know nothing."""
    low = -math.inf if math.isnan(low) else low
    high = math.inf if math.isnan(high) else high
    if ulps:
        low = low - ulps * math.ulp(low) if math.isfinite(low) else low
        high = high + ulps * math.ulp(high) if math.isfinite(high) else high
    if math.isnan(value):
        value = low if math.isfinite(low) else high if math.isfinite(high) else 0.0
    # what overflowed is a number too large to write down, not one known to be infinite
    low, high = min(low, LARGEST), max(high, -LARGEST)
    return Estimate(min(max(value, low), high), low, high, how, risk)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _over(a: float, b: float) -> float:
    if a == 0:
        return 0.0
    return a / b if b != 0 else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _power(x: float, power: float) -> float:
    if x == 0:
        return 0.0 if power > 0 else math.inf if power < 0 else 1.0
    try:
        return x**power
    except OverflowError:
        return math.inf


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


# ------------------------------------------------------------------------------
# Results show themselves, in a terminal, in a notebook and as a data frame.


LINES = 32  # of a screen


class Shown(ByValue):
    """A result that prints as its command prints it, and is a card in a notebook.

    Records know nothing of how they look: whoever shows results is found by the list of products,
    when something is shown and not before.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        try:
            lines = products.report().text(self).rstrip().split("\n")
        except Exception as error:  # noqa: BLE001 (a debugger shows what is half made, too)
            return f"<{type(self).__name__} that cannot be shown: {type(error).__name__}: {error}>"
        if len(lines) <= LINES:
            return "\n".join(lines)
        more = f"… {len(lines) - LINES + 1} more lines: print(sigmascope.text(result))"
        return "\n".join((*lines[: LINES - 1], more))

    def _repr_html_(self) -> str:
        return products.report().html(self)

    def plot(self, *beside: Any, width: float = 6.5, **more: Any) -> Any:
        """As a figure of matplotlib, fit for a paper; see `sigmascope.report.plot`.

        Args:
            beside: What it is shown with, as the findings of a profile.
            width: In inches: 6.5 for the text of a page, 3.3 for one of two columns.
            more: What is drawn of it: `quantities=`, `spectra=`.

        Returns:
            A `matplotlib.figure.Figure`: a notebook shows it, `.savefig("figure.pdf")` writes it.
        """
        return products.report().plot(self, *beside, width=width, **more)

    def to_pandas(self) -> Any:
        """Its rows as a data frame of pandas: readings of a profile, changes, layers, ….

        Raises:
            ImportError: If pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as missing:
            raise ImportError(
                "A data frame needs pandas: pip install pandas, or 'sigmascope[frames]'. Without "
                "it, `sigmascope.report.table` gives the same columns as lists."
            ) from missing
        return pandas.DataFrame(products.report().table(self))


# ------------------------------------------------------------------------------
# The singular values of one matrix.


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Spectrum(ByValue):
    """The singular values of one matrix, largest first, each with its interval.

    Attributes:
        sigma: Singular values, descending, not squared.
        shape: `(rows, cols)` of the matrix they belong to.
        how: Route that produced them, e.g. `"exact"`.
        low: The i-th largest singular value is at least `low[i]`; `sigma` itself when omitted.
        high: The i-th largest singular value is at most `high[i]`; `sigma` itself when omitted.
        risk: Chance, over the route's own randomness, that some interval misses.
    """

    sigma: Float64[Tensor, " r"]
    shape: tuple[int, int] = field(metadata={"inline": ("rows", "cols")})
    how: str
    # None stands for sigma and is replaced at once, so that readers always find tensors
    low: Float64[Tensor, " r"] = None  # pyright: ignore[reportAssignmentType]
    high: Float64[Tensor, " r"] = None  # pyright: ignore[reportAssignmentType]
    risk: float = 0.0

    def __post_init__(self) -> None:
        for end in ("low", "high"):
            if getattr(self, end) is None:
                object.__setattr__(self, end, self.sigma)

    @property
    def complete(self) -> bool:
        """Whether every singular value is present, not only the leading ones."""
        return len(self.sigma) == min(self.shape)


# ------------------------------------------------------------------------------
# A theorem compared with facts: what came of it.


Sense = Literal["at most", "at least"]


class Verdict(StrEnum):
    """Outcome of comparing the measured side with the side that bounds it."""

    HOLDS = "holds"  # proved by these intervals
    CONSISTENT = "consistent"  # the intervals overlap, or a hypothesis cannot be decided
    VACUOUS = "vacuous"  # the limit is one that no number passes, whatever the network
    VIOLATED = "violated"  # contradicted although all hypotheses are met: a bug
    INAPPLICABLE = "inapplicable"  # an assumption is known to fail


@dataclass(frozen=True, slots=True)
class Assumption:
    """One hypothesis of a theorem; `met` is None where these facts cannot decide it."""

    says: str
    met: bool | None


@dataclass(frozen=True, slots=True, repr=False)
class Check(Shown):
    """The outcome of checking one theorem once.

    Attributes:
        theorem: Its name in the catalogue.
        source: Author, year and number.
        statement: The inequality.
        site: The layer whose facts were compared.
        measured: The side that the theorem bounds; None where it does not apply.
        limit: The side that bounds it; None where it does not apply.
        sense: Whether the measured side is `"at most"` or `"at least"` the limit.
        assumptions: The hypotheses, each with whether it is met.
        verdict: What follows.
    """

    theorem: str
    source: str
    statement: str
    site: str
    measured: Estimate | None
    limit: Estimate | None
    sense: Sense
    assumptions: tuple[Assumption, ...]
    verdict: Verdict

    @property
    def note(self) -> str:
        """Why a contradiction is none, or why the limit says nothing; else empty."""
        if self.verdict == Verdict.VACUOUS:
            return "the limit says nothing: the other side is never past it"
        if self.verdict != Verdict.CONSISTENT:
            return ""
        assert self.measured is not None
        assert self.limit is not None
        sides = (self.measured, self.limit)
        smaller, larger = sides if self.sense == "at most" else sides[::-1]  # as they should be
        if not smaller.exceeds(larger):
            return ""
        unknown = "; ".join(a.says for a in self.assumptions if a.met is None)
        return f"contradicted, but it cannot be told whether {unknown}"


# ------------------------------------------------------------------------------
# What a survey yields: numbers at places, and the places where there was no number.


@dataclass(frozen=True, slots=True)
class Reading:
    """One quantity at one place of a model.

    Attributes:
        site: The layer (`"blocks.3.linear"`), or the parameter (`"blocks.3.linear.weight"`).
        quantity: What was measured, e.g. `"participation ratio"`.
        estimate: The number, with its interval.
        view: Which view it belongs to.
        form: Which matrix of that view: `"samples"` or `"channels"` for representations,
            `"matrix"`, `"kernel"` or `"operator"` for weights, `""` where there is one only.
    """

    site: str
    quantity: str
    estimate: Estimate = field(metadata={"inline": True})
    view: View
    form: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was read at one place of a model and is no number.

    Attributes:
        site: The layer, or `"(output)"`, `"(targets)"`, `"(loss)"`.
        quantity: What was read, e.g. `"last operation"`.
        view: Which view it belongs to.
        word: What it is, e.g. `"softmax"`; `"yes"` where there is nothing else to say.
    """

    site: str
    quantity: str
    view: View
    word: str = "yes"


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not measured, and why."""

    site: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that was profiled.

    Attributes:
        site: Its name; a second call of the same module is `"name#2"`.
        kind: Class of the module, e.g. `"Linear"`.
        depth: Place in the order of calls, from 0.
        parameters: Names of the weights it applies.
        reads: Shape of the first tensor it reads, the batch included; empty where none was seen.
        writes: Shape of the first floating tensor it writes.
        numbers: How many numbers its weights and biases are, those that it shares included.
        multiply_adds: Of this call, for the whole batch; None of a layer whose arithmetic is not
            known. Biases, normalisers and activations are not counted, nor what is no layer.
    """

    site: str
    kind: str
    depth: int
    parameters: tuple[str, ...] = ()
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    numbers: int = 0
    multiply_adds: int | None = None


@dataclass(frozen=True, slots=True)
class SiteSpectrum:
    """The singular values behind the readings of one matrix."""

    site: str
    view: View
    form: str
    spectrum: Spectrum = field(metadata={"inline": True})


Item = Reading | Fact | Skipped | SiteSpectrum


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Profile(Shown):
    """Everything measured in one pass over a model.

    Attributes:
        readings: In the order of the layers.
        checks: Theorems compared with these facts.
        skipped: What was not measured, each with the reason.
        layers: Every layer of the model, in the order in which it is called.
        spectra: The singular values behind the readings.
        about: Model, batch, mode, versions and cost, as words.
        views: Those that were asked for; empty where that is not known.
        facts: What was read and is no number.
    """

    readings: tuple[Reading, ...]
    checks: tuple[Check, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    layers: tuple[Layer, ...] = ()
    spectra: tuple[SiteSpectrum, ...] = ()
    about: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    views: tuple[View, ...] = ()
    facts: tuple[Fact, ...] = ()

    def __post_init__(self) -> None:
        read = {(r.view, r.quantity, type(r)) for r in (*self.readings, *self.facts)}
        for view, name, kind in read:
            known = quantity(name)
            if view not in known.views:
                raise ValueError(
                    f"{name!r} must be read in {' or '.join(known.views)}, got it in {view}. The "
                    "table of quantities says where each belongs."
                )
            if kind is not (Fact if known.words else Reading):
                raise ValueError(
                    f"{name!r} must be {'a fact' if known.words else 'a number'}, got a "
                    f"{kind.__name__}. The table of quantities says which is which."
                )

    def fact(self, name: str) -> str:
        """The first fact of that name, as a word; empty where it was not read."""
        return next((f.word for f in self.facts if f.quantity == name), "")

    def series(
        self, name: str, *, view: View | None = None, form: str | None = None
    ) -> tuple[Reading, ...]:
        """Readings of one quantity, in the order of the layers.

        Raises:
            ValueError: If there is no such quantity.
        """
        quantity(name)
        return tuple(
            r
            for r in self.readings
            if r.quantity == name and view in (None, r.view) and form in (None, r.form)
        )


# ------------------------------------------------------------------------------
# What is not the same in two measurements of one model.


@dataclass(frozen=True, slots=True)
class Change:
    """One quantity at one place, before and after.

    Attributes:
        site: Where.
        quantity: What.
        view: Of which view.
        form: Of which matrix.
        before: The number before.
        after: The number after.
    """

    site: str
    quantity: str
    view: View
    form: str
    before: Estimate
    after: Estimate

    @property
    def moved(self) -> bool:
        """Whether the two intervals have no number in common."""
        return self.before.high < self.after.low or self.after.high < self.before.low

    @property
    def factor(self) -> float:
        """After over before; infinite from zero."""
        if self.before.value == 0:
            return 1.0 if self.after.value == 0 else float("inf")
        return self.after.value / self.before.value


def changes(before: Iterable[Reading], after: Iterable[Reading]) -> tuple[Change, ...]:
    """Every quantity that was read in both, in the order of the first."""
    key = lambda r: (r.site, r.quantity, r.view, r.form)
    later = {key(r): r.estimate for r in after}
    return tuple(
        Change(r.site, r.quantity, r.view, r.form, r.estimate, later[key(r)])
        for r in before
        if key(r) in later
    )


# ------------------------------------------------------------------------------
# What a finding is.


Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Shown):
    """Something worth a reader's attention, with the readings that show it.

    Attributes:
        name: The rule that spoke, e.g. `"rank-collapse"`.
        site: Where it starts.
        severity: `"error"` stops training, `"warning"` slows or risks it, `"note"` is for
            information.
        evidence: The numbers that show it.
        says: One plain sentence.
        source: Author, year and number of what it rests on.
        remedies: What to do, one sentence each: first what no remedy can do for the user, then
            the remedies that `sigmascope remedy` has for it.
        follows: Name of the finding that this one follows from; empty for a cause.
        facts: What shows it and is no number.
    """

    name: str
    site: str
    severity: Severity
    evidence: tuple[Reading, ...]
    says: str
    source: str
    remedies: tuple[str, ...] = ()
    follows: str = ""
    facts: tuple[Fact, ...] = ()


# ------------------------------------------------------------------------------
# What is known of a finding before it is found.


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of finding, declared once, beside the rule that finds it.

    What else is told of findings is derived from their kinds: which follow from which, which are
    errors whatever is foretold, the tables of the documentation, `sigmascope explain`. A kind names
    those that it brings as objects, so that they are declared before it, and causes have no circle.

    Attributes:
        name: As findings have it, e.g. `"rank-collapse"`.
        speaks: When it is found, in words.
        source: Author, year and number of what it rests on.
        proven: Its errors rest on arithmetic, or on a change that cured a copy: they stand whatever
            is foretold.
        even_if_it_learns: A loss that falls takes nothing of it: the task is another than is meant.
        setting: It is how the program trains, of which a probe at other settings says nothing.
        eases: The task is easier with it, so that no training is stuck because of it.
        of_any: Any cause may bring it: it is laid to the likeliest.
        brings: What follows from it.
    """

    name: str
    speaks: str
    source: str
    proven: bool = False
    even_if_it_learns: bool = False
    setting: bool = False
    eases: bool = False
    of_any: bool = False
    brings: tuple["Kind", ...] = ()

    def finding(
        self,
        site: str,
        severity: Severity,
        evidence: tuple[Reading | Fact, ...],
        says: str,
        remedies: tuple[str, ...] = (),
    ) -> Finding:
        """One of this kind.

        Args:
            site: Where it starts.
            severity: Of this one.
            evidence: The readings and facts that show it.
            says: One plain sentence.
            remedies: What to do, one sentence each.
        """
        numbers = tuple(e for e in evidence if isinstance(e, Reading))
        facts = tuple(e for e in evidence if isinstance(e, Fact))
        words = (says, self.source, remedies)
        return Finding(self.name, site, severity, numbers, *words, facts=facts)


# ------------------------------------------------------------------------------
# What a rule is: a function from what was measured to findings, that declares itself.


Measured = TypeVar("Measured")
# what a rule may read besides a view
SPEAKS = {
    "task": "outputs, targets and loss",
    "training": "how the program trains",
    "script": "what a training script does, as it runs",
}


class Rule(Generic[Measured]):
    """A rule that declares itself; called with what was measured, it yields findings.

    Attributes:
        name: Of its function.
        reads: What it is silent without: of a profile a view, or `"task"` (outputs, targets and
            loss); of a checkpoint a quantity.
        kinds: What it may find, the deepest cause first.
    """

    def __init__(
        self, find: Callable[[Measured], Iterator[Finding]], reads: str, kinds: tuple[Kind, ...]
    ) -> None:
        self._find, self.name, self.reads, self.kinds = find, find.__name__, reads, kinds
        update_wrapper(self, find)

    def __call__(self, measured: Measured) -> Iterator[Finding]:
        return self._find(measured)


def rule(
    reads: str, *kinds: Kind
) -> Callable[[Callable[[Measured], Iterator[Finding]]], Rule[Measured]]:
    """Declare a function as a rule.

    Args:
        reads: See `Rule`.
        kinds: See `Rule`.
    """
    return lambda find: Rule(find, reads, kinds)


def kinds_of(rules: tuple[Rule, ...]) -> tuple[Kind, ...]:
    """What rules may find, each once, in their order."""
    return tuple(dict.fromkeys(kind for rule in rules for kind in rule.kinds))


# ------------------------------------------------------------------------------
# What a scan of a checkpoint yields.

Effort = Literal["full", "leading"]


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix of a checkpoint.

    Attributes:
        site: Its name: that of the tensor, with the part in brackets where a tensor holds several
            (`"h.0.attn.c_attn.weight[q]"`).
        kind: What it is in the network (`"attention query"`, `"linear"`, `"embedding"`), by which
            matrices are compared with one another.
        depth: Number of its block in the network; -1 where its name has none.
        rows: Outputs of the map.
        cols: Inputs of the map.
        dtype: How its numbers are stored.
        tensors: Names of what it is read from.
        bytes: How much of the checkpoint is read for it.
        effort: `"full"` where all singular values are computed, `"leading"` where the largest are.
        work: Expected multiplications.
        form: As of a reading: `"matrix"`, `"kernel"`, `"operator"`, `"product"`.
    """

    site: str
    kind: str
    depth: int
    rows: int
    cols: int
    dtype: str
    tensors: tuple[str, ...]
    bytes: int
    effort: Effort
    work: float
    form: str = "matrix"

    @property
    def shape(self) -> tuple[int, int]:
        """`(rows, cols)`."""
        return self.rows, self.cols


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ScanPlan(Shown):
    """What a scan will do, from headers alone.

    Attributes:
        source: The checkpoint, as it was named.
        matrices: In the order of the checkpoint.
        skipped: What is left out, each with the reason; `what` is `"tensor"`.
        tensors: How many the checkpoint holds.
        bytes: How many are read.
        seconds: Processor time expected, from rates measured here.
        memory: Peak of one process, in bytes.
        workers: Processes.
        about: Format and circumstances, as words.
        settings: What was asked, as words; a scan that is gone on with must have the same.
    """

    source: str
    matrices: tuple[Matrix, ...]
    skipped: tuple[Skipped, ...]
    tensors: int
    bytes: int
    seconds: float
    memory: int
    workers: int = 1
    about: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Scan(Shown):
    """Everything measured of the matrices of a checkpoint.

    Attributes:
        plan: What was to be done.
        readings: In the order of the matrices; `site` is that of the matrix, or `"a → b"` of two
            that meet.
        spectra: The singular values behind them, as far as they were kept.
        skipped: What was not measured of them, each with the reason; `plan.skipped` has the
            tensors that are no matrices.
        about: Circumstances, as words.
    """

    plan: ScanPlan
    readings: tuple[Reading, ...]
    spectra: tuple[SiteSpectrum, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    about: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """The matrices, in the order of the checkpoint."""
        return self.plan.matrices

    def series(self, name: str, *, site: str | None = None) -> tuple[Reading, ...]:
        """Readings of one quantity, in the order of the matrices."""
        return tuple(r for r in self.readings if r.quantity == name and site in (None, r.site))
