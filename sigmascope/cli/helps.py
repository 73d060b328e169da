"""What the help of a command shows beside its options, and the documentation with it."""

import inspect
from collections.abc import Callable
from typing import Any


def examples(command: Callable[..., Any]) -> str:
    """What stands under `Examples:` in the docstring of a command: comments, and lines to paste."""
    words = inspect.getdoc(command) or ""
    _, _, below = words.partition("\nExamples:\n")
    return inspect.cleandoc("\n" + below.partition("\n\nArgs:\n")[0])


def epilogue(command: Callable[..., Any]) -> str:
    """The same as the end of a page of help, in Markdown."""
    return f"Examples\n\n```\n{examples(command)}\n```"
