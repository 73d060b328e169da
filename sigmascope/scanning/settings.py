"""What is asked of a scan."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from sigmascope.gate import Refusal
from sigmascope.quantities import SCAN, in_view
from sigmascope.scanning.rules import Rule
from sigmascope.sources.stored import Checkpoint, open_checkpoint

Asked = Literal["auto", "full", "leading"]
Origin = str | os.PathLike[str] | nn.Module | Mapping[str, Any] | Checkpoint


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked of a scan.

    Attributes:
        only: Patterns of names.
        skip: Patterns of names that are left out.
        wanted: Names of quantities.
        effort: How many singular values are computed.
        heads: Whether attention is split into heads.
        grid: Points along each side on which convolutions are operators too; 0 for their kernels.
        rules: A user's own.
        seed: Of everything that is drawn.
        spectra: Whether singular values are kept.
        memory: Bytes for one process.
    """

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    wanted: frozenset[str] = frozenset()
    effort: Asked = "auto"
    heads: bool = False
    grid: int = 0
    rules: tuple[Rule, ...] = ()
    seed: int = 0
    spectra: bool = True
    memory: int = 2**62

    def words(self) -> dict[str, str]:
        """As a run file keeps them, to know whether another scan is the same."""
        names = ("only", "skip", "effort", "heads", "grid", "seed", "spectra", "rules")
        return {
            **{name: repr(getattr(self, name)) for name in names},
            "quantities": ", ".join(sorted(self.wanted)),
        }


def quantities_named(names: Iterable[str] | None) -> frozenset[str]:
    """Names of quantities of a scan; all of them if none are given.

    Raises:
        Refusal: If one is not read of checkpoints.
    """
    known = {q.name for q in in_view(SCAN)}
    asked = frozenset(names) if names is not None else frozenset(known)
    if odd := sorted(asked - known):
        raise Refusal(
            f"A quantity of a scan must be one of {', '.join(sorted(known))}; got {odd[0]!r}."
        )
    return asked


def opened(source: Origin) -> Checkpoint:
    """A checkpoint by its headers.

    Raises:
        Refusal: If it cannot be opened.
    """
    return source if isinstance(source, Checkpoint) else open_checkpoint(source)
