"""Functions that every kind of result brings its own of: how it looks, its JSON, its rows.

`report` knows no product. A product registers what its results look like in the modules that
`products.PRESENTATIONS` names; they are imported when a result is shown that nothing is known of.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import singledispatch, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from sigmascope import products
from sigmascope.guard import WrongKind, came
from sigmascope.records import Shown

P = ParamSpec("P")
T = TypeVar("T")


class ByKind(Generic[P, T]):
    """A function of a result that does what was registered for its kind.

    Args:
        otherwise: For results of which no product knows.
    """

    def __init__(self, otherwise: Callable[P, T]) -> None:
        self._by = singledispatch(otherwise)
        update_wrapper(self, otherwise)

    def __call__(self, *args: P.args, **more: P.kwargs) -> T:
        kind, unknown = type(args[0]), self._by.dispatch(object)
        for name in products.PRESENTATIONS:
            if self._by.dispatch(kind) is not unknown:
                break
            products.modules((name,))
        return self._by.dispatch(kind)(*args, **more)

    def register(self, own: Callable[..., T]) -> Callable[..., T]:
        """What is done with results of the kind that the first argument is annotated with."""
        return self._by.register(own)


def by_kind(otherwise: Callable[P, T]) -> ByKind[P, T]:
    """As a decorator of what is done with results of which no product knows."""
    return ByKind(otherwise)


def is_record_of_ours(result: Any) -> bool:
    """Whether a value is a record of this library, or a result that a user derived from one."""
    if isinstance(result, Shown):
        return True
    ours = type(result).__module__.partition(".")[0] == Shown.__module__.partition(".")[0]
    return ours and is_dataclass(result) and not isinstance(result, type)


def refused(result: Any) -> WrongKind:
    """What is raised where there is nothing else to be done."""
    return WrongKind(
        f"A result of this library was expected, got {came(result)}. Pass what `profile`, `judge` "
        "or another of its functions gave."
    )
