"""Every remedy, listed by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, final

from torch import Tensor, nn

from sigmascope.core.guard import Refusal, WrongKind, door, listed, nearest, shown
from sigmascope.core.records import Finding, Kind, Profile
from sigmascope.diagnosis.remedies.base import Remedy
from sigmascope.diagnosis.remedies.batch_normalisation import BatchNormalisation, LayerNormalisation
from sigmascope.diagnosis.remedies.closings import (
    EndInLinear,
    EndInSigmoid,
    EndInSoftmax,
    StandardiseTargets,
)
from sigmascope.diagnosis.remedies.long_memory import LongMemory
from sigmascope.diagnosis.remedies.rank_pretraining import RankPretraining
from sigmascope.diagnosis.remedies.reinitialisation import RecentreWeights, Reinitialise
from sigmascope.diagnosis.remedies.skip_connections import (
    RescaleResidual,
    SkipConnections,
    ZeroBranches,
)
from sigmascope.diagnosis.remedies.unit_scale import QuietOutput, StandardiseInputs, UnitScale
from sigmascope.models.samples import Batch

REMEDIES: tuple[type[Remedy], ...] = (
    EndInSigmoid,
    EndInSoftmax,
    EndInLinear,
    StandardiseInputs,
    StandardiseTargets,
    BatchNormalisation,
    RankPretraining,
    RescaleResidual,
    ZeroBranches,
    LongMemory,
    UnitScale,
    SkipConnections,
    LayerNormalisation,
    Reinitialise,
    RecentreWeights,
    QuietOutput,
)


@final
@dataclass(frozen=True, slots=True)
class Together(Remedy):
    """Several remedies, one after the other.

    Attributes:
        parts: In the order in which they are applied.
    """

    parts: tuple[Remedy, ...]

    # What single remedies know of their class, a combination derives from its parts. Both are read
    # on instances only, so that a property may stand in for a class variable; pyright cannot know.
    @property
    def name(self) -> str:  # type: ignore[override]
        return "+".join(part.name for part in self.parts)

    @property
    def cures(self) -> tuple[Kind, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(kind for part in self.parts for kind in part.cures))

    @property
    def says(self) -> str:  # type: ignore[override]
        return " Then: ".join(part.says for part in self.parts)

    @property
    def source(self) -> str:  # type: ignore[override]
        return "; ".join(part.source for part in self.parts)

    @property
    def rebuilds(self) -> bool:  # type: ignore[override]
        return any(part.rebuilds for part in self.parts)

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        for part in self.parts:
            part.change(model, batches)


def informed(remedy: Remedy, targets: Any) -> Remedy:
    """The remedy with the targets of the task, where it works with them and has none yet.

    Args:
        remedy: One, or several together.
        targets: Of the task; what is no tensor tells it nothing.
    """
    if isinstance(remedy, Together):
        return Together(tuple(informed(part, targets) for part in remedy.parts))
    lacks = isinstance(remedy, StandardiseTargets) and remedy.targets is None
    return StandardiseTargets(targets) if lacks and isinstance(targets, Tensor) else remedy


def in_code(remedy: Remedy) -> str:
    """The call that makes this remedy, after `import sigmascope as ss`; empty for a user's own.

    What cannot be written down, as targets, goes by its name.

    Example:
        >>> in_code(RankPretraining(steps=5))
        "ss.remedy('rank-pretraining', steps=5)"
    """
    if isinstance(remedy, Together):
        parts = [in_code(part) for part in remedy.parts]
        plain = all(code == _call(part, ()) for code, part in zip(parts, remedy.parts, strict=True))
        several = f"ss.diagnosis.remedies.Together(({', '.join(parts)}))"
        return "" if not all(parts) else _call(remedy, ()) if plain else several
    if type(remedy) not in REMEDIES:
        return ""
    assert is_dataclass(remedy)
    values = [(f, getattr(remedy, f.name)) for f in fields(remedy)]
    given = [(f, v) for f, v in values if v is not f.default and v != f.default]
    return _call(remedy, [f"{f.name}={v!r}" if f.repr else f"{f.name}={f.name}" for f, v in given])


def _call(remedy: Remedy, options: Sequence[str]) -> str:
    return f"ss.remedy({', '.join([repr(remedy.name), *options])})"


@door
def remedy(name: str, **options: Any) -> Remedy:
    """A remedy by its name, with options of its own; `"a+b"` is one after the other.

    Raises:
        Refusal: If there is no such remedy, with those that are nearest; or it has no such option.
    """
    if "+" in name:
        if options:
            raise WrongKind(
                f"Options go with one remedy, got {listed(options)} for `{shown(name)}`. Make each "
                "by itself: `diagnosis.remedies.Together((remedy(...), remedy(...)))`."
            )
        return Together(tuple(remedy(part) for part in name.split("+")))
    for kind in REMEDIES:
        if kind.name == name:
            assert is_dataclass(kind)
            takes = [f.name for f in fields(kind) if f.init]
            unknown = [o for o in options if o not in takes]
            if unknown:
                has = f"it takes {listed(takes)}" if takes else "it takes none"
                raise WrongKind(
                    f"`{name}` has no option `{shown(unknown[0])}`; {has}."
                    f"{nearest(unknown[0], takes)}"
                )
            return door(kind)(**options)  # which sees to their kinds
    names = [kind.name for kind in REMEDIES]
    hint = nearest(name, names, most=3)
    raise Refusal(f"There is no remedy `{name}`; there are {', '.join(names)}.{hint}")


@door
def remedies_for(finding: Finding, profile: Profile | None = None) -> tuple[Remedy, ...]:
    """The remedies that are expected to cure a finding, in the order in which to try them.

    Args:
        finding: What was found.
        profile: Of the model; those that need what was not read in it are left out.
    """
    order = {
        kind: [cured.name for cured in kind.cures].index(finding.name)
        for kind in REMEDIES
        if any(cured.name == finding.name for cured in kind.cures)
        and (profile is None or not kind.needs or profile.series(kind.needs))
    }
    return tuple(kind() for kind in sorted(order, key=lambda kind: order[kind]))
