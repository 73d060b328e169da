"""Results show themselves, in a terminal, in a notebook and as a data frame."""

import importlib
from typing import Any

LINES = 32  # of a screen


class Shown:
    """A result that prints as its command prints it, and is a card in a notebook.

    The one look upward in the house: records lie below `report`, which knows what they look like,
    so that it is asked for by name, when something is shown and not before.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        try:
            lines = _report().text(self).rstrip().split("\n")
        except Exception as error:  # noqa: BLE001 (a debugger shows what is half made, too)
            return f"<{type(self).__name__} that cannot be shown: {type(error).__name__}: {error}>"
        if len(lines) <= LINES:
            return "\n".join(lines)
        more = f"… {len(lines) - LINES + 1} more lines: print(sigmascope.text(result))"
        return "\n".join((*lines[: LINES - 1], more))

    def _repr_html_(self) -> str:
        return _report().html(self)

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
        return pandas.DataFrame(_report().table(self))


def _report() -> Any:
    return importlib.import_module("sigmascope.report")
