"""Rules on the sizes of activations and derivatives."""

from collections.abc import Iterator
from statistics import median

from sigmascope.diagnosis.rules.setup import ZERO
from sigmascope.diagnosis.rules.trends import Series, over_depth
from sigmascope.records import Finding, Profile, Reading, Severity

SIZE_ERROR, SIZE_WARNING = 1e8, 1e5  # of the mean square, over the whole depth
ADJOINT_ERROR, ADJOINT_WARNING = 1e6, 1e4  # of the norm, over the whole depth
JUMPS = 100.0  # of the gradient over the weight, from the last layers to the first
DEAD_ERROR, DEAD_WARNING = 0.95, 0.75


def non_finite(profile: Profile) -> Iterator[Finding]:
    """Values that overflowed or became undefined inside the network."""
    found = profile.series("non-finite entries")
    if found:
        first = found[0]
        what = "what it reads" if first.view == "representations" else "its derivative"
        yield Finding(
            "non-finite",
            first.site,
            "error",
            found[:8],
            f"From layer {first.site} on {what} holds infinities or nan "
            f"({first.estimate.value:.0f} entries there): the computation overflows or divides by "
            "zero.",
            "IEEE 754",
            (
                "Scale the inputs and the initial weights down, or normalise before this layer.",
                "If it is half precision, run this layer in bfloat16 or float32.",
            ),
        )


def signal_size(profile: Profile) -> Iterator[Finding]:
    """Activations that shrink or grow by orders of magnitude over the depth."""
    size = over_depth(profile, "mean square", form="samples")
    if len(size.readings) < 3:
        return
    first, last = size.readings[0], size.readings[-1]
    a, b = first.estimate.value, last.estimate.value
    if a <= 0:
        return
    fit = Series(size.readings[1:], size.depths[1:]).trend()
    pace = f", by a factor {fit.says()} per layer" if fit else ""
    if b == 0:
        zero = next(r for r in size.readings if r.estimate.value == 0)
        yield _signal(
            "vanishing", zero, (first, zero), "error", f"reaches exactly zero at {zero.site}{pace}"
        )
    elif b / a < 1 / SIZE_WARNING:
        severity = "error" if b / a < 1 / SIZE_ERROR else "warning"
        yield _signal(
            "vanishing", last, (first, last), severity, f"falls from {a:.2g} to {b:.2g}{pace}"
        )
    elif b / a > SIZE_WARNING:
        severity = "error" if b / a > SIZE_ERROR else "warning"
        yield _signal(
            "exploding", last, (first, last), severity, f"grows from {a:.2g} to {b:.2g}{pace}"
        )


def _signal(
    kind: str, at: Reading, evidence: tuple[Reading, ...], severity: Severity, what: str
) -> Finding:
    return Finding(
        f"{kind}-signal",
        at.site,
        severity,
        evidence,
        f"The mean square of the activations {what}.",
        "He et al. 2015, Sec. 2.2",
    )


def adjoint_size(profile: Profile) -> Iterator[Finding]:
    """Derivatives of the output that shrink or grow by orders of magnitude on the way back."""
    size = over_depth(profile, "adjoint norm")
    if len(size.readings) < 3 or size.values()[-1] <= 0:
        return
    ratio = size.values()[0] / size.values()[-1]
    if ratio == 0 and any(r.estimate.value > 0 for r in profile.series(ZERO, form="")):
        return  # behind a weight that starts at zero, and moves
    if ratio > 1 and not _jumps(profile):
        return
    for kind, beyond, extreme in (
        ("vanishing", ratio < 1 / ADJOINT_WARNING, ratio < 1 / ADJOINT_ERROR),
        ("exploding", ratio > ADJOINT_WARNING, ratio > ADJOINT_ERROR),
    ):
        if beyond:
            yield _adjoints(kind, size, "error" if extreme else "warning")


def _adjoints(kind: str, size: Series, severity: Severity) -> Finding:
    first, last, fit = size.readings[0], size.readings[-1], size.trend()
    pace = f", by a factor {fit.says()} from each layer to the next" if fit else ""
    return Finding(
        f"{kind}-adjoints",
        first.site,
        severity,
        (first, last),
        f"The derivative of the output with respect to what layer {first.site} writes has "
        f"norm {first.estimate.value:.2g}, against {last.estimate.value:.2g} at {last.site}{pace}: "
        "at a step that suits the last layers, the first learn "
        f"{'nothing' if kind == 'vanishing' else 'in jumps'}.",
        "Glorot & Bengio 2010, Sec. 4.2.1",
    )


def _jumps(profile: Profile) -> bool:
    """Whether the first layers move far more than the last, by the gradient of the loss itself.

    Derivatives are taken with the statistics of batch normalisers held constant, which they are not
    in training. True where nothing was read of the gradient.
    """
    names = [name for layer in profile.layers for name in layer.parameters]
    size = {r.site: r.estimate.value for r in profile.series("relative gradient")}
    moved = [size[name] for name in dict.fromkeys(names) if size.get(name, 0.0) > 0]
    third = len(moved) // 3
    held = profile.series("batch statistics")
    return not held or not third or median(moved[:third]) > JUMPS * median(moved[-third:])


def dead_units(profile: Profile) -> Iterator[Finding]:
    """Layers nearly all of whose units are zero on every sample."""
    found = [
        r for r in over_depth(profile, "dead units").readings if r.estimate.value >= DEAD_WARNING
    ]
    if found:
        worst = max(found, key=lambda r: r.estimate.value)
        others = f" (and most units of {len(found) - 1} other layers)" if len(found) > 1 else ""
        yield Finding(
            "dead-units",
            found[0].site,
            "error" if worst.estimate.value >= DEAD_ERROR else "warning",
            tuple(found[:8]),
            f"{100 * worst.estimate.value:.0f} % of the units that {worst.site} reads are zero "
            f"on every sample{others}: they pass nothing on and learn nothing.",
            "Lu et al. 2019, Sec. 3",
            (
                "Lower the learning rate that killed them, or start from smaller biases.",
                "Use a leaky activation.",
            ),
        )
