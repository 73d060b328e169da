"""Results as columns, for a data frame."""

from collections.abc import Iterable
from typing import Any

from sigmascope.records.encoding import wide
from sigmascope.report.explanations import Explanation, Explanations
from sigmascope.report.registry import by_kind, is_record_of_ours, refused

_FIRST = ("site", "depth", "view", "form", "quantity")  # who and what, then numbers


def table(result: Any) -> dict[str, list[Any]]:
    """The rows of a result as equally long columns: readings of a profile, changes, layers.

    Args:
        result: A result of this library, another of its records, or several of one kind.

    Returns:
        The fields of the records, numbers as `value, low, high, how, risk`. Readings of a profile
        have a `depth` besides, the order of the layer that is, or applies, the site; one past the
        last for the network's output; None where the site belongs to no layer. A scan has a row
        for each matrix, and a column for each quantity.

    Raises:
        TypeError: If it is no record of this library.

    Example:
        >>> from sigmascope.records import Estimate, Profile, Reading
        >>> row = Reading("fc", "stable rank", Estimate.exactly(3.0), "weights", "matrix")
        >>> table(Profile(readings=(row,)))["value"]
        [3.0]
    """
    return columns(result)


@by_kind
def columns(result: Any) -> dict[str, list[Any]]:
    """What `table` gives, as the product that a result belongs to has registered it."""
    if not is_record_of_ours(result):
        raise refused(result)
    return row_columns(type(result), (result,))


def row_columns(kind: type, rows: Iterable[Any], **more: list[Any]) -> dict[str, list[Any]]:
    """A column for each field of records of one kind, and more; those that say where come first."""
    rows = tuple(rows)
    found = {column.name: [column.of(row) for row in rows] for column in wide(kind)} | more
    first = [name for name in _FIRST if name in found]
    return {name: found[name] for name in (*first, *(n for n in found if n not in first))}


@columns.register
def _explanations(found: Explanations) -> dict[str, list[Any]]:
    return row_columns(Explanation, found.senses)
