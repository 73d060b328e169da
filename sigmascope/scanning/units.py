"""Matrices of any scale are measured over a power of two; here numbers come back from it."""

from dataclasses import replace

from sigmascope.linalg.krylov import times
from sigmascope.quantities import quantity
from sigmascope.records import Item, Reading, SiteSpectrum


def in_unit(item: Item, power: int) -> Item:
    """What was measured of a matrix over `2^power`, of the matrix itself."""
    if power and isinstance(item, SiteSpectrum):
        s = item.spectrum
        low, sigma, high = (times(end, power) for end in (s.low, s.sigma, s.high))
        return replace(item, spectrum=replace(s, sigma=sigma, low=low, high=high))
    if power and isinstance(item, Reading) and quantity(item.quantity).unit == "weight":
        half = power // 2
        scaled = item.estimate * 2.0**half * 2.0 ** (power - half)
        return replace(item, estimate=scaled.at_least(0.0))
    return item
