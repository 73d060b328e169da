"""What is said of a measurement that could not be made."""

import traceback
from pathlib import Path

from sigmascope.probes.refusals import Refusal

PACKAGE = Path(__file__).parents[1]


def is_ours(error: Exception) -> bool:
    """Whether it was raised by a line of this package, and not by the model or by torch."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and PACKAGE in Path(frames[-1].filename).parents


def in_words(error: Exception) -> str:
    """A refusal's own sentence; of anything else its kind, its words and where we met it.

    What fails may be the model, torch or this package: all three can be told from the line.
    """
    if isinstance(error, Refusal):
        return str(error)
    words = " ".join(str(error).split())[:300]
    said = f"{type(error).__name__}: {words}" if words else f"{type(error).__name__}, without words"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if PACKAGE in Path(f.filename).parents]
    at = ours[-1] if ours else None
    place = "" if at is None else f" (at {Path(at.filename).relative_to(PACKAGE)}:{at.lineno})"
    return f"it failed with {said}{place}"
