"""Names of layers, cut to a width."""


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
