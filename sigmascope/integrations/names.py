"""What looks are called elsewhere: `quantity/site`, so that tools show each quantity as a group."""

from collections.abc import Callable
from typing import Any

from sigmascope.core.guard import printable
from sigmascope.core.records import Finding, Reading, SiteSpectrum
from sigmascope.watching import OVER, Look

ALARM = "alarm"  # the group of alarms: 1 where one begins, 0 where it ends


def reading_name(reading: Reading) -> str:
    """`"participation ratio - samples/blocks.3"`; a quantity of one form goes without it.

    No two readings of a look share a name: the first `/` ends the quantity, which holds none.
    """
    return _under(reading.quantity, reading.form, reading.site)


def spectrum_name(spectrum: SiteSpectrum) -> str:
    """`"singular values - matrix/blocks.3"`."""
    return _under("singular values", spectrum.form, spectrum.site)


def alarm_name(finding: Finding) -> str:
    """`"alarm/rank-collapse/blocks.3"`, where it begins and where it ends."""
    return f"{ALARM}/{finding.name.removesuffix(OVER)}/{printable(finding.site)}"


def alarms(look: Look) -> dict[str, float]:
    """1 for every alarm that begins at a look, 0 for every one that ends, by `alarm_name`."""
    return {alarm_name(f): 0.0 if f.name.endswith(OVER) else 1.0 for f in look.findings}


def numbers(look: Look) -> dict[str, float]:
    """The value of every reading and every alarm of a look, by name."""
    return {reading_name(r): r.estimate.value for r in look.readings} | alarms(look)


def everything(look: Look, histogram: Callable[[list[float]], Any]) -> dict[str, Any]:
    """Numbers, spectra and what alarms say, by name.

    Args:
        look: A look.
        histogram: What a tool makes of singular values.
    """
    spectra = {spectrum_name(s): histogram(s.spectrum.sigma.tolist()) for s in look.spectra}
    says = {f"{alarm_name(f)}/says": f.says for f in look.findings}
    return {**numbers(look), **spectra, **says}


def _under(quantity: str, form: str, site: str) -> str:
    group = f"{quantity} - {form}" if form else quantity
    return f"{group}/{printable(site)}"
