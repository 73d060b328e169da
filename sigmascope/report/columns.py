"""Readings as columns, for a data frame."""

from typing import Any

from sigmascope.records import Profile
from sigmascope.report.places import depths


def table(profile: Profile) -> dict[str, list[Any]]:
    """One row per reading, as equally long columns.

    Returns:
        `site, depth, view, form, quantity, value, low, high, how, risk`. `depth` is the order of
        the layer that is, or applies, the site; one past the last for the network's output; None
        where the site belongs to no layer.

    Example:
        >>> from sigmascope.records import Estimate
        >>> from sigmascope.records import Reading
        >>> row = Reading("fc", "stable rank", Estimate.exactly(3.0), "weights", "matrix")
        >>> table(Profile(readings=(row,)))["value"]
        [3.0]
    """
    depth, rows = depths(profile), profile.readings
    return {
        "site": [r.site for r in rows],
        "depth": [depth.get(r.site) for r in rows],
        "view": [r.view for r in rows],
        "form": [r.form for r in rows],
        "quantity": [r.quantity for r in rows],
        "value": [float(r.estimate.value) for r in rows],
        "low": [float(r.estimate.low) for r in rows],
        "high": [float(r.estimate.high) for r in rows],
        "how": [r.estimate.how for r in rows],
        "risk": [float(r.estimate.risk) for r in rows],
    }
