"""Which findings follow from which: one cause is named first, with what it brings under it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sigmascope.records import Finding, Severity

NO_PROGRESS, STUCK = "no-progress", "stuck"
ORDER: tuple[Severity, ...] = ("error", "warning", "note")
SIZES = (
    "exploding-signal",
    "vanishing-signal",
    "exploding-adjoints",
    "vanishing-adjoints",
    "tangent-size",
)
TRAINING = (
    "rate-too-high",
    "rate-too-low",
    "few-steps",
    "other-optimiser",
    "large-batch",
)
SETTINGS = (*TRAINING, "strong-weight-decay", "strong-momentum", "strong-clipping")
LEAKS = ("later-inputs-seen", "copied-targets")  # a task is easier with them, so that none is stuck
COLLAPSE = ("rank-collapse", "directional-gradient-vanishing", "forgotten-targets")
CUT = ("no-gradient", "directional-gradient-vanishing")  # by an output that is wrong
# every cause with what it brings, the deepest causes first
BRINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "foreign-optimiser": TRAINING,
        "alike-inputs": (*COLLAPSE, "unrelated-targets", "no-gradient", "equal-units"),
        "repeated-inputs": ("unrelated-targets", "directional-gradient-vanishing"),
        "constant-output": (
            *TRAINING,
            "no-tangents", "no-gradient", "out-of-reach", "unscaled-targets", *COLLAPSE,
            "squared-error-for-classes",
        ),
        "indifferent-loss": (*TRAINING, "no-gradient", "classes-on-one-output", *COLLAPSE),
        "unpaired-loss": (*TRAINING, "out-of-reach", "no-gradient", *COLLAPSE),
        "reversed-loss": (
            *TRAINING, "out-of-reach", "raw-output", "unsuited-closing", "loud-output",
            "unscaled-targets", *COLLAPSE, "no-gradient",
        ),
        "omitted-class": (),
        "single-target": (*TRAINING, "unrelated-targets", *COLLAPSE),
        "classes-on-one-output": (*TRAINING, "out-of-reach", "unscaled-targets"),
        "spread-targets": (*TRAINING, "out-of-reach", "directional-gradient-vanishing"),
        "shared-classes": (*TRAINING, "out-of-reach", "squared-error-for-classes"),
        "raw-output": (*TRAINING, "loud-output", *CUT),
        "unsuited-closing": (*TRAINING, "out-of-reach", *CUT),
        "double-softmax": (*TRAINING, "out-of-reach", *CUT),
        "softmax-in-the-loss": (*TRAINING, *CUT),
        "out-of-reach": (
            *TRAINING, "unscaled-targets", "loud-output", "squared-error-for-classes", *CUT,
        ),
        "unscaled-targets": ("loud-output",),
        "zero-weights": (
            *SIZES, *COLLAPSE, "equal-units", "lost-inputs", "dead-units", "no-gradient",
            "no-tangents", "layer-gain", "linear-layers",
        ),
        "equal-units": (
            *COLLAPSE, "asymmetric-weights", *SIZES, "loud-output", "no-gradient", "linear-layers",
            "lost-inputs",
        ),
        "lost-inputs": (*COLLAPSE, "unrelated-targets", "no-gradient", "saturated-units"),
        "untouched-statistics": (
            *SIZES, *COLLAPSE, "loud-output", "strong-residual", "weight-scale", "non-finite",
        ),
        "stale-statistics": (
            *SIZES, *COLLAPSE, "loud-output", "strong-residual", "weight-scale", "non-finite",
            "saturated-units", "layer-gain", "dead-units", "hidden-collapse", "no-gradient",
        ),
        "mixed-samples": (
            "unrelated-targets", "later-inputs-seen", "out-of-reach", *TRAINING, *CUT,
        ),
        "later-inputs-seen": (),
        "copied-targets": (),
        "counted-padding": (),
        "heavy-dropout": (*COLLAPSE, *SIZES, "loud-output", "no-gradient", "dead-units"),
        "unused-layers": ("no-gradient", "no-tangents"),
        "unscaled-inputs": (
            *SIZES, "layer-gain", *COLLAPSE, "hidden-collapse", "loud-output", "saturated-units",
            "denormal-values", "no-gradient", *TRAINING,
        ),
        "offset-inputs": (
            *SIZES, "layer-gain", *COLLAPSE, "hidden-collapse", "loud-output", "saturated-units",
            "no-gradient", "unscaled-inputs", *TRAINING,
        ),
        "asymmetric-weights": (
            *COLLAPSE, *SIZES, "weight-scale", "layer-gain", "loud-output", "dead-units",
            "saturated-units", "strong-residual", "no-gradient",
        ),
        "exploding-through-time": (*SIZES, *TRAINING, "loud-output", "non-finite"),
        "vanishing-through-time": (*COLLAPSE, "no-gradient"),
        "strong-residual": (*SIZES, "layer-gain", "loud-output", *COLLAPSE, "non-finite"),
        "weight-scale": (
            *SIZES, "layer-gain", "loud-output", "saturated-units", "dead-units", *COLLAPSE,
            "non-finite", "denormal-values", "no-gradient", "unaligned-layers",
        ),
        "layer-gain": (
            *SIZES, "loud-output", "saturated-units", "denormal-values", "no-gradient",
        ),
        "sigmoid-stack": (*COLLAPSE, *SIZES, "saturated-units"),
        "linear-network": ("linear-layers",),
        "dead-units": ("silent-samples", *COLLAPSE, *SIZES, "no-gradient", "no-tangents"),
        "silent-samples": (*COLLAPSE, "no-gradient", "vanishing-signal"),
        "saturated-units": (*COLLAPSE, *SIZES, "no-gradient"),
        "frozen-layer": ("unaligned-layers",),
        "unregistered-weights": ("untrained-weights", *SETTINGS),
        "outweighed-error": ("loud-output", "unscaled-targets", *SETTINGS),
        "untrained-weights": TRAINING,
        "no-gradient": (),
        "linear-layers": (),
        "strong-weight-decay": ("other-optimiser",),
        "strong-momentum": ("other-optimiser",),
        "strong-clipping": ("other-optimiser",),
        "exploding-signal": (
            "tangent-size", "loud-output", "exploding-adjoints", "non-finite", "vanishing-adjoints",
        ),
        "vanishing-signal": (
            "tangent-size", "denormal-values", "vanishing-adjoints", *COLLAPSE, "no-gradient",
        ),
        "rank-collapse": (
            "directional-gradient-vanishing", "forgotten-targets", "vanishing-adjoints",
            "hidden-collapse",
        ),
        "vanishing-adjoints": ("no-gradient",),
    }
)  # fmt: skip


def grouped(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Causes first, each followed by what follows from it; the severest group first.

    A cause is as severe as the worst that it brings: what stops training does so through it. A
    setting is not: where four rates made no progress, that of the user is no proof against it.
    """
    found = list(findings)
    names = {f.name for f in found}
    roots = {f.name: _root(f.name, names) for f in found}
    rank = {name: place for place, name in enumerate(BRINGS)}
    causes = [f for f in found if roots[f.name] == f.name != NO_PROGRESS]
    causes = [f for f in causes if f.name not in (STUCK, *LEAKS) and f.severity != "note"]
    if causes:  # what every cause but a note may bring: the likeliest is blamed
        place = lambda f: (f.name in SETTINGS, _severity(f), rank.get(f.name, len(rank)))
        first = min(causes, key=place)
        roots |= {name: first.name for name in (NO_PROGRESS, STUCK) if name in names}
        if first.name in SETTINGS:  # at fault it may be, and that is no proof
            found = [f if f.name != NO_PROGRESS else replace(f, severity=first.severity)
                     for f in found]  # fmt: skip
    groups: dict[str, list[Finding]] = {}
    for f in found:
        root = roots[f.name]
        groups.setdefault(root, []).append(f if root == f.name else replace(f, follows=root))
    ordered = sorted(
        groups.items(),
        key=lambda pair: (min(map(_severity, pair[1])), rank.get(pair[0], len(rank))),
    )
    return tuple(f for name, group in ordered for f in _raised(name, group))


def _raised(cause: str, group: list[Finding]) -> list[Finding]:
    worst = ORDER[min(map(_severity, group))]
    first = [replace(f, severity=worst) for f in group if f.name == cause]
    return first + sorted((f for f in group if f.name != cause), key=_severity)


def _root(name: str, present: set[str]) -> str:
    """The deepest cause that is present and brings this."""
    for cause, brings in BRINGS.items():
        if name in brings and cause in present and cause != name:
            return _root(cause, present)
    return name


def _severity(f: Finding) -> int:
    return ORDER.index(f.severity)
