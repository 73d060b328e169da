"""What every room raises where it will not go on."""

import unicodedata
from collections.abc import Callable


class Refusal(ValueError):
    """Something that cannot be done as asked: what was expected, what came, what to do now.

    The message is written for the person who asked; the command line shows it and ends with 2.
    """


class NoFolder(Refusal, FileNotFoundError):
    """A file cannot be written, for there is no folder for it."""


# Cc control (escape sequences), Cf format (text direction), Cs surrogate, Zl and Zp line ends
_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def printable(text: str, *, by: Callable[[str], str] = _written) -> str:
    r"""`text` in one line with every character that would act on a screen written out.

    Example:
        >>> printable("red \x1b[31m")
        'red \\x1b[31m'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(by(c) if unicodedata.category(c) in _ACTING else c for c in text)


def printable_lines(text: str) -> str:
    r"""`printable` of every line; ends of lines stay.

    Example:
        >>> printable_lines("two\nlines\a")
        'two\nlines\\x07'
    """
    return "\n".join(printable(line) for line in text.split("\n"))
