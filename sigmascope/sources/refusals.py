"""What this room says when a name leads nowhere."""

from collections.abc import Iterable

from sigmascope.guard import printable

LONG = 200  # letters of a name in a sentence


def told(error: BaseException) -> str:
    """Class and first line of an exception, for use within a sentence.

    Then those of the exception that it was raised from, at the root: libraries hide what was wrong
    behind one that says that something was.
    """
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    return ", from ".join(dict.fromkeys(_head(e) for e in (chain[0], chain[-1])))


def _head(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if not lines:
        return type(error).__name__
    head = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{type(error).__name__}: {head.rstrip('.')}"


def shown(text: object) -> str:
    """A name from outside for a sentence: in one line, and not longer than a screen has."""
    name = str(text)
    return printable(name if len(name) <= LONG else name[:LONG] + "…")


def listed(words: Iterable[str], *, most: int = 5) -> str:
    """The words with commas between them, the tail counted where there are many."""
    words = list(words)
    tail = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(f"`{w if len(w) <= LONG else w[:LONG] + '…'}`" for w in words[:most]) + tail
