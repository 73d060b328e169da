"""Measurements that may fail without the others."""

from collections.abc import Iterable, Iterator

from sigmascope.probes import in_words
from sigmascope.survey.readings import Item, Skipped


def tried(items: Iterable[Item], what: str) -> Iterator[Item]:
    """The items up to the first failure, which is told in their place.

    Args:
        items: Measured one after the other, as they are asked for.
        what: They are, in words.
    """
    try:
        yield from items
    except Exception as error:  # noqa: BLE001 (models fail in every way; the line says which)
        yield Skipped("(all layers)", what, in_words(error))
