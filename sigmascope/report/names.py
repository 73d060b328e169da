"""Names of layers as they can be shown: anything may be in them, nothing of it may act."""

import unicodedata

# Cc control (escape sequences), Cf format (text direction), Cs surrogate, Zl and Zp line ends
_ACTING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(name: str) -> str:
    r"""`name` with every character that would act on a screen written out.

    Example:
        >>> printable("red \x1b[31m")
        'red \\x1b[31m'
    """
    return "".join(_written(c) if unicodedata.category(c) in _ACTING else c for c in name)


def shortened(name: str, width: int) -> str:
    """`name` with its middle left out where it is longer than `width`.

    Example:
        >>> shortened("encoder.layers.11.attention.query", 20)
        'encoder.l…tion.query'
    """
    if len(name) <= width:
        return name
    tail = width // 2
    return f"{name[: width - tail - 1]}…{name[len(name) - tail :]}"


def _written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
