"""Cases of which a share is tried at each commit, and all of them each night."""

from collections.abc import Iterable
from typing import Any

import pytest


def some(values: Iterable[Any], *, of: int = 3) -> list[Any]:
    """Cases for `parametrize`: every `of`-th is quick, and the others are slow.

    Args:
        values: Cases; tuples are several arguments.
        of: How many there are for each that is quick.
    """
    cases = [v if isinstance(v, tuple) else (v,) for v in values]
    marks = lambda k: () if k % of == 0 else pytest.mark.slow
    return [pytest.param(*case, marks=marks(k)) for k, case in enumerate(cases)]
