"""Rules on how the weights were drawn."""

from collections.abc import Iterator

from sigmascope.diagnosis.remedies.reinitialisation import SHIFTED
from sigmascope.diagnosis.rules.trends import over_depth
from sigmascope.records import Finding, Profile

FEWEST = 3  # layers, so that the products of their means are what the network computes


def asymmetric_weights(profile: Profile) -> Iterator[Finding]:
    """Weights whose mean is not small beside their spread, in most layers of a deep network."""
    shifts = profile.series("mean shift", view="weights")
    applied = {name for layer in profile.layers for name in layer.parameters}
    shifts = [r for r in shifts if r.site in applied]
    large = [r for r in shifts if r.estimate.low > SHIFTED]
    if len(shifts) < FEWEST or 2 * len(large) <= len(shifts):
        return
    worst = max(large, key=lambda r: r.estimate.value)
    ratio = over_depth(profile, "participation ratio", form="samples").readings[-1:]
    reached = "".join(
        f" The participation ratio at {r.site} is {r.estimate.value:.3g}." for r in ratio
    )
    yield Finding(
        "asymmetric-weights",
        large[0].site,
        "warning",
        (worst, large[0], *ratio) if worst != large[0] else (worst, *ratio),
        f"In {len(large)} of {len(shifts)} layers the mean of the weights is not small beside "
        f"their spread (in {worst.site} the mean alone has {worst.estimate.value:.2g} times the "
        "largest singular value that the spread accounts for): each layer maps all samples "
        "towards one direction, and batch normalisation, which needs weights that are symmetric "
        f"around zero, does not prevent it.{reached}",
        "Daneshmand et al. 2020, Sec. 5 (breaking batch normalisation) and Definition 1",
    )
