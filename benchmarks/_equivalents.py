"""Changes that change nothing, each with its reason: the tests cannot notice them."""

from pathlib import Path
from typing import Any

# file under sigmascope/, before, after -> why
SAME: dict[tuple[str, str, str], str] = {}


def reason(root: Path, row: dict[str, Any]) -> str:
    """Why a change changes nothing; empty where it is not listed."""
    return SAME.get((row["path"].removeprefix("sigmascope/"), row["before"], row["after"]), "")
