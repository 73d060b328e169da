"""Which page of the documentation explains a refusal: one table, by its words and its command."""

import re
from typing import Final

REPOSITORY: Final = "https://github.com/sigmascope/sigmascope"
DOCS: Final = f"{REPOSITORY}/blob/main/docs"

OWN = "getting-started.md#your-own-model-and-data"
# by words of the refusal, whatever the command; the first that is found
BY_WORDS: Final = (
    (r"Ray|--workers|--memory|do not fit", "scale.md"),
    (r"run file|is damaged: ", "runs.md"),
    (
        r"cannot be `--|must name a file|cannot be written|disk is full|make room",
        "reliability.md#what-goes-out",
    ),
    (r"file\.py:|loader|targets|samples must|`--batch-dim`|state dict", OWN),
)
# by the command, where no words are found
BY_COMMAND: Final = {
    "profile": OWN,
    "diagnose": "diagnose.md",
    "scan": "scan.md#what-can-be-read",
    "check": "theorems.md",
    "remedy": "remedies.md",
    "balances": "balances.md",
    "compare": "watching.md#two-runs-compared",
    "bottleneck": "bottleneck.md",
    "compress": "compression.md",
    "landscape": "landscape.md",
    "scale": "landscape.md#before-there-is-a-network",
    "predict": "chains.md",
    "rank": "trainability.md#which-of-these-designs",
    "reproduce": "reproduce.md",
    "theorems": "theorems.md",
    "explain": "cli.md#sigmascope-explain",
    "export": "runs.md",
    "view": "watching.md#a-page-that-follows-a-run",
}


def explaining(command: str, refusal: str) -> str:
    """The address of the page that explains a refusal.

    Args:
        command: The one that refused.
        refusal: Its words.

    Returns:
        An address; that of the page of commands where there is no such command.
    """
    by_words = (page for words, page in BY_WORDS if re.search(words, refusal))
    return f"{DOCS}/{next(by_words, BY_COMMAND.get(command, 'cli.md'))}"


def using(command: tuple[str, ...]) -> str:
    """The address of the section on a command and its options."""
    place = "".join(f"-{word}" for word in command)
    return f"{DOCS}/cli.md{f'#sigmascope{place}' if place else ''}"
