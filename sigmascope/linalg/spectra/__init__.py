"""Singular values, and what is counted or kept of them."""

from sigmascope.linalg.spectra.batched import spectra
from sigmascope.linalg.spectra.inertia import count_above, counts_above
from sigmascope.linalg.spectra.moments import Moments
from sigmascope.linalg.spectra.routes import Route, spectrum
from sigmascope.linalg.spectra.subspaces import principal_angles
from sigmascope.linalg.spectra.work import Work, counted

__all__ = [
    "Moments",
    "Route",
    "Work",
    "count_above",
    "counted",
    "counts_above",
    "principal_angles",
    "spectra",
    "spectrum",
]
